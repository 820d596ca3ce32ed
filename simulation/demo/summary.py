"""The result of a demo run, JSON-ready and as a table."""

from __future__ import annotations

from typing import Any

import msgspec
from rich.table import Table

from nightjar.coordinator.views.words import in_words
from nightjar.simulation.demo.keyboards import KeyboardRecall
from nightjar.simulation.demo.pictures import PICTURE, honest
from nightjar.simulation.demo.preparation import PreparedRun
from nightjar.simulation.demo.reading import State
from nightjar.simulation.demo.replay import LongRun
from nightjar.simulation.demo.watching import REFERENCE, percent

Result = dict[str, Any]
REFUSED = "refused"
"""Stage of a version that the quality gate refused."""
_TAKEN_BACK = {REFUSED, "rolled_back"}


def result_of(
    state: State,
    prepared: PreparedRun,
    by_phone: dict[str, tuple[float, float]],
    keyboards: KeyboardRecall | None,
    long_run: LongRun | None = None,
    *,
    seconds: float,
) -> Result:
    """The result of a run, from the coordinator's last state.

    ``by_phone`` has each phone's top-1 recall (before, after); ``seconds`` are wall time since the start of the
    command, preparation included.
    """
    counters, task = state["counters"], state["task"]
    versions = sorted(state["versions"], key=lambda v: int(v["version"]))
    first, last = versions[0], standing(state)[-1]
    return {
        "rounds_committed": counters["rounds_committed"],
        "rounds_abandoned": counters["rounds_abandoned"],
        "reports_accepted": counters["reports_accepted"],
        "reports_rejected": sum(counters["reports_invalid"].values())
        + counters["reports_late"]
        + counters["reports_duplicate"],
        "reports_late": counters["reports_late"],
        "reports_duplicate": counters["reports_duplicate"],
        "reports_invalid": counters["reports_invalid"],
        "dropouts": counters["dropouts"],
        "report_bytes_median": counters["report_bytes_median"],
        "dense_bytes": task["dense_bytes"],
        "bytes_up": counters["bytes_up"],
        "bytes_down": counters["bytes_down"],
        "version": task["version"],
        "version_trained": last["version"],
        "top1_initial": first["top1"],
        "top1_final": last["top1"],
        "top3_initial": first["top3"],
        "top3_final": last["top3"],
        "trigram_top1": prepared.trigram.top1,
        "trigram_top3": prepared.trigram.top3,
        "top1_by_phone": by_phone,
        "phones_better": sum(after > before for before, after in by_phone.values()),
        "phones_worse": sum(after < before for before, after in by_phone.values()),
        "top1_by_round": [v["top1"] for v in versions],
        "keyboard_recall": msgspec.to_builtins(keyboards),
        "long_run": long_run and {"name": long_run.name, "curve": msgspec.to_builtins(long_run.curve)},
        "shows": honest(counters["rounds_committed"], prepared.settings.phones, task["figures"][0]),
        "picture": None if keyboards is None else str(prepared.folder / PICTURE),
        "versions_refused": sum(v["stage"] == REFUSED for v in versions),
        "parameters": task["parameters"],
        "figures": task["figures"],
        "model": prepared.settings.model,
        "corpus": prepared.corpus_name,
        "phones": prepared.settings.phones,
        "emulated": True,
        "runtime": next((d["runtime"] for d in state["devices"] if d["runtime"]), "unknown"),
        "broker": state["broker"],
        "seconds": round(seconds, 1),
        "seed": prepared.settings.seed,
        "folder": str(prepared.folder),
    }


def standing(state: State) -> list[Any]:
    """The versions that were not taken back, oldest first. Rounds go on from the last.

    Keyboards may have an older one, until phones have measured the last.

    >>> stages = ["superseded", "rolled_back", "current", "training", "refused"]
    >>> state = {"versions": [{"version": number, "stage": stage} for number, stage in enumerate(stages)]}
    >>> [version["version"] for version in standing(state)]
    [0, 2, 3]
    """
    kept = [version for version in state["versions"] if version["stage"] not in _TAKEN_BACK]
    return sorted(kept, key=lambda version: int(version["version"]))


def summary_table(result: Result) -> Table:
    """The result as a table."""
    table = Table(title="Summary (emulated phones)", title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column()
    causes = ", ".join(f"{n} {in_words(cause)}" for cause, n in sorted(result["dropouts"].items()))
    attempts = sum(result["dropouts"].values())
    dropouts = f"{attempts} attempt{'s' if attempts > 1 else ''}: {causes}" if causes else "none"
    median = result["report_bytes_median"] or 0
    ratio = f", {result['dense_bytes'] / median:.0f}x smaller" if median else ""
    for name, value in (
        ("rounds", f"{result['rounds_committed']} committed, {result['rounds_abandoned']} abandoned"),
        ("versions", _versions(result)),
        ("reports", _reports(result)),
        ("dropouts", dropouts),
        ("report size", f"{median:,} bytes (median) against {result['dense_bytes']:,} dense{ratio}"),
        ("total bytes", f"{result['bytes_up']:,} up, {result['bytes_down']:,} down"),
        (result["figures"][0], f"{percent(result['top1_initial'])} before, {percent(result['top1_final'])} after"),
        (result["figures"][1], f"{percent(result['top3_initial'])} before, {percent(result['top3_final'])} after"),
        *_keyboards(result),
        *_long_run(result["long_run"]),
        ("what this shows", result["shows"]),
        ("model", f"{result['model']}, {result['parameters']:,} parameters, {result['runtime']}"),
        ("corpus", f"{result['corpus']}, {result['phones']} phones, seed {result['seed']}"),
        ("broker", result["broker"]),
        ("seconds", f"{result['seconds']:.1f}"),
        ("logs" if result["picture"] is None else f"logs, {PICTURE}", result["folder"]),
    ):
        table.add_row(name, value)
    return table


def _keyboards(result: Result) -> list[tuple[str, str]]:
    keyboards, reference = result["keyboard_recall"], f"top-1 {percent(result['trigram_top1'])}"
    reference += f", top-3 {percent(result['trigram_top3'])}"
    if keyboards is None:
        return [("commonest class", reference)]
    better, worse = result["phones_better"], result["phones_worse"]
    return [
        (
            "keystrokes saved",
            f"{percent(keyboards['saved_last'])} on the phones' own words with the keyboard, "
            f"{percent(keyboards['saved_first'])} with the first version, "
            f"{percent(keyboards['saved_without'])} with none",
        ),
        ("by phone", f"top-1 better for {better} of {len(result['top1_by_phone'])} phones, worse for {worse}"),
        ("trigram baseline", f"{reference}\n{REFERENCE}"),
        (
            "keyboard",
            f"top-1 {percent(keyboards['keyboard'][-1]['top1'])} with the fleet's model, "
            f"{percent(keyboards['trigram_history']['top1'])} without",
        ),
    ]


def _reports(result: Result) -> str:
    refused = sum(result["reports_invalid"].values())
    late, again = result["reports_late"], result["reports_duplicate"]
    return f"{result['reports_accepted']} accepted, {late} late, {again} duplicate, {refused} invalid"


def _long_run(run: dict[str, Any] | None) -> list[tuple[str, str]]:
    if run is None:
        return []
    last = run["curve"][-1]
    return [("long run", f"top-1 {percent(last[1])}, top-3 {percent(last[2])} after {last[0]:,} rounds: {run['name']}")]


def _versions(result: Result) -> str:
    refused = result["versions_refused"]
    what = (
        f"{refused} refused by the quality gate: {result['figures'][0]} fell"
        if refused
        else "none refused by the quality gate"
    )
    return f"{what}; newest {result['version_trained']}, on keyboards {result['version']}"
