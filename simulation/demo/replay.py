"""The long run that ``--replay`` shows beside the demo: a curve of the laboratory from ``experiments/results.json``."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec

from nightjar.wire.errors import ConfigError

RESULTS = Path(__file__).parents[2] / "experiments" / "results.json"


class Reached(msgspec.Struct, frozen=True, array_like=True):
    """Recall after a round, 0 to 1: mean over the seeds."""

    round: int
    top1: float
    top3: float


class Judged(msgspec.Struct, frozen=True):
    """Of the outcome of a run, which versions were announced in each seed; none without a gate."""

    announced_versions: list[list[int]] = []


class LongRun(msgspec.Struct, frozen=True):
    """A recorded run."""

    name: str
    curve: list[Reached] = []  # recall by rounds, from the start
    outcome: Judged | None = None

    @property
    def rounds(self) -> int:
        """Rounds of the whole run."""
        return self.curve[-1].round

    def until(self, done: int, wanted: int) -> list[Reached]:
        """The curve up to the same share of its rounds as the demo has done of its own; at least the start.

        >>> run = LongRun("a", [Reached(n, 0.0, 0.0) for n in (0, 50, 100)])
        >>> [point.round for point in run.until(1, 2)]
        [0, 50]
        """
        reached = math.floor(self.rounds * min(1.0, done / wanted))
        return [point for point in self.curve if point.round <= reached]


def best_run(results: Path = RESULTS) -> LongRun:
    """The recorded run whose curve ends highest, but for those of a household, whose words are few people's.

    Raises:
        ConfigError: there is none.
    """
    try:
        runs = msgspec.json.decode(results.read_bytes(), type=list[LongRun])
    except (OSError, msgspec.DecodeError) as error:
        msg = f"--replay: {results} cannot be read: {error}"
        raise ConfigError(msg) from error
    known = [run for run in runs if run.curve and not (run.outcome and run.outcome.announced_versions)]
    if not known:
        msg = f"--replay: no run in {results} has a curve; record one with python -m nightjar.experiments.record"
        raise ConfigError(msg)
    return max(known, key=lambda run: run.curve[-1].top1)
