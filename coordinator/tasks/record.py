"""A task as it is stored: its state and its settings. Data only."""

from __future__ import annotations

import msgspec

from coordinator.tasks.settings import TaskSettings
from coordinator.tasks.task import Task


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A task: its state and its settings."""

    state: Task
    settings: TaskSettings

    @property
    def name(self) -> str:
        """Name of the task."""
        return self.state.name
