"""How a task is, in words: what ``task create`` and ``task show`` print of its view in the API."""

from __future__ import annotations

from typing import Any

import msgspec

from nightjar.coordinator.commands.console import flat, show, when
from nightjar.coordinator.learning.privacy.ledger import Ledger, explain
from nightjar.coordinator.views.words import percent
from nightjar.wire.messages import Work


def show_task(task: dict[str, Any], *, as_json: bool) -> None:
    """Print a task with all its settings."""
    settings = {name: value for name, value in task["settings"].items() if name not in {"name", "kind"}}
    cells = [(what, value) for what, value in _facts(task) if value is not None]
    cells += [("privacy", line) for line in privacy_of(task)]
    show(task, ("what", "value"), [*cells, *flat(settings, "setting ")], as_json=as_json)


def privacy_of(task: dict[str, Any]) -> list[str]:
    """What a task promises its devices, in sentences; none without differential privacy."""
    return [] if task["ledger"] is None else explain(msgspec.convert(task["ledger"], Ledger))


def _facts(task: dict[str, Any]) -> list[tuple[str, object]]:
    """How a task is, in words; None where there is nothing to say."""
    wanted, experiment = task["rounds_wanted"], task["experiment"]
    return [
        ("task", f"{task['name']}, {task['kind']}"),
        ("status", f"{task['status']}: {task['reason']}" if task["reason"] else task["status"]),
        ("created", when(task["created_s"])),
        ("since", when(task["since_s"]) if task["since_s"] else None),
        (
            "committed rounds",
            f"{task['committed']} of {wanted}" if wanted else task["committed"],
        ),
        ("announced version", task["version"]),
        ("rounds without a gain", _patience(task)),
        ("best top-1", None if task["best_top1"] is None else percent(task["best_top1"])),
        ("open round", f"{task['round']}, {task['phase']}" if task["round"] is not None else None),
        ("newest rounds", ", ".join(str(row["number"]) for row in task["rounds"]) or None),
        (
            "experiment",
            f"{experiment}, {percent(task['share'])} of its devices" if experiment else None,
        ),
    ]


def _patience(task: dict[str, Any]) -> str | None:
    """How many rounds have gained nothing, and how many may; None if the task never loses patience."""
    patience = task["settings"]["patience"]
    return f"{task['without_gain']} of {patience}" if patience and task["kind"] == Work.TRAIN.value else None
