"""``python -m nightjar.simulation demo``: the options and steps of the demo."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click
import msgspec
from rich.console import Console

from nightjar.coordinator.config import BrokerKind
from nightjar.coordinator.mqtt.broker import choose
from nightjar.edge_agent.keyboard.key import address
from nightjar.models.configurations import CONFIGURATIONS
from nightjar.models.folder import CLASSIFIERS
from nightjar.models.manifest import KEYBOARD
from nightjar.simulation.demo.classification import TASK, prepare_classification
from nightjar.simulation.demo.configuration import DemoSettings
from nightjar.simulation.demo.fleet import DemoFleet
from nightjar.simulation.demo.keyboards import KeyboardRecall, recall_by_phone, recall_by_version, spread
from nightjar.simulation.demo.pictures import PICTURE, draw, recall_picture
from nightjar.simulation.demo.preparation import PreparedRun, prepare
from nightjar.simulation.demo.processes import outcome, quiet_child, stopping
from nightjar.simulation.demo.reading import State
from nightjar.simulation.demo.replay import LongRun, best_run
from nightjar.simulation.demo.summary import Result, result_of, standing, summary_table
from nightjar.simulation.demo.watching import watch
from nightjar.wire.codec import NAMES
from nightjar.wire.errors import UnavailableError


@click.command()
@click.option("--phones", default=8, show_default=True, type=click.IntRange(2, 500), help="Emulated phones.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1, 10_000), help="Rounds to commit.")
@click.option(
    "--task", default=KEYBOARD, show_default=True, type=click.Choice([KEYBOARD, TASK]), help="What is learned."
)
@click.option(
    "--model",
    default=None,
    help=f"tiny; configuration: {', '.join(CONFIGURATIONS)}. Of a classification {CLASSIFIERS[0]}, or "
    f"{', '.join(CLASSIFIERS[1:])}.",
)
@click.option(
    "--corpus",
    default="personas",
    show_default=True,
    help="personas, pydoc, or a TSV file (user, text); of a classification a folder (docs/your-own-model.md).",
)
@click.option("--seed", default=7, show_default=True, type=click.IntRange(0, 2**31), help="Root seed.")
@click.option("--codec", default="sampled-4", show_default=True, type=click.Choice(NAMES), help="Codec of the updates.")
@click.option(
    "--density", default=0.05, show_default=True, type=click.FloatRange(0, 1, min_open=True), help="Share sent."
)
@click.option(
    "--broker",
    default="auto",
    show_default=True,
    type=click.Choice(["auto", "mosquitto", "embedded"]),
    help="auto uses mosquitto if it is installed.",
)
@click.option("--day-seconds", default=None, type=click.FloatRange(5, 86_400), help="Real seconds of a phone's day.")
@click.option("--limit-minutes", default=None, type=click.FloatRange(0.1, 10_000), help="Give up after this long.")
@click.option("--folder", default=None, type=click.Path(path_type=Path), help="Folder for logs and data; new or empty.")
@click.option("--port", default=0, help="Port of the coordinator's page; 0 takes 8080 or any free one.")
@click.option("--plain", is_flag=True, help="Phones without certificates, in plain text on 127.0.0.1.")
@click.option("--replay", is_flag=True, help="Show a long recorded run of the laboratory beside it.")
@click.option("--exit", "leave", is_flag=True, help="Exit at the end instead of serving the pages.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object as the last line of standard output.")
def demo(
    *,
    phones: int,
    rounds: int,
    task: str,
    model: str | None,
    corpus: str,
    seed: int,
    codec: str,
    density: float,
    broker: str,
    day_seconds: float | None,
    limit_minutes: float | None,
    folder: Path | None,
    port: int,
    plain: bool,
    replay: bool,
    leave: bool,
    as_json: bool,
) -> None:
    """Train a model on emulated phones on this machine, and watch it."""
    started = time.monotonic()
    settings = DemoSettings(
        phones=phones,
        rounds=rounds,
        model=model or ("tiny" if task == KEYBOARD else CLASSIFIERS[0]),
        corpus=corpus,
        seed=seed,
        codec=codec,
        density=density,
        day_s=day_seconds,
        folder=folder,
        port=port,
        plain=plain,
    )
    console = Console(stderr=as_json)
    long_run = best_run() if replay else None
    choose(BrokerKind(broker))  # a broker that is missing is said before anything is prepared
    prepared = (prepare if task == KEYBOARD else prepare_classification)(settings, console)
    fleet = DemoFleet(prepared, broker)
    with stopping(fleet.groups):
        fleet.start()
        limit_s = (limit_minutes * 60) if limit_minutes else prepared.limit_s
        state = watch(
            prepared.url,
            fleet.broker_name,
            console,
            limit_s=limit_s,
            tick=lambda: fleet.check(console.print),
            long_run=long_run,
        )
        if task == KEYBOARD:
            result, keyboards = _measured(state, prepared, long_run, started)
        else:
            result, keyboards = result_of(state, prepared, {}, None, seconds=time.monotonic() - started), None
        console.print(summary_table(result))
        if keyboards is not None:
            console.print(recall_picture(keyboards))
        if not leave:
            shown = f"\nStatus page  {prepared.url}"
            if keyboards is not None:
                shown += f"\nKeyboard     {address(prepared.keyboard_url, prepared.phone_configs[0].parent / 'data')}"
            console.print(f"{shown}  (ctrl-C ends)\n", soft_wrap=True)
            _serve_until_interrupted(fleet, console)
    if as_json:
        click.echo(msgspec.json.encode(result))
    if result["versions_refused"] and result["version"] == 0:
        msg = (
            f"no version was released: the quality gate refused all {result['versions_refused']}: its figures fell; "
            f"'nightjar-coordinator model list --config {prepared.folder / 'coordinator.toml'}' shows by how much"
        )
        raise UnavailableError(msg)
    if result["rounds_committed"] < rounds:
        msg = (
            f"{result['rounds_committed']} of {rounds} rounds were committed within {limit_s / 60:.1f} minutes; "
            f"the logs are in {prepared.folder}"
        )
        raise UnavailableError(msg)


def _measured(
    state: State, prepared: PreparedRun, long_run: LongRun | None, started_s: float
) -> tuple[Result, KeyboardRecall]:
    """Measure the phones' recall and their keyboards', and draw the picture."""
    kept = standing(state)
    with quiet_child(prepared.folder / "logs" / "recall_by_phone.log") as child:
        measuring = child.submit(recall_by_phone, prepared.folder, prepared.url, kept[-1]["manifest"])
        by_phone = outcome(measuring, "recall by phone")
        released = {each["version"]: each["manifest"] for each in kept}
        chosen = {version: released[version] for version in spread(sorted(released))}
        replaying = child.submit(recall_by_version, prepared.folder, prepared.url, chosen)
        keyboards = outcome(replaying, "recall of keyboards")
        result = result_of(state, prepared, by_phone, keyboards, long_run, seconds=time.monotonic() - started_s)
        drawing = child.submit(draw, prepared.folder / PICTURE, keyboards, result["shows"], long_run)
        outcome(drawing, "drawing")
    return result, keyboards


def _serve_until_interrupted(fleet: DemoFleet, console: Console) -> None:
    try:
        while True:
            fleet.check(console.print)
            time.sleep(1.0)
    except KeyboardInterrupt:
        sys.stderr.write("\n")
