"""The command ``privacy``: explains what a task promises its devices, also before it starts."""

from __future__ import annotations

import click

from nightjar.coordinator.commands.console import say
from nightjar.coordinator.commands.options import answer_options, checked_as
from nightjar.coordinator.commands.stored import opened
from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.learning.privacy.ledger import Ledger, explain
from nightjar.coordinator.tasks.privacy import explained
from nightjar.coordinator.tasks.record import TaskRecord
from nightjar.coordinator.tasks.settings import Name, TaskSettings
from nightjar.coordinator.tasks.task import Task
from nightjar.coordinator.tasks.validation import noise_terms
from nightjar.wire.errors import ConfigError
from nightjar.wire.secure_sum.terms import threshold_for


def planned(settings: TaskSettings) -> Ledger | None:
    """The ledger of a task that does not exist yet; None without differential privacy."""
    state = Task(name=settings.name, number=0, created_s=0.0, noise=noise_terms(settings, key=""))
    return TaskRecord(state=state, settings=settings).ledger()


@click.group()
def privacy() -> None:
    """Privacy: what a task promises its devices."""


@privacy.command("explain")
@answer_options
@click.argument("name", required=False, callback=checked_as(Name))
def explain_task(config: CoordinatorConfig, name: str | None, *, as_json: bool) -> None:
    """Explain the privacy of a task; the configuration's need not have started."""
    wanted = name or config.task.name
    try:
        with opened(config) as database, database.transaction() as view:
            record = view.task(wanted)
    except ConfigError:
        record = None  # the service never ran
    if record is None and wanted != config.task.name:
        msg = f"there is no task {wanted}; 'task list' shows them"
        raise ConfigError(msg)
    settings = config.task.settings() if record is None else record.settings
    ledger = planned(settings) if record is None else record.ledger()
    revealed = explained(settings.privacy, settings.minimum, threshold_for(settings.minimum))
    lines = [] if ledger is None else explain(ledger)
    if ledger is None or settings.privacy.summed:
        lines += revealed
    say({"task": wanted, "ledger": ledger, "explained": lines}, lines, as_json=as_json)
