"""``/api/v1/versions``: look at versions of the model, give one to all devices, take one back."""

from __future__ import annotations

from typing import Any

import msgspec
from flask import Blueprint, abort
from spectree import SpecTree

from coordinator.storage.baselines import compared
from coordinator.tasks.operations import PromoteVersion, Reason, RollBack
from coordinator.web import documents as docs
from coordinator.web.access import Role
from coordinator.web.admission import needs
from coordinator.web.answers import answers
from coordinator.web.operating import change
from coordinator.web.ports import WebPorts
from coordinator.web.rows import version_row
from coordinator.web.versions import VersionDetail, version_detail


class Withdrawal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which version to roll back, what devices get instead, and why.

    Without ``version`` it is the canary if there is one, else the current version; without ``to`` devices get what was
    current before.
    """

    reason: Reason
    version: docs.Number | None = None
    to: docs.Number | None = None


def add_version_routes(blueprint: Blueprint, spec: SpecTree, ports: WebPorts) -> None:
    """Add them to the API."""
    looks: dict[str, Any] = {"security": {"token": []}, "tags": ["looking"]}
    changes: dict[str, Any] = {"security": {"token": []}, "tags": ["changing"]}

    @blueprint.get("/versions")
    @spec.validate(resp=answers(docs.VersionList), **looks)
    @needs(Role.VIEWER)
    def versions(query: docs.Newest) -> docs.VersionList:
        """Versions of the model, newest first."""
        with ports.repository.transaction() as view:
            items = [version_row(record) for record in view.versions(query.limit, query.before)][::-1]
        return docs.VersionList(items, items[-1].version if len(items) == query.limit else None)

    @blueprint.get("/baselines")
    @spec.validate(resp=answers(docs.BaselineList), **looks)
    @needs(Role.VIEWER)
    def baselines() -> docs.BaselineList:
        """What versions are compared with: a trigram, and the same model trained in one place."""
        with ports.repository.transaction() as view:
            return docs.BaselineList(compared(ports.config.task, view.baselines()))

    @blueprint.get("/versions/<int:number>")
    @spec.validate(resp=answers(VersionDetail, 404), **looks)
    @needs(Role.VIEWER)
    def one_version(number: int) -> VersionDetail:
        """A version: where it is and why, what it was made of, and what was measured of it."""
        with ports.repository.transaction() as view:
            found = view.version(_number(number))
            if found is None:
                abort(404, f"there is no version {number}")
            return version_detail(found, view.federated(number))

    @blueprint.post("/versions/<int:number>/promote")
    @spec.validate(resp=answers(docs.Changed, 404, 409, 415), **changes)
    @needs(Role.OPERATOR)
    def promote_version(number: int, json: docs.Why) -> docs.Changed:
        """Give a version to all devices, whatever became of it before."""
        return change(ports, PromoteVersion(_number(number), json.reason))

    @blueprint.post("/versions/rollback")
    @spec.validate(resp=answers(docs.Changed, 409, 415), **changes)
    @needs(Role.OPERATOR)
    def roll_back(json: Withdrawal) -> docs.Changed:
        """Take back the version that some devices try, or else the one that all have."""
        return change(ports, RollBack(reason=json.reason, version=json.version, to=json.to))


def _number(number: int) -> int:
    if number >= 1 << 53:
        abort(404, f"there is no number {number}")
    return number
