"""The objects that every page uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from coordinator.storage.census import CensusTaker
from coordinator.web.ports import WebPorts
from models.manifest import Manifest
from models.task_types import figure_names


@dataclass(frozen=True, slots=True)
class Site:
    """The objects that every page uses.

    Attributes:
        ports: the web application's interface to the service.
        census: counts devices by what they do.
        manifest: reads a manifest by its hash; cached.
        started_s: when this process started to serve; wall-clock time.
    """

    ports: WebPorts
    census: CensusTaker
    manifest: Callable[[str], Manifest]
    started_s: float

    def figures(self, manifest: str) -> tuple[str, str]:
        """What the two shares of a version are called: of the best prediction, and of the best three."""
        return figure_names(self.manifest(manifest).task_type)
