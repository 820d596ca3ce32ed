"""What every page has at hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from coordinator.storage.census import CensusTaker
from coordinator.web.ports import WebPorts
from models.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Site:
    """What every page has at hand.

    Attributes:
        ports: of the web application.
        census: how many devices do what.
        manifest: reads one by its hash; those that are asked for again are kept.
        started_s: when this process began to serve, wall-clock time.
    """

    ports: WebPorts
    census: CensusTaker
    manifest: Callable[[str], Manifest]
    started_s: float
