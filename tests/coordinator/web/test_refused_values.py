"""A value that a form or the API refuses is named in words, and what was typed stays."""

import typing

import msgspec
import pytest

from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.enrolment.routes import ClaimWanted
from nightjar.coordinator.rounds.labelling import LabelRule
from nightjar.coordinator.web import documents
from nightjar.coordinator.web.pages.tasks import TaskForm


def patterns_without_words(kind, seen):
    """Patterns of texts inside a type whose description is missing."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind not in seen:
        seen.add(kind)
        for name, field in typing.get_type_hints(kind, include_extras=True).items():
            for pattern in patterns_without_words(field, seen):
                yield f"{kind.__name__}.{name}: {pattern}"
    for meta in getattr(kind, "__metadata__", ()):
        if isinstance(meta, msgspec.Meta) and meta.pattern and not meta.description:
            yield meta.pattern
    for part in typing.get_args(kind):
        if part is not Ellipsis:
            yield from patterns_without_words(part, seen)


ASKED = [
    each
    for each in vars(documents).values()
    if isinstance(each, type) and issubclass(each, msgspec.Struct) and each.__module__ == documents.__name__
]


@pytest.mark.parametrize("kind", [CoordinatorConfig, ClaimWanted, LabelRule, TaskForm, *ASKED], ids=str)
def test_each_pattern_of_what_people_send_has_a_description(kind):
    assert list(patterns_without_words(kind, set())) == []
