import xml.etree.ElementTree as ET

import pytest

from nightjar.coordinator.web.pages import charts

LABELS = tuple(str(number) for number in range(200))
VALUES = tuple(float(number) for number in range(200))


@pytest.mark.parametrize("draw", [charts.lines, charts.bars])
def test_a_plot_has_a_name_and_neither_style_nor_script(draw):
    svg = draw('Recall & "more" <b>', LABELS, (("top-1", VALUES), ("top-3", VALUES)))
    root = ET.fromstring(svg)
    assert (root.get("role"), root.get("aria-label")) == ("img", 'Recall & "more" <b>')
    for forbidden in ("<style", "style=", "<script", "pygal.config", "http://github"):
        assert forbidden not in svg


def test_error_bars_are_two_standard_errors_and_one_point_is_marked():
    drawn = charts.estimates("x", ("1", "2", "3"), ((30.0, 1.0), (31.0, None), (32.0, 0.5)), marked=2, unit="%")
    root = ET.fromstring(drawn)
    bars = [each for each in root.iter() if each.get("class") == "ci"]
    dots = [each.get("r") for each in root.iter() if "dot" in (each.get("class") or "").split()]
    assert (len(bars), dots) == (2, ["3", "3", "3", "5"])


def test_few_labels_are_written_and_none_is_cut():
    svg = charts.lines("x", tuple(f"label-{number}" for number in range(200)), (("a", VALUES),))
    written = [text.text for text in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text") if text.text]
    labels = [text for text in written if text.startswith("label")]
    assert 2 <= len(labels) <= charts.MOST_LABELS + 1
    assert not any("…" in label or "..." in label for label in labels)


def test_units_are_written_after_a_space():
    written = "".join(ET.fromstring(charts.bars("x", LABELS, (("a", VALUES),), "B")).itertext())
    assert ("0 B" in written, "0B" in written) == (True, False)


def test_the_same_numbers_are_drawn_once():
    arguments = ("x", ("1", "2"), (("a", (1.0, 2.0)),))
    assert charts.lines(*arguments) is charts.lines(*arguments)


def test_thinned_points_keep_the_ends():
    assert charts.thinned(0) == []
    assert charts.thinned(1000)[0] == 0
    assert charts.thinned(1000)[-1] == 999
    assert len(charts.thinned(1000)) == charts.MOST_POINTS


def test_an_axis_of_what_is_counted_has_whole_numbers_only():
    root = ET.fromstring(charts.bars("x", ("10:00",), (("waiting", (1.0,)), ("resting", (1.0,)))))
    written = {text.text for text in root.iter("{http://www.w3.org/2000/svg}text") if text.text}
    assert written == {"0", "2", "10:00"} or written == {"0", "1", "2", "10:00"}
