"""The drawing of recorded curves."""

from __future__ import annotations

from experiments.curves import LEAST, main
from experiments.record import results


def test_curves_that_were_recorded_are_drawn_and_named(tmp_path):
    path = tmp_path / "learning.svg"
    main(path)
    drawn = path.read_text()
    names = [recorded.name for recorded in results() if len(recorded.curve) >= LEAST]
    assert names
    assert all(f"<!-- {name} -->" in drawn for name in names)
