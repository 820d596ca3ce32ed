"""Applies the rules for labels: to a device whose facts changed, and to all devices after a rule changed."""

from __future__ import annotations

from msgspec.structs import replace

from nightjar.coordinator.engine.unit_of_work import UnitOfWork
from nightjar.coordinator.rounds import lease as leases
from nightjar.coordinator.rounds.labelling import (
    MOST_RULES,
    Labelling,
    LabelRule,
    conditions,
    facts_of,
    labels_of,
    with_rule,
    without_rule,
)
from nightjar.coordinator.rounds.lease import LabelsChanged, Lease
from nightjar.coordinator.tasks.operations import DropLabelRule, OperationRefused, SetLabelRule

AT_ONCE = 1000
"""Devices that a changed rule is applied to in one transaction: messages must not wait for a large fleet."""


def relabelled(before: Lease | None, after: Lease, unit: UnitOfWork) -> Lease:
    """A device with the labels that the rules give it, if what they look at changed."""
    if before is not None and facts_of(before) == facts_of(after):
        return after
    return _labelled(after, unit.tx.labelling())


class LabelService:
    """Changes rules, and applies them to all devices, part by part."""

    def __init__(self) -> None:
        self._applying = True  # a former process may not have come to the end

    def tick(self, unit: UnitOfWork) -> None:
        """Apply changed rules to the next devices."""
        if self._applying:
            self._apply(unit.tx.labelling(), unit)

    def change(self, asked: SetLabelRule | DropLabelRule, who: str, unit: UnitOfWork) -> bool | OperationRefused:
        """Carry out an operator's request; False if nothing had to change."""
        before = unit.tx.labelling()
        rules = {rule.label: rule for rule in before.rules}
        match asked:
            case SetLabelRule(rule):
                if rules.get(rule.label) == rule:
                    return False
                if 0 < rule.maximum_memory_mb < rule.minimum_memory_mb:
                    bounds = f"from {rule.minimum_memory_mb} to {rule.maximum_memory_mb} MB"
                    return OperationRefused(f"no device has memory {bounds}: expected the smaller number first")
                if len(rules) >= MOST_RULES and rule.label not in rules:
                    return OperationRefused(f"there are at most {MOST_RULES} rules for labels; drop one first")
                label, after = rule.label, with_rule(before, rule)
            case DropLabelRule(label):
                if label not in rules:
                    return OperationRefused(f"there is no rule for the label {label}")
                after = without_rule(before, label)
        self._applying = True
        self._apply(after, unit)
        action = "set-label-rule" if isinstance(asked, SetLabelRule) else "drop-label-rule"
        new = next((rule for rule in after.rules if rule.label == label), None)
        unit.audit(who, action, label, _said(rules.get(label)), _said(new))
        return True

    def _apply(self, labelling: Labelling, unit: UnitOfWork) -> None:
        if labelling.after is not None:
            devices = unit.tx.leases_after(AT_ONCE, labelling.after)
            for lease in devices:
                after = _labelled(lease, labelling)
                if after is not lease:
                    unit.tx.save_lease(after)
            more = len(devices) == AT_ONCE
            done = labelling if more else replace(labelling, dropped=())
            labelling = replace(done, after=devices[-1].device if more else None)
            unit.tx.save_labelling(labelling)
        if labelling.after is None:
            unit.after_commit.append(self._ended)

    def _ended(self) -> None:
        self._applying = False


def _labelled(lease: Lease, labelling: Labelling) -> Lease:
    labels = labels_of(lease, labelling)
    return lease if labels == lease.labels else leases.step(lease, LabelsChanged(labels))


def _said(rule: LabelRule | None) -> str:
    return "none" if rule is None else conditions(rule)
