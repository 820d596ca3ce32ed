"""Makes docs/round.md: the state machines as diagrams, taken from the tables that the code runs on."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from nightjar.coordinator.engine.worker import JOB_TIMEOUT_S
from nightjar.coordinator.rounds import buffer, lease, round, rules, synchronous
from nightjar.coordinator.tasks import task
from nightjar.coordinator.versions import rollout
from nightjar.edge_agent.core import lifecycle, outbox
from nightjar.wire.machine import Row

PAGE = Path(__file__).parents[2] / "docs" / "round.md"
HEAD = """# The state machines of a round

Made by `python -m scripts.pages` from the tables in the code; do not edit by hand.

A (state, event) pair that is not in the table raises `IllegalEvent`. Drivers write state and effects in one
transaction, then carry the effects out. The diagrams leave out events that do not change the state. Below each: what
ends a state if nothing else happens.
"""


@dataclass(frozen=True)
class Machine:
    """A section of the page."""

    title: str
    module: str
    text: str
    table: Mapping[tuple[object, type], Row]
    begins: object
    ends: Mapping[object, str]


MACHINES = (
    Machine(
        "Round (coordinator)",
        "coordinator/rounds/synchronous.py",
        "One attempt to get enough reports for a version.",
        synchronous.TABLE,
        round.Phase.SELECTION,
        {
            round.Phase.SELECTION: "`selection_deadline_s`; doubles after each round without devices, up to an hour",
            round.Phase.REPORTING: "`report_deadline_s`; the seat of a lost phone after `lost_grace_s`",
            round.Phase.COMMITTING: f"the worker stops a job after {JOB_TIMEOUT_S / 60:g} minutes, twice; without an "
            f"answer {rules.COMMIT_SHARE} report deadlines, at least {rules.SHORTEST_COMMIT_S / 3600:g} hours",
        },
    ),
    Machine(
        "Buffered round (coordinator)",
        "coordinator/rounds/buffer.py",
        'With `mode = "buffered"`: a version of each `goal` reports; seats go on to the next round ([ADR '
        "48](adr/0048-buffered-rounds.md)).",
        buffer.TABLE,
        round.Phase.REPORTING,
        {
            round.Phase.REPORTING: "`goal` reports; a seat: `report_deadline_s` of its own, or `lost_grace_s`",
            round.Phase.COMMITTING: "as above",
        },
    ),
    Machine(
        "Task (coordinator)",
        "coordinator/tasks/task.py",
        "A task runs one round after another. A round with devices at work is always finished.",
        task.TABLE,
        task.TaskStatus.ACTIVE,
        {
            task.TaskStatus.ACTIVE: "its stop rule, if it has one; after `patience` rounds without a gain it is paused",
            task.TaskStatus.PAUSED: "an operator resumes or stops it",
            task.TaskStatus.FINISHED: "a changed stop rule of the configuration's task wakes it",
        },
    ),
    Machine(
        "Version (coordinator)",
        "coordinator/versions/rollout.py",
        "The stages of a model version ([models](models.md)).",
        rollout.TABLE,
        rollout.Stage.CANDIDATE,
        {
            rollout.Stage.CANDIDATE: "judged in the transaction that makes it",
            rollout.Stage.REFUSED: "an operator promotes it",
            rollout.Stage.CANARY: "judged after each round of its trial, at the latest after `rollout.hours`",
            rollout.Stage.TRAINING: "judged after each round on it; the next version",
            rollout.Stage.SKIPPED: "an operator promotes it",
            rollout.Stage.CURRENT: "the next version",
            rollout.Stage.SUPERSEDED: "an operator promotes it",
            rollout.Stage.ROLLED_BACK: "an operator promotes it",
        },
    ),
    Machine(
        "Device lease (coordinator)",
        "coordinator/rounds/lease.py",
        "What the coordinator has heard of a device.",
        lease.TABLE,
        lease.Presence.AWAY,
        {
            lease.Presence.AWAY: "the device's next message",
            lease.Presence.PRESENT: "the last will, after 1.5 keep-alives (45 s) of silence",
            lease.Presence.READY: "likewise",
        },
    ),
    Machine(
        "Lifecycle (agent)",
        "edge_agent/core/lifecycle.py",
        "A device waits for its conditions, checks in, works, reports, rests.",
        lifecycle.TABLE,
        lifecycle.Ineligible,
        {
            lifecycle.Ineligible: "its conditions, read every `poll_s`",
            lifecycle.Settling: "`hysteresis_s`",
            lifecycle.CheckedIn: f"checks in again within {lifecycle.CHECK_IN_AGAIN.first_s:g} s, with back-off up to "
            f"{lifecycle.CHECK_IN_AGAIN.most_s / 60:g} minutes",
            lifecycle.Preparing: "the assignment's deadline or `session_limit_s`",
            lifecycle.Training: "likewise",
            lifecycle.Finishing: f"{lifecycle.FINISH_S:g} s",
            lifecycle.Reporting: "the outbox below",
            lifecycle.Resting: "the retry window; "
            f"{lifecycle.REST_AFTER_DEATHS_S / 3600:g} hours after sessions that ended the process",
        },
    ),
    Machine(
        "Outbox (agent)",
        "edge_agent/core/outbox.py",
        "A report is sent until a receipt comes; a PUBACK is not one.",
        outbox.TABLE,
        outbox.Pending,
        {
            outbox.Pending: "a connection, tried with back-off up to a minute",
            outbox.Sent: f"sent again within {outbox.SEND_AGAIN.first_s:g} s, with back-off up to "
            f"{outbox.SEND_AGAIN.most_s / 60:g} minutes; the coordinator answers every report, also of unknown rounds",
        },
    ),
)


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(_section(machine) for machine in MACHINES)])


def _section(machine: Machine) -> str:
    states = _in_order([machine.begins, *(state for state, _ in machine.table)], machine.table)
    lines = [f"## {machine.title}\n", f"[`{machine.module}`](../{machine.module}): {machine.text}\n"]
    lines += ["```mermaid", "stateDiagram-v2", *_diagram(machine, states), "```\n"]
    lines += [f"- {_name(state)}: {machine.ends[state]}" for state in states if state in machine.ends]
    return "\n".join(lines) + "\n"


def _diagram(machine: Machine, states: list[object]) -> list[str]:
    lines = [f'    state "{_name(state)}" as {_identifier(state)}' for state in states if "-" in _name(state)]
    lines.append(f"    [*] --> {_identifier(machine.begins)}")
    for state in states:
        for target in states:
            why = [e.__name__ for (s, e), row in machine.table.items() if s == state and target in row.leads_to]
            if why and target != state:
                lines.append(f"    {_identifier(state)} --> {_identifier(target)}: {', '.join(why)}")
    left = {state for (state, _), row in machine.table.items() if row.leads_to - {state}}
    return lines + [f"    {_identifier(state)} --> [*]" for state in states if state not in left]


def _in_order(states: list[object], table: Mapping[tuple[object, type], Row]) -> list[object]:
    """Each once; those that only occur as a target, such as an end without any event, come last."""
    targets = [target for row in table.values() for target in sorted(row.leads_to, key=_name)]
    return list(dict.fromkeys([*states, *targets]))


def _name(state: object) -> str:
    """A state as on the status page."""
    if isinstance(state, Enum):
        return str(state.value)
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", getattr(state, "__name__", str(state))).lower()


def _identifier(state: object) -> str:
    return _name(state).replace("-", "_")
