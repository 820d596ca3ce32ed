from __future__ import annotations

from datetime import UTC

from nightjar.edge_agent.keyboard.recall import BOTTOM, HEIGHT, MOST_POINTS, RecallCount, drawing, latest


def test_nothing_typed_is_nothing_to_draw():
    assert drawing([]) is None
    assert latest([]) == (0, 0, 0)


def test_few_words_are_put_together_until_they_mean_something():
    counts = [RecallCount(86_400.0 * (100 + day), 1, 20, 2, 6) for day in range(7)]
    picture = drawing(counts, UTC)
    assert [mark.label for mark in picture.top3] == ["30%", "30%"]  # three messages, and four: one is not enough
    assert [mark.label for mark in picture.times] == ["13 Apr", "17 Apr"]
    hours = drawing([RecallCount(3600.0 * hour, 1, 60, 2, 6) for hour in (9, 12, 17)], UTC)
    assert [mark.label for mark in hours.times] == ["09:00", "17:00"]


def test_long_histories_stay_readable():
    picture = drawing([RecallCount(float(at), 1, 40, 4, 12) for at in range(400)])
    assert len(picture.top1) <= MOST_POINTS


def test_one_point_stands_in_the_middle_and_a_new_version_is_marked():
    alone = drawing([RecallCount(0, 1, 60, 0, 0)])
    assert len(alone.top1) == len(alone.times) == 1
    picture = drawing([RecallCount(0, 1, 60, 6, 18), RecallCount(0, 2, 60, 12, 24)])
    assert [mark.label for mark in picture.versions] == ["v2"]
    assert picture.top3[0].x < picture.top3[1].x
    assert picture.top3[0].y > picture.top3[1].y  # better is higher up


def test_every_share_fits_the_chart():
    picture = drawing([RecallCount(0, 1, 60, 0, 60), RecallCount(1, 1, 60, 60, 60)])
    assert [mark.label for mark in picture.grid] == ["0%", "50%", "100%"]
    assert all(0 <= mark.y <= HEIGHT - BOTTOM for mark in (*picture.top1, *picture.top3))


def test_the_drawing_can_be_read_aloud():
    said = drawing([RecallCount(0, 1, 60, 6, 18), RecallCount(86_400, 1, 60, 12, 24)], UTC).said
    assert "from 1 Jan to 2 Jan" in said
    assert "30% at first and 40% now" in said
