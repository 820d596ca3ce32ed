"""How much can be set: each setting is one more thing to understand, so a new one must be worth another."""

import dataclasses
import typing

import msgspec

from nightjar.coordinator.config import CoordinatorConfig
from nightjar.edge_agent.config import AgentConfig

MOST = 147
"""106; [limits] with four on each side: what no task of a coordinator, and no coordinator, may go below; three of
the learning-rate schedule; how updates are combined, with the share of attackers that this withstands; and whether a
task has differential privacy, with epsilon, delta, clip norm and the quantile that this follows, and the limit of
epsilon on each side; and MQTT over WebSocket, once on each side; and where several hosts keep artifacts; the broker's
name for devices, where the coordinator knows it by another; and four of buffered rounds; and the
Ray cluster of several hosts; and whether who has more examples weighs more; and whom the clip norm lets through; and
three of retention, because a year of one fleet is not that of another; and on a device the owner's key,
the model that a keyboard is given, and whether it waits for a claim; and
how long a lost certificate renews itself; and how much a card is written in a day."""


def parts(kind):
    """The configuration types that a type of a field holds."""
    if isinstance(kind, type) and (dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct)):
        return [kind] if kind.__name__ != "Day" else []  # the script of an emulated phone is one value
    return [part for argument in typing.get_args(kind) for part in parts(argument)]


def settings(kind, section=""):
    """The name of every value that a person can set; a table is none."""
    for name, hint in typing.get_type_hints(kind).items():
        if not name.startswith("_"):
            held = parts(hint)
            yield from settings(held[0], f"{section}{name}.") if held else [f"{section}{name}"]


def test_there_are_few_enough_settings_on_both_sides_together():
    found = [*settings(CoordinatorConfig), *settings(AgentConfig)]
    assert len(found) <= MOST, f"{len(found)}: make a constant of one that nobody has a reason to change"
    assert len(found) > MOST // 2, "the count itself is broken"
