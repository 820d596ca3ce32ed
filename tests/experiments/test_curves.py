"""The drawing of recorded curves."""

from __future__ import annotations

from nightjar.experiments import curves
from nightjar.experiments.curves import IMAGES, LEAST, main
from nightjar.experiments.record import results


def test_curves_that_were_recorded_are_drawn_and_named(tmp_path, monkeypatch):
    pages = {"thesis", "alexnet", "delay"}
    some = [each for each in results() if each.page in pages | {""}]
    monkeypatch.setattr(curves, "results", lambda: some)
    main(tmp_path)
    assert {path.stem for path in tmp_path.iterdir()} == pages | {"learning", "privacy", "communication"}
    drawn = (tmp_path / "learning.svg").read_text()
    names = [recorded.name.removeprefix("Chat, ") for recorded in results() if len(recorded.curve) >= LEAST]
    assert names
    assert all(f"<!-- {name} -->" in drawn for name in names)


def test_every_page_with_curves_has_its_drawing_in_the_documents():
    drawn = {path.name for path in IMAGES.glob("*.svg")}
    assert {f"{each.page}.svg" for each in results() if each.curves} <= drawn
