"""``/api/v1/versions``: routes to read, promote and roll back model versions."""

from __future__ import annotations

import msgspec

from nightjar.coordinator.storage.baselines import compared
from nightjar.coordinator.tasks.operations import PromoteVersion, Reason, RollBack
from nightjar.coordinator.views.rows import VersionDetail, version_detail, version_row
from nightjar.coordinator.web import documents as docs
from nightjar.coordinator.web import request_parsing
from nightjar.coordinator.web.answers import Api
from nightjar.coordinator.web.driver_calls import change
from nightjar.coordinator.web.ports import WebPorts


class Withdrawal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which version to roll back, what devices get instead, and why.

    Without ``version``, the canary is rolled back if there is one, else the current version. Without ``to``, devices
    get the version that was current before.
    """

    reason: Reason
    version: docs.Number | None = None
    to: docs.Number | None = None


def add_version_routes(api: Api, ports: WebPorts) -> None:
    """Add the routes of versions to the API."""

    @api.look("/versions", docs.VersionList)
    def versions(query: docs.Newest) -> docs.VersionList:
        """List versions of the model, newest first."""
        with ports.repository.transaction() as view:
            items = [version_row(record) for record in view.versions(query.limit, query.before)][::-1]
        return docs.VersionList(items, items[-1].version if len(items) == query.limit else None)

    @api.look("/baselines", docs.BaselineList)
    def baselines() -> docs.BaselineList:
        """List the baselines for versions: a trigram model, and the same model trained centrally."""
        with ports.repository.transaction() as view:
            return docs.BaselineList(compared(ports.config.task, view.baselines()))

    @api.look("/versions/<int:number>", VersionDetail, 404)
    def one_version(number: int) -> VersionDetail:
        """Show a version: its stage and the reason for it, its lineage, and its metrics."""
        with ports.repository.transaction() as view:
            record = request_parsing.found(view.version(request_parsing.number(number, "version")), f"version {number}")
            return version_detail(record, view.federated(number))

    @api.change("/versions/<int:number>/promote", 404, 409)
    def promote_version(number: int, json: docs.ReasonBody) -> docs.Changed:
        """Give a version to all devices, whatever its stage was before."""
        return change(ports, PromoteVersion(request_parsing.number(number, "version"), json.reason))

    @api.change("/versions/rollback", 409)
    def roll_back(json: Withdrawal) -> docs.Changed:
        """Roll back a version: by default the canary if there is one, else the current version."""
        return change(ports, RollBack(reason=json.reason, version=json.version, to=json.to))
