"""``python -m nightjar.benchmarks.attack``: attacks the federation, before and behind each defence."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from nightjar.benchmarks.attack.defences import Defence, defence
from nightjar.benchmarks.attack.malicious import Attack
from nightjar.benchmarks.attack.measure_harm import Battle, Harm
from nightjar.benchmarks.attack.measure_leaks import Leak, LeakMeter
from nightjar.benchmarks.attack.measure_orders import OrderMeter
from nightjar.benchmarks.attack.measure_programs import ProgramMeter
from nightjar.benchmarks.attack.scene import Scene, make_scene
from nightjar.benchmarks.measuring import errors_in_a_line, print_json, show
from nightjar.models.configurations import CONFIGURATIONS
from nightjar.simulation.progress import say
from nightjar.wire.errors import ConfigError

DEFAULT = "default"
SEEDS = 20
SHARES = "0,0.01,0.05,0.1,0.3"
ATTACKS = tuple(each.value for each in Attack if each is not Attack.NONE)


def leaks(scene: Scene, defences: Sequence[Defence], console: Console, seeds: int = SEEDS) -> list[Leak]:
    """What each attack on confidentiality gets behind each defence, and a coordinator that lies of ``seeds`` people."""
    observer = LeakMeter(scene)

    def got(leak: Leak) -> None:
        figures = {name: value for name, value in _row(leak).items() if isinstance(value, float)}
        shown = ", ".join(f"{name} {value:.3g}" for name, value in figures.items())
        say(console, f"{leak.defence}: {leak.attack}, cohort of {leak.cohort}: {shown}")

    found = [leak for each in defences for leak in observer.leaks(each, got)]
    return [*found, *ProgramMeter(scene, seeds).leaks(got), *OrderMeter(scene, seeds).leaks(got)]


def harms(
    battle: Battle, defences: Sequence[Defence], shares: Sequence[float], attacks: Sequence[Attack], console: Console
) -> list[Harm]:
    """The model after each attack at each share behind each defence; without attackers there is one run."""
    runs = [
        (attack, share, each)
        for each in defences
        for share in shares
        for attack in (attacks if share else [Attack.NONE])
    ]
    found = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("rounds", total=len(runs) * battle.rounds)
        for number, (attack, share, each) in enumerate(runs, 1):
            name = f"{each.name}: {attack.value}, {share:.0%}"
            bar.update(task, description=name)
            harm = battle.harm(attack, share, each, partial(bar.advance, task))
            found.append(harm)
            say(
                console,
                f"{number} of {len(runs)}, {name}: top-1 {harm.top1:.2%}, backdoor {harm.backdoor_success:.0%}, "
                f"honest refused {harm.honest_refused:.0%}",
            )
    return found


@click.command()
@click.option("--corpus", default="personas", show_default=True, help="personas, pydoc, or a TSV file (user, text).")
@click.option("--model", default="tiny", show_default=True, type=click.Choice(list(CONFIGURATIONS)))
@click.option(
    "--defences",
    default=DEFAULT,
    show_default=True,
    help="Of default, household, hundreds, thousands, none, secure-sum, secure-dp, RULE[@CODEC].",
)
@click.option("--shares", default=SHARES, show_default=True, help="Malicious shares of a cohort.")
@click.option("--attacks", default=",".join(ATTACKS), show_default=True, help="Of those on the model.")
@click.option("--only", default=None, type=click.Choice(["confidentiality", "integrity"]), help="One part.")
@click.option("--people", default=100, show_default=True, type=click.IntRange(2), help="In each of three groups.")
@click.option("--rounds", default=20, show_default=True, type=click.IntRange(1), help="Of each attacked training.")
@click.option("--cohort", default=20, show_default=True, type=click.IntRange(2), help="Devices in each of them.")
@click.option("--seed", default=7, show_default=True, type=click.IntRange(0, 2**31))
@click.option(
    "--seeds", default=SEEDS, show_default=True, type=click.IntRange(2), help="Of a lying coordinator's gain."
)
@click.option("--json", "as_json", is_flag=True)
def main(
    *,
    corpus: str,
    model: str,
    defences: str,
    shares: str,
    attacks: str,
    only: str | None,
    people: int,
    rounds: int,
    cohort: int,
    seed: int,
    seeds: int,
    as_json: bool,
) -> None:
    """Attack the federation with real updates: words, membership and secrets recovered, and the model harmed."""
    console = Console(stderr=True)
    with errors_in_a_line("attack"):
        chosen = [defence(name, cohort) for name in defences.split(",")]
        wanted, waged = _shares(shares), _attacks(attacks)
        scene = make_scene(corpus, model, people, seed, console)
        battle = Battle(scene, rounds, min(cohort, scene.group))
        found: dict[str, Any] = {
            "default_defence": DEFAULT,
            "model": model,
            "seed": seed,
            "confidentiality": [] if only == "integrity" else leaks(scene, chosen, console, seeds),
            "integrity": [] if only == "confidentiality" else harms(battle, chosen, wanted, waged, console),
        }
    if as_json:
        print_json(found)
        return
    for part in ("confidentiality", "integrity"):
        if found[part]:
            show(part, [_row(each) for each in found[part]])


def _shares(shares: str) -> list[float]:
    try:
        found = [float(share) for share in shares.split(",")]
    except ValueError:
        found = [-1.0]
    if not all(0 <= share < 1 for share in found):
        msg = f"--shares: expected numbers from 0 to below 1, such as 0,0.1, got {shares!r}"
        raise ConfigError(msg)
    return found


def _attacks(attacks: str) -> list[Attack]:
    names = attacks.split(",")
    if not set(names) <= set(ATTACKS):
        msg = f"--attacks: expected some of {', '.join(ATTACKS)}, got {attacks!r}"
        raise ConfigError(msg)
    return [Attack(name) for name in names]


def _row(each: Leak | Harm) -> dict[str, Any]:
    fields = {name: getattr(each, name) for name in each.__struct_fields__}
    return {name: "" if value is None or value is msgspec.UNSET else value for name, value in fields.items()}


if __name__ == "__main__":
    main()
