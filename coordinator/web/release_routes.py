"""``/api/v1/releases``: routes to read releases of the agent, and to change who gets them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from nightjar.coordinator.rounds.lease import MOST_LABELS, Label
from nightjar.coordinator.tasks.operations import ChangeRelease, Reason, ReleaseAction
from nightjar.coordinator.versions.releases import find
from nightjar.coordinator.views.rows import ReleaseView, release_view, release_views
from nightjar.coordinator.web import documents as docs
from nightjar.coordinator.web import request_parsing
from nightjar.coordinator.web.answers import Api
from nightjar.coordinator.web.driver_calls import change
from nightjar.coordinator.web.ports import WebPorts


class ReleaseList(msgspec.Struct, frozen=True):
    """Releases, newest version first."""

    items: list[ReleaseView]


class ReleaseChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to do with a release; ``share`` of the devices that have all ``labels`` get one that is started.

    Without ``labels``, those of its last start hold; an empty list stands for all devices.
    """

    action: ReleaseAction
    reason: Reason
    share: Annotated[float, Meta(gt=0, le=1)] = 0.05
    labels: Annotated[tuple[Label, ...], Meta(max_length=MOST_LABELS)] | None = None


def add_release_routes(api: Api, ports: WebPorts) -> None:
    """Add the routes of releases to the API."""

    @api.look("/releases", ReleaseList)
    def releases() -> ReleaseList:
        """List releases of the agent, newest version first."""
        with ports.repository.transaction() as view:
            return ReleaseList(release_views(view, ports.clock.now_s()))

    @api.look("/releases/<version>", ReleaseView, 404)
    def one_release(version: str) -> ReleaseView:
        """Show a release of the agent, and how its devices fare."""
        with ports.repository.transaction() as view:
            release = request_parsing.found(find(view.releases(), version), f"release {version[:32]}")
            return release_view(view, release, ports.clock.now_s())

    @api.change("/releases/<version>", 409)
    def change_release(version: str, json: ReleaseChange) -> docs.Changed:
        """Start, pause, promote or roll back a release of the agent."""
        return change(ports, ChangeRelease(version, json.action, json.reason, json.share, json.labels))
