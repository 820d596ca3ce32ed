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
    """The objects that every page uses."""

    ports: WebPorts  # the web application's interface to the service
    census: CensusTaker  # counts devices by what they do
    manifest: Callable[[str], Manifest]  # reads a manifest by its hash; cached
    started_s: float  # when this process started to serve; wall-clock time

    def figures(self, manifest: str) -> tuple[str, str]:
        """What the two shares of a version are called: of the best prediction, and of the best three."""
        return figure_names(self.manifest(manifest).task_type)
