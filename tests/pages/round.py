"""Makes docs/round.md: the state machines as diagrams and tables, taken from the tables that the code runs on."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from coordinator.engine.worker import JOB_TIMEOUT_S
from coordinator.rounds import lease, round, rules
from coordinator.tasks import task
from coordinator.versions import rollout
from edge_agent.core import lifecycle, outbox
from wire.machine import Row

PAGE = Path(__file__).parents[2] / "docs" / "round.md"
HEAD = """# The state machines of a round

Made by `python -m tests.pages` from the tables in the code; do not edit by hand.

A few small machines on each side, and each is one table: (state, event) → what happens. A pair that is not in the
table cannot happen; it raises `IllegalEvent` and leaves the state as it was. No machine reads a clock, draws a random
number or sends anything: events carry their time, and what is to be done comes out as effects. The drivers write the
new state and the effects in one transaction, and only then carry the effects out.

In a diagram an arrow that leads back to its own state is left out; the table below it has every pair: the states that
an event may lead to, and a dash where it cannot happen. What the states and events mean, the docstrings of the modules
say. A last table says of each state what ends it if nothing else happens: nothing here waits for ever, except for a
person to plug a phone in, and for a network.
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
        "coordinator/rounds/round.py",
        "One attempt to get enough reports for a new version. Every phase has a deadline, so none waits for ever; the "
        "deadlines follow from two numbers (`coordinator/rounds/rules.py`).",
        round.TABLE,
        round.Phase.SELECTION,
        {
            round.Phase.SELECTION: "`selection_deadline_s`; with an empty pool it doubles after each such round, to an "
            "hour at most",
            round.Phase.REPORTING: "`report_deadline_s`; a seat whose phone is gone, after `lost_grace_s`",
            round.Phase.COMMITTING: f"the worker gives a job up after {JOB_TIMEOUT_S / 60:g} minutes, twice; "
            f"{rules.COMMIT_SHARE} report deadlines, at least {rules.SHORTEST_COMMIT_S / 3600:g} hours, if it "
            "says nothing at all",
        },
    ),
    Machine(
        "Task (coordinator)",
        "coordinator/tasks/task.py",
        "What becomes of a task, whose rounds follow one another. A round with devices at work goes to its end in each "
        "case.",
        task.TABLE,
        task.TaskStatus.ACTIVE,
        {
            task.TaskStatus.ACTIVE: "its stop rule (`rounds`, `target_top1`, `no_progress_rounds`); "
            "an endless one does not end",
            task.TaskStatus.PAUSED: "an operator resumes or stops it",
            task.TaskStatus.FINISHED: "only a changed stop rule of the configuration's task wakes it again",
        },
    ),
    Machine(
        "Version (coordinator)",
        "coordinator/versions/rollout.py",
        "Where a version of the model is, from the gate to the devices and back ([models.md](models.md)).",
        rollout.TABLE,
        rollout.Stage.CANDIDATE,
        {
            rollout.Stage.CANDIDATE: "judged in the transaction that makes it",
            rollout.Stage.REFUSED: "stays, unless an operator promotes it",
            rollout.Stage.CANARY: "judged after each round of its trial, at the first end of a round after "
            "`rollout.hours` at the latest",
            rollout.Stage.CURRENT: "the next version",
            rollout.Stage.SUPERSEDED: "stays, unless an operator promotes it or goes back to it",
            rollout.Stage.ROLLED_BACK: "stays, unless an operator promotes it",
        },
    ),
    Machine(
        "Device lease (coordinator)",
        "coordinator/rounds/lease.py",
        "What the coordinator knows of a device, by what it heard. A round never relies on it alone.",
        lease.TABLE,
        lease.Presence.AWAY,
        {
            lease.Presence.AWAY: "waits for the device; nobody waits for it",
            lease.Presence.PRESENT: "the broker tells the last will after 1.5 keep-alives (45 s) of silence",
            lease.Presence.READY: "likewise; a round never relies on it",
        },
    ),
    Machine(
        "Lifecycle (agent)",
        "edge_agent/core/lifecycle.py",
        "What a device does: wait for its conditions, check in, work, report, rest.",
        lifecycle.TABLE,
        lifecycle.Ineligible,
        {
            lifecycle.Ineligible: "waits for its conditions, which are looked at every `poll_s`",
            lifecycle.Settling: "`hysteresis_s`",
            lifecycle.CheckedIn: f"checks in again within {lifecycle.CHECK_IN_AGAIN.first_s:g} s, and with back-off "
            f"every {lifecycle.CHECK_IN_AGAIN.most_s / 60:g} minutes at the latest",
            lifecycle.Preparing: "the assignment's deadline, or `session_limit_s` if that is sooner",
            lifecycle.Training: "likewise, from the assignment on",
            lifecycle.Finishing: f"{lifecycle.FINISH_S:g} s; then it is given up",
            lifecycle.Reporting: "the outbox below: the report is sent until it is answered",
            lifecycle.Resting: "the retry window that it was told; "
            f"{lifecycle.REST_AFTER_DEATHS_S / 3600:g} hours after sessions that ended the process",
        },
    ),
    Machine(
        "Outbox (agent)",
        "edge_agent/core/outbox.py",
        "A report on its way. It is sent again until a receipt comes; a PUBACK is not one.",
        outbox.TABLE,
        outbox.Pending,
        {
            outbox.Pending: "waits for a connection, which is tried with back-off every minute at the latest",
            outbox.Sent: f"sent again within {outbox.SEND_AGAIN.first_s:g} s, and with back-off "
            f"every {outbox.SEND_AGAIN.most_s / 60:g} minutes at the latest; a coordinator answers every report, "
            "also one of a round that is long over or that it never opened",
        },
    ),
)


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(_section(machine) for machine in MACHINES)])


def _section(machine: Machine) -> str:
    states = _in_order([machine.begins, *(state for state, _ in machine.table)], machine.table)
    events = list(dict.fromkeys(event for _, event in machine.table))
    lines = [f"## {machine.title}\n", f"[`{machine.module}`](../{machine.module}): {machine.text}\n"]
    lines += ["```mermaid", "stateDiagram-v2", *_diagram(machine, states), "```\n"]
    lines += [f"| event | {' | '.join(map(_name, states))} |", "|---" * (len(states) + 1) + "|"]
    for event in events:
        cells = [_cell(machine.table.get((state, event)), states) for state in states]
        lines.append(f"| `{event.__name__}` | {' | '.join(cells)} |")
    lines += ["\n| state | ends by itself |", "|---|---|"]
    lines += [f"| {_name(state)} | {machine.ends.get(state, 'terminal')} |" for state in states]
    return "\n".join(lines) + "\n"


def _diagram(machine: Machine, states: list[object]) -> list[str]:
    lines = [f'    state "{_name(state)}" as {_identifier(state)}' for state in states]
    lines.append(f"    [*] --> {_identifier(machine.begins)}")
    for state in states:
        for target in states:
            why = [e.__name__ for (s, e), row in machine.table.items() if s == state and target in row.leads_to]
            if why and target != state:
                lines.append(f"    {_identifier(state)} --> {_identifier(target)}: {', '.join(why)}")
    left = {state for (state, _), row in machine.table.items() if row.leads_to - {state}}
    return lines + [f"    {_identifier(state)} --> [*]" for state in states if state not in left]


def _cell(row: Row | None, states: list[object]) -> str:
    return "-" if row is None else ", ".join(_name(state) for state in states if state in row.leads_to)


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
