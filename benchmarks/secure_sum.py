"""``python -m nightjar.benchmarks.secure_sum``: what a secure sum costs a device and the coordinator.

A cohort in one process, with the real machines and the real cryptography, without a network. Updates are random numbers
on a common grid; ``mean_error`` is the length of the error of rounding and clipping beside that of the mean. Devices
drop out at random steps after the roster, each as likely as the others; at most as many as the terms allow. Bytes are
of the protocol: all that a device sends and receives beside the values of its update. A device's times include
everything but its training; they are medians and maxima over the devices that stayed to the end. ``noise_cpu_s`` is
what the noise of differential privacy takes besides.
"""

from __future__ import annotations

import dataclasses
import time
from statistics import median
from typing import Any

import click
import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec

from nightjar.benchmarks.measuring import show
from nightjar.benchmarks.sum_in_process import Member, Silent, run
from nightjar.host.primitives import EnrolledKey, LibraryPrimitives
from nightjar.host.system_integers import SystemIntegers
from nightjar.wire.parameters import Vector
from nightjar.wire.secure_sum.discrete_gaussian import discrete_gaussian
from nightjar.wire.secure_sum.grid import Grid, mean_of, to_words
from nightjar.wire.secure_sum.masks import packed_bytes
from nightjar.wire.secure_sum.terms import Terms

TITLE = "a secure sum, per device"
DROPOUTS = (0.0, 0.1, 0.3)
VALUES = (14_000, 60_000)
THRESHOLD_SHARE = 0.2
"""Share of a cohort that may collude."""
GRID = Grid(step=0.02, most=255)
"""Nine bits for a device's value; the values are normally distributed, with a deviation of 1."""
NOISE_VARIANCE, NOISES = 30_000, 5
"""About that of the default task with epsilon 10; the time hardly depends on it."""


@click.command()
@click.option("--cohort", default=100, show_default=True, type=click.IntRange(10, 1000), help="Devices.")
@click.option(
    "--values", multiple=True, type=click.IntRange(1, 2**24), help="Summed coordinates. [default: 14000, 60000]"
)
@click.option("--seed", default=7, show_default=True, type=click.IntRange(0), help="Of updates and dropouts.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
def main(*, cohort: int, values: tuple[int, ...], seed: int, as_json: bool) -> None:
    """Measure secure sums."""
    runs = [measure(cohort, each, share, seed) for each in values or VALUES for share in DROPOUTS]
    show(TITLE, runs, as_json=as_json)


def measure(cohort: int, values: int, dropout_share: float, seed: int) -> dict[str, Any]:
    """Results for one number of values in an update and one share of devices that drop out."""
    rng = np.random.default_rng([seed, values, round(100 * dropout_share)])
    terms = Terms(
        session=rng.bytes(32),
        threshold=max(2, round(THRESHOLD_SHARE * cohort)),
        minimum=cohort - round(max(DROPOUTS) * cohort),
        values=values + 1,
        bits=GRID.bits(cohort),
    )
    updates = rng.standard_normal((cohort, values), np.float32)
    members = [_member(update, terms, rng) for update in updates]
    for number in rng.choice(cohort, round(dropout_share * cohort), replace=False):
        silent = Silent(rng.choice([Silent.SHARES, Silent.REPORT, Silent.CONFIRMATION, Silent.DISCLOSURE]))
        members[number] = dataclasses.replace(members[number], silent=silent)
    result = run(terms, members, LibraryPrimitives())
    words = sum((members[number].values for number in result.included), np.zeros(terms.values, np.uint32))
    total = np.zeros_like(words) if result.total is None else result.total
    mean = updates[list(result.included)].mean(axis=0)
    stayed = [number for number, member in enumerate(members) if member.silent is Silent.NEVER]
    return {
        "devices": cohort,
        "dropouts": dropout_share,
        "values": values,
        "bits": terms.bits,
        "threshold": terms.threshold,
        "neighbours": terms.degree(cohort),
        "exact": result.total is not None and bool((total == words % 2**terms.bits).all()),
        "included": len(result.included),
        "mean_error": float(np.linalg.norm(mean_of(total, GRID, terms.bits) - mean) / np.linalg.norm(mean)),
        "update_bytes": packed_bytes(terms),
        "up_bytes_max": max(result.up_bytes(number) for number in stayed),
        "down_bytes_max": max(result.down_bytes(number) for number in stayed),
        "device_cpu_s_median": median([result.device_s[number] for number in stayed]),
        "device_cpu_s_max": max(result.device_s[number] for number in stayed),
        "noise_cpu_s": median([_noise_s(values) for _ in range(NOISES)]),
        "coordinator_cpu_s": result.coordinator_s,
    }


def _noise_s(values: int) -> float:
    started_s = time.process_time()
    discrete_gaussian(NOISE_VARIANCE, values, SystemIntegers())
    return time.process_time() - started_s


def _member(update: Vector, terms: Terms, rng: np.random.Generator) -> Member:
    key = EnrolledKey(ec.generate_private_key(ec.SECP256R1()))
    return Member(key.public, key.sign, rng.bytes(32), to_words(update, 1.0, GRID, terms.bits, rng))


if __name__ == "__main__":
    main()
