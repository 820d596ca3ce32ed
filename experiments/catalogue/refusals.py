"""Strategies and fleets that do not go together, and why; ``python -m nightjar.experiments.catalogue.refusals``.

Three facts of a fleet decide: whether its devices come back, whether masks hide each update from the server, and
whether different devices may send different coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass

from nightjar.experiments.frame import Request, ResultRow, page_command, row
from nightjar.wire.errors import ConfigError

KEEPS_STATE = {
    "scaffold": "its control variate",
    "easgd": "its model",
    "overlap": "its model",
    "dgc": "its momentum and residual",
    "top-k with error feedback": "its residual",
    "adaptive_density": "its residual",
    "two_sided": "its residual",
    "apfl": "its model and mixing share",
    "fml": "its model",
    "fedmd": "its model",
    "fed_plus": "its model",
}
"""Strategy -> what a device keeps from round to round."""
SERVER_REMEMBERS = {
    "oort": "a device's last loss",
    "tifl": "a device's speed",
    "cfl": "which cluster a device is in",
}
"""Strategy -> what the server must know of a device from earlier rounds."""
OWN_COORDINATES = ("dgc", "selective_sgd", "top-k with error feedback", "adaptive_density", "two_sided")
NEEDS_EACH_UPDATE = ("cfl", "fed_plus")
WEIGHTS_BY_LOSS = ("q_fedavg",)
CHOOSES_TO_SEND = ("cmfl",)
SPLITS_COHORT = ("ifca",)
EASY = ("fednova", "adacomm", "random_k", "fedcs", "per_fedavg", "pruning")
"""Strategies that go with any fleet."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """Where a strategy is to run.

    Attributes:
        returning: devices take part again and again.
        masked: the server sees only sums.
    """

    returning: bool = True
    masked: bool = False


def refusals(strategy: str, fleet: Deployment) -> list[str]:
    """Why a strategy makes no sense in a fleet; empty if it does.

    >>> refusals("scaffold", Deployment(returning=False))
    ['scaffold: a device keeps its control variate, but appears once']

    Raises:
        ConfigError: no such strategy.
    """
    if strategy not in strategies():
        msg = f"no strategy {strategy!r}; known: {', '.join(strategies())}"
        raise ConfigError(msg)
    reasons = []
    if not fleet.returning and strategy in KEEPS_STATE:
        reasons.append(f"a device keeps {KEEPS_STATE[strategy]}, but appears once")
    if not fleet.returning and strategy in SERVER_REMEMBERS:
        reasons.append(f"the server must know {SERVER_REMEMBERS[strategy]}, but never saw it before")
    if fleet.masked and strategy in OWN_COORDINATES:
        reasons.append("masks cancel only where all devices send, and each sends coordinates of its own")
    if fleet.masked and strategy in NEEDS_EACH_UPDATE:
        reasons.append("the server must compare updates, but masks show it only their sum")
    if fleet.masked and strategy in WEIGHTS_BY_LOSS:
        reasons.append("weights depend on losses that are unknown before the sum, and tell the server each loss")
    if fleet.masked and strategy in CHOOSES_TO_SEND:
        reasons.append("a device that does not send leaves its masks in the sum")
    if fleet.masked and strategy in SPLITS_COHORT:
        reasons.append("a sum per model splits the cohort below the smallest that masks allow")
    return [f"{strategy}: {reason}" for reason in reasons]


def strategies() -> list[str]:
    """All strategies, in the order of their names."""
    return sorted(
        {*KEEPS_STATE, *SERVER_REMEMBERS, *OWN_COORDINATES, *NEEDS_EACH_UPDATE, *WEIGHTS_BY_LOSS, *CHOOSES_TO_SEND}
        | {*SPLITS_COHORT, *EASY}
    )


def run(request: Request) -> list[ResultRow]:
    """How many strategies each kind of fleet rules out."""
    fleets = {
        "devices that appear once": Deployment(returning=False),
        "masked sums": Deployment(masked=True),
        "masked sums of devices that appear once": Deployment(returning=False, masked=True),
    }
    rows = []
    for name, fleet in fleets.items():
        out = [each for each in strategies() if refusals(each, fleet)]
        figures = {"of": float(len(strategies()))}
        note = "" if fleet.masked and not fleet.returning else f"Refused: {', '.join(out)}."
        title = f"strategies refused with {name}"
        rows.append(row(request, title, [len(out)], seeds=[0], measure="refused", figures=figures, note=note))
    return rows


main = page_command("catalogue.refusals", run)
if __name__ == "__main__":
    main()
