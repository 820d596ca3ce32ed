"""Standing rules that give devices labels, beside the labels of claims and operators. Pure.

The label of a rule is the rule's alone: a device has it exactly as long as it meets the conditions, and nobody gives or
takes it by hand. Conditions on labels mean those that were given otherwise, so the order of rules does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from nightjar.coordinator.rounds.admission import unsuited
from nightjar.coordinator.rounds.eligibility import Eligibility
from nightjar.coordinator.rounds.lease import MOST_LABELS, Label, Lease, joined
from nightjar.coordinator.rounds.selection import older

MOST_RULES = MOST_LABELS
Pattern = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        pattern=r"^[A-Za-z0-9_.+*? -]*\Z",
        description="letters, digits, '_', '.', '+', '-', spaces, and '*' or '?' for any others",
    ),
]
Megabytes = Annotated[int, Meta(ge=0, le=1 << 30)]


class LabelRule(Eligibility, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A label, and the conditions that a device must meet to have it: those of a task, and these.

    Attributes:
        device: pattern of the device's name, such as ``pi-*``.
        runtime: pattern of its runtime, such as ``tflite-runtime *``.
        minimum_memory_mb: least memory, in 2^20 bytes; 0 for any.
        maximum_memory_mb: most memory, in 2^20 bytes; 0 for any. A device whose memory is unknown meets neither limit.
    """

    label: Label
    device: Pattern = "*"
    runtime: Pattern = "*"
    minimum_memory_mb: Megabytes = 0
    maximum_memory_mb: Megabytes = 0


class Labelling(msgspec.Struct, frozen=True, kw_only=True):
    """All rules, and how far they were applied after the last change of a rule.

    Attributes:
        rules: the rules, sorted by label.
        dropped: labels of rules that are no more, until no device has them.
        after: the last device that the change was applied to; None if it was applied to all.
    """

    rules: tuple[LabelRule, ...] = ()
    dropped: tuple[Label, ...] = ()
    after: str | None = None

    @property
    def governed(self) -> frozenset[str]:
        """Labels that nobody gives or takes by hand."""
        return frozenset({rule.label for rule in self.rules}.union(self.dropped))


def with_rule(labelling: Labelling, rule: LabelRule) -> Labelling:
    """With a rule in place of the one for its label, to be applied to all devices."""
    others = [each for each in labelling.rules if each.label != rule.label]
    rules = tuple(sorted([*others, rule], key=lambda each: each.label))
    return Labelling(rules=rules, dropped=_without(labelling.dropped, rule.label), after="")


def without_rule(labelling: Labelling, label: str) -> Labelling:
    """Without the rule for a label, to be applied to all devices."""
    rules = tuple(each for each in labelling.rules if each.label != label)
    return Labelling(rules=rules, dropped=(*_without(labelling.dropped, label), label), after="")


def labels_of(lease: Lease, labelling: Labelling) -> str:
    """The labels that a device should have; if there are too many, those of claims and operators come first.

    >>> rules = Labelling(rules=(LabelRule(label="pi", device="pi-*"),), dropped=("old",))
    >>> labels_of(Lease(device="pi-3", labels="kitchen old"), rules)
    'kitchen pi'
    """
    own = replace(lease, labels=joined(set(lease.labels.split()) - labelling.governed))
    ruled = [rule.label for rule in labelling.rules if _meets(own, rule)]
    return joined([*own.labels.split(), *ruled][:MOST_LABELS])


def conditions(rule: LabelRule) -> str:
    """The conditions of a rule, for people.

    >>> conditions(LabelRule(label="small", device="pi-*", maximum_memory_mb=1024, emulated=False))
    'named pi-*, real, at most 1024 MB of memory'
    """
    emulated = {None: "", True: "emulated", False: "real"}[rule.emulated]
    said = (
        f"named {rule.device}" if rule.device != "*" else "",
        f"with runtime {rule.runtime}" if rule.runtime != "*" else "",
        f"agent {rule.minimum_agent_version} or newer" if rule.minimum_agent_version else "",
        emulated,
        f"at least {rule.minimum_memory_mb} MB of memory" if rule.minimum_memory_mb else "",
        f"at most {rule.maximum_memory_mb} MB of memory" if rule.maximum_memory_mb else "",
        f"with label {' and '.join(rule.labels)}" if rule.labels else "",
    )
    return ", ".join(filter(None, said)) or "every device"


def facts_of(lease: Lease) -> tuple[object, ...]:
    """What the rules look at."""
    return lease.device, lease.agent_version, lease.runtime, lease.emulated, lease.memory_bytes, lease.labels


def _meets(lease: Lease, rule: LabelRule) -> bool:
    memory_mb = lease.memory_bytes / 2**20
    least, most = rule.minimum_memory_mb, rule.maximum_memory_mb
    return (
        fnmatchcase(lease.device, rule.device)
        and fnmatchcase(lease.runtime, rule.runtime)
        and not unsuited(lease, rule)
        and not (rule.minimum_agent_version and older(lease.agent_version, rule.minimum_agent_version))
        and (not (least or most) or max(least, 1) <= memory_mb <= (most or math.inf))
    )


def _without(labels: Sequence[Label], label: str) -> tuple[Label, ...]:
    return tuple(each for each in labels if each != label)
