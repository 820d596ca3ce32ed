"""``/api/v1/label-rules``: routes to read the rules that give devices labels, and to change them."""

from __future__ import annotations

from typing import Any

import msgspec
from flask import Blueprint
from spectree import SpecTree

from coordinator.rounds.labelling import LabelRule
from coordinator.tasks.operations import DropLabelRule, SetLabelRule
from coordinator.web import asking
from coordinator.web import documents as docs
from coordinator.web.access import Role
from coordinator.web.admission import needs
from coordinator.web.answers import answers
from coordinator.web.operating import change
from coordinator.web.ports import WebPorts


class LabelRules(msgspec.Struct, frozen=True):
    """The rules for labels, sorted by label; ``applied`` is whether all devices have the labels by the present ones."""

    items: list[LabelRule]
    applied: bool


def add_label_routes(blueprint: Blueprint, spec: SpecTree, ports: WebPorts) -> None:
    """Add the routes of rules for labels to the API."""
    changes: dict[str, Any] = {"security": {"token": []}, "tags": ["changing"]}

    @blueprint.get("/label-rules")
    @spec.validate(resp=answers(LabelRules), security={"token": []}, tags=["looking"])
    @needs(Role.VIEWER)
    def label_rules() -> LabelRules:
        """List the rules that give devices labels."""
        with ports.repository.transaction() as view:
            labelling = view.labelling()
        return LabelRules(list(labelling.rules), labelling.after is None)

    @blueprint.post("/label-rules")
    @spec.validate(resp=answers(docs.Changed, 409, 415), **changes)
    @needs(Role.OPERATOR)
    def set_label_rule(json: LabelRule) -> docs.Changed:
        """Give a label by a rule, in place of the one that there is for this label."""
        return change(ports, SetLabelRule(json))

    @blueprint.delete("/label-rules/<label>")
    @spec.validate(resp=answers(docs.Changed, 404, 409), **changes)
    @needs(Role.OPERATOR)
    def drop_label_rule(label: str) -> docs.Changed:
        """Take a rule away, and its label from all devices."""
        return change(ports, DropLabelRule(asking.label(label)))
