"""The session of a benchmarked device. Imports only the agent's packages: it runs in an agent's environment, too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nightjar.edge_agent.model import Model
from nightjar.edge_agent.session.task import SessionTask
from nightjar.models.source import Source
from nightjar.wire.messages import Assignment, CodecChoice, TrainingPlan


def session_task(
    model: Model,
    plan: TrainingPlan,
    texts: Sequence[str],
    seed: int,
    personal: Path | None = None,
) -> SessionTask:
    """The session of a device that was asked to train on its texts."""
    asked = Assignment(
        task="benchmark",
        round=1,
        attempt=1,
        version=model.manifest.version,
        manifest=model.sha256,
        codec=CodecChoice(),
        plan=plan,
        report_deadline_s=3600.0,
    )
    return SessionTask(asked, model, Source(texts), seed, personal)
