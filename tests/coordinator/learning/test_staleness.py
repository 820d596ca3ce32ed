"""The weight of a late update."""

from __future__ import annotations

import pytest

from nightjar.coordinator.learning.staleness import parse_staleness
from nightjar.wire.errors import ConfigError


def test_weight_falls_with_the_versions_published_since() -> None:
    weights = [parse_staleness("polynomial:0.5")(staleness) for staleness in (0, 1, 3, 8)]

    assert weights == pytest.approx([1.0, 2**-0.5, 0.5, 1 / 3])


def test_constant_weight_does_not_fall() -> None:
    assert parse_staleness("constant")(1000) == 1.0


@pytest.mark.parametrize(
    "text",
    ["", "polynomial", "polynomial:", "polynomial:0", "polynomial:-1", "polynomial:nan", "polynomial:inf", "x:1"],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected constant, or polynomial"):
        parse_staleness(text)
