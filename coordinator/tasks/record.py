"""A task as it is stored: its state and its settings. Data only."""

from __future__ import annotations

import msgspec

from nightjar.coordinator.learning.privacy.accounting import ledger_of
from nightjar.coordinator.learning.privacy.ledger import Ledger
from nightjar.coordinator.tasks.settings import TaskSettings
from nightjar.coordinator.tasks.task import Task
from nightjar.wire.messages import PrivacyTerms


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A task: its state and its settings."""

    state: Task
    settings: TaskSettings

    @property
    def name(self) -> str:
        """Name of the task."""
        return self.state.name

    def terms(self) -> PrivacyTerms | None:
        """The differential privacy that a round's devices are promised; None if there is none."""
        if self.state.noise is None:
            return None
        dp = self.settings.dp
        return PrivacyTerms(
            epsilon=dp.epsilon,
            delta=dp.delta,
            rounds=self.settings.rounds,
            separation=self.settings.minimum_separation,
            step=len(self.state.noised),
        )

    def ledger(self) -> Ledger | None:
        """The privacy ledger; None without differential privacy."""
        noise, settings = self.state.noise, self.settings
        return None if noise is None else ledger_of(noise, settings.dp.delta, settings.rounds, len(self.state.noised))
