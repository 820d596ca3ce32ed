"""Shows the demo while it runs: a live display on a terminal, otherwise one line per event.

It reads only the coordinator's API (:mod:`nightjar.simulation.demo.reading`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from nightjar.coordinator.views.words import in_words
from nightjar.simulation.demo.keyboards import spread
from nightjar.simulation.demo.reading import State, read_state
from nightjar.simulation.demo.replay import LongRun, Reached
from nightjar.wire.errors import UnavailableError

POLL_S = 0.4


def watch(
    url: str,
    broker: str,
    console: Console,
    *,
    limit_s: float,
    tick: Callable[[], None],
    long_run: LongRun | None = None,
) -> State:
    """Show the run until its task is done or the time is over; returns the last state.

    ``broker`` is its name, which the coordinator does not know. ``tick`` is called about twice a second, and may raise
    to end the run. The long run is played beside it, its rounds in step with this run's.

    Raises:
        UnavailableError: the coordinator never answered.
    """
    deadline = time.monotonic() + limit_s
    state: State | None = None
    story = Story(long_run)
    display = Live(console=console, refresh_per_second=4) if console.is_terminal else contextlib.nullcontext()
    with display as live:
        while time.monotonic() < deadline:
            tick()
            state = read_state(url) or state
            if state is not None:
                state["broker"] = broker
                if live is not None:
                    live.update(picture(state, long_run))
                else:
                    for line in story.news(state):
                        console.print(line, highlight=False, soft_wrap=True)
                if state["task"]["state"] == "finished":
                    break
            time.sleep(POLL_S)
    if state is None:
        msg = f"the coordinator at {url} did not answer within {limit_s:.0f} s; see its log"
        raise UnavailableError(msg)
    return state


class Story:
    """Turns states into lines, one for each event, and for what the long run has reached when a round is committed."""

    def __init__(self, long_run: LongRun | None = None) -> None:
        self._long_run = long_run
        self._told: set[tuple[object, ...]] = set()

    def news(self, state: State) -> list[str]:
        """Lines about the events since the previous state."""
        lines = []
        replayed = [] if self._long_run is None else _replayed_events(state, self._long_run)
        for key, line in (*_events(state), *replayed):
            if key not in self._told:
                self._told.add(key)
                lines.append(line)
        return lines


def _events(state: State) -> list[tuple[tuple[object, ...], str]]:
    events: list[tuple[tuple[object, ...], str]] = [
        (("v", 0), f"version 0: {state['task']['figures'][0]} {percent(version['top1'])}")
        for version in state["versions"]
        if version["version"] == 0 and version["top1"] is not None
    ]
    for done in state["rounds"]:
        if done["phase"] == "committed":
            events.append((("r", done["number"]), _committed_line(done, state["task"]["figures"][0])))
        elif done["phase"] == "abandoned":
            events.append((("r", done["number"]), f"round {done['number']} abandoned: {done['reason']}"))
    current = state["round"]
    if current:
        number = current["number"]
        if current["selected"]:
            events.append((("s", number), f"round {number}: selected {', '.join(sorted(current['selected']))}"))
        events.extend(
            (("d", number, device, cause), f"round {number}: {device} dropped out ({in_words(cause)})")
            for device, cause in sorted(current["dropped"].items())
        )
    return events


def _replayed_events(state: State, run: LongRun) -> list[tuple[tuple[object, ...], str]]:
    reached = _until_now(state, run)[-1]
    line = f"long run, round {reached.round:,} of {run.rounds:,}: top-1 recall {percent(reached.top1)}"
    return [(("long run",), f"long run: {run.name}"), (("long run", reached.round), line)]


def _until_now(state: State, run: LongRun) -> list[Reached]:
    return run.until(state["counters"]["rounds_committed"], state["task"]["rounds_wanted"])


def _committed_line(done: State, figure: str) -> str:
    dropped = ", ".join(f"{n} {in_words(cause)}" for cause, n in sorted(done["dropped"].items())) or "none"
    return (
        f"round {done['number']} committed: {done['accepted']} of {done['selected']} reports, dropouts {dropped}, "
        f"{figure} {percent(done['top1'])}, {done['seconds']:.1f} s"
    )


def picture(state: State, long_run: LongRun | None = None) -> RenderableType:
    """The live display of one state, with the part of the long run that belongs to it."""
    replayed = [] if long_run is None else [_replayed(state, long_run)]
    return Group(_headline(state), _phones(state), _rounds(state), *replayed, _traffic(state))


def _headline(state: State) -> RenderableType:
    task, current = state["task"], state["round"]
    text = Text(f"Nightjar demo · {task['name']} · broker {state['broker']}\n", style="bold")
    if task["state"] == "finished":
        text.append("done", style="bold green")
    elif current is None:
        text.append("starting")
    else:
        text.append(f"round {current['number']} · {current['phase']}", style="bold cyan")
        if current.get("deadline_in_s") is not None:
            text.append(f" · deadline in {max(0, current['deadline_in_s']):.0f} s")
        if current.get("reason"):
            text.append(f" · {current['reason']}", style="dim")
    committed = state["counters"]["rounds_committed"]
    text.append(f"\n{committed} of {task['rounds_wanted']} rounds committed", style="dim")
    return Panel(text, border_style="cyan")


REFERENCE = "The trigram model counted everybody's text in one place; the phones keep theirs and send only updates."
"""Why the trigram may be the better of the two."""
_BAR = 30
"""Length of the longest bar, characters."""
_REPLAYED = 8
"""Points of the long run that are shown."""

_STYLES = {"training": "bold green", "reporting": "green", "checked-in": "cyan", "preparing": "cyan"}


def _phones(state: State) -> RenderableType:
    current = state["round"] or {"selected": [], "reported": [], "dropped": {}}
    table = Table(title="emulated phones", expand=True, title_justify="left", box=None, padding=(0, 1))
    for heading in ("phone", "state", "in this round", "why"):
        table.add_column(heading)
    for device in state["devices"]:
        name = device["device"]
        part = Text("")
        if name in current["dropped"]:
            part = Text(f"dropped out: {in_words(current['dropped'][name])}", style="yellow")
        elif name in current["reported"]:
            part = Text("reported", style="green")
        elif name in current["selected"]:
            part = Text("selected", style="cyan")
        doing = device["state"] if device["online"] else "offline"
        table.add_row(
            name, Text(in_words(doing), style=_STYLES.get(doing, "dim")), part, Text(device["reason"], style="dim")
        )
    return table


def _rounds(state: State) -> RenderableType:
    task = state["task"]
    table = Table(title=f"{task['figures'][0]} by round", expand=True, title_justify="left", box=None, padding=(0, 1))
    for heading in ("round", "share", "", "reports", "dropouts"):
        table.add_column(heading, width=_BAR if heading == "" else None, no_wrap=heading != "dropouts")
    initial = next((v for v in state["versions"] if v["version"] == 0), None)
    shown = [("start", initial["top1"] if initial else None, "", "")]
    reasons: list[str] = []
    for done in [r for r in state["rounds"] if r["phase"] in {"committed", "abandoned"}][-8:]:
        dropped = ", ".join(f"{n} {in_words(cause)}" for cause, n in sorted(done["dropped"].items()))
        label = str(done["number"]) if done["phase"] == "committed" else f"{done['number']} abandoned"
        shown.append((label, done["top1"], f"{done['accepted']}/{done['selected']}", dropped))
        if done["phase"] == "abandoned" and done["reason"]:
            reasons.append(f"round {done['number']}: {done['reason']}")
    baseline = state["task"].get("baseline")
    scale = max([top1 or 0.0 for _, top1, _, _ in shown] + [(baseline or {}).get("top1") or 0.0, 0.01])
    for label, top1, reports, dropped in shown:
        bar = "█" * round(_BAR * (top1 or 0.0) / scale)
        table.add_row(label, percent(top1), Text(bar, style="green"), reports, Text(dropped, style="dim"))
    if baseline:
        bar = "█" * round(_BAR * baseline["top1"] / scale)
        table.add_row(baseline["label"], percent(baseline["top1"]), Text(bar, style="blue"), "", "")
    refused = [v["version"] for v in state["versions"] if v["stage"] == "refused"]
    if refused:
        reasons.append(
            f"versions refused because {task['figures'][0]} fell: {len(refused)}; phones keep version {task['version']}"
        )
    explained = [Text(REFERENCE, style="dim")] if baseline else []
    return Group(table, *explained, *(Text(reason, style="yellow") for reason in reasons[-3:]))


def _replayed(state: State, run: LongRun) -> RenderableType:
    table = Table(title=f"recorded: {run.name}", title_justify="left", box=None, padding=(0, 1))
    for heading in ("round", "recall", ""):
        table.add_column(heading, width=_BAR if heading == "" else None)
    scale = max(0.01, *(point.top1 for point in run.curve))
    for point in spread(_until_now(state, run), _REPLAYED):
        bar = "█" * round(_BAR * point.top1 / scale)
        table.add_row(f"{point.round:,} of {run.rounds:,}", percent(point.top1), Text(bar, style="magenta"))
    return table


def _traffic(state: State) -> RenderableType:
    counters = state["counters"]
    median = counters.get("report_bytes_median")
    report = f"{median:,} B a report (dense {state['task']['dense_bytes']:,} B)" if median else "no report yet"
    return Text(
        f"up {counters['bytes_up']:,} B · down {counters['bytes_down']:,} B · {report} · "
        f"{counters['reports_accepted']} accepted, {counters['reports_late']} late",
        style="dim",
    )


def percent(share: float | None) -> str:
    """A share as a percentage.

    >>> percent(0.1234), percent(None)
    ('12.3 %', 'n/a')
    """
    return "n/a" if share is None else f"{100 * share:.1f} %"
