"""What a round orders its devices to do: the assignment, without what each device is told for itself.

A secure sum is named after it (:mod:`nightjar.wire.secure_sum.session`), so it is the same from the beginning of a
round to its end, and for all its devices.
"""

from __future__ import annotations

from msgspec.structs import replace

from nightjar.coordinator.engine.round_context import RoundContext
from nightjar.coordinator.records.versions import VersionRecord
from nightjar.coordinator.rounds.round import Round
from nightjar.coordinator.tasks.record import TaskRecord
from nightjar.models.manifest import KEYBOARD
from nightjar.wire.identifiers import Sha256
from nightjar.wire.messages import Assignment
from nightjar.wire.secure_sum.order import SumOrder


def common_order(
    state: Round, base: VersionRecord, record: TaskRecord, context: RoundContext, first: str, summed: SumOrder | None
) -> Assignment:
    """The order of a round for a base version of its task; ``first`` is the task whose versions keyboards get."""
    plan = record.settings.plan.plan(record.settings.strategy.name)
    if summed is not None:
        plan = replace(plan, keep_share=1.0)  # a device that has to stop would not stay to unmask either
    if base.task == first and context.manifest.task_type == KEYBOARD:
        # Keyboards have a version of this task, and compare only with that one.
        plan = replace(plan, keystrokes=plan.evaluation_share > 0)
    return Assignment(
        task=state.task,
        round=state.number,
        attempt=1,
        version=base.version,
        manifest=Sha256(base.manifest),
        codec=record.settings.codec.choice(),
        plan=plan,
        report_deadline_s=0.0,
        work=context.gate.kind,
        minimum=record.settings.minimum if summed is None else state.rules.minimum,
        secure_sum=summed,
        privacy=record.terms(),
    )
