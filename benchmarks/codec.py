"""Measures the update codec on real updates: report size (always ``len(frame)``), its components, and time.

For comparison, each density also has the ideal length under the codec's own adaptive model (what a perfect coder with
the same statistics would need), the bound for uniformly random positions, and general-purpose compressors on the packed
bitmap of the same positions.
"""

from __future__ import annotations

import itertools
import lzma
import math
import time
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

import click
import numpy as np
from rich.console import Console

from nightjar.benchmarks.measuring import errors_in_a_line, print_json, show
from nightjar.coordinator.learning.fedavg import Contribution, weighted_mean
from nightjar.models.configurations import CONFIGURATIONS
from nightjar.simulation.collect_updates import Updates, collect
from nightjar.simulation.progress import progress, say
from nightjar.wire.codec import Codec, codec_for, modelled
from nightjar.wire.codec.quantize import Grid
from nightjar.wire.codec.sampled import ONES, sampled_levels
from nightjar.wire.codec.sparsify import count_for, top_k
from nightjar.wire.codec.topk import levels_of, pack_levels
from nightjar.wire.frame import Report, encode_report
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import CodecChoice
from nightjar.wire.parameters import ParameterLayout, Vector

DENSITIES = (0.001, 0.01, 0.05)
ALWAYS = ("topk-4", "sampled-4")
"""Codecs that are measured if none is named."""
SEED = 7
REPEATS = 5
"""Timings of one client; the fastest counts, because other load only adds time."""
REPORTS = 500
"""Number of reports in the round whose decoding and summing is timed."""
CLIENTS = 6
"""Clients whose updates are collected if nothing is said; this takes a minute or two."""


def measure(updates: Updates, names: Sequence[str], console: Console) -> dict[str, Any]:
    """All results: a row for each codec and density, and the first codec's time of a round of 500 reports."""
    rows: list[dict[str, Any]] = []
    margins: list[dict[str, Any]] = []
    for name, density in itertools.product(names, DENSITIES):
        clients = progress(console, updates.deltas, f"clients of {name} at {100 * density:g} %")
        found = [_client(delta, updates.layout, name, density) for delta in clients]
        for table, of_client in ((rows, [row for row, _ in found]), (margins, [margin for _, margin in found])):
            medians = {key: median([one[key] for one in of_client]) for key in of_client[0]}
            table.append({"codec": name, "density": density} | medians)
    say(console, f"decoding and summing {REPORTS} reports of {names[0]}")
    about = {"corpus": updates.corpus, "model": updates.model, "seed": updates.seed, "clients": len(updates.deltas)}
    return {
        "codec": names[0],
        "updates": about | {"parameters": updates.layout.size},
        "densities": rows,
        "margins": margins,
        "decode_and_accumulate_500_s": _round_s(updates, codec_for(CodecChoice(name=names[0], density=0.01))),
    }


def _client(
    delta: Vector, layout: ParameterLayout, name: str, density: float
) -> tuple[dict[str, float], dict[str, float]]:
    """Size and time of one report, and its margins to the bounds."""
    codec = codec_for(CodecChoice(name=name, density=density))
    k, ones, rng = count_for(density, layout.size), modelled.LEVEL_PRIOR, np.random.default_rng(SEED)
    grid: Grid
    if name == "sampled-4":
        sparse, levels, grid = sampled_levels(delta, k, rng)
        ones = ONES
    else:
        sparse = top_k(delta, k)
        levels, grid = levels_of(sparse.values, int(name[-1]), rng)
    coded = modelled.encode(sparse.indices, levels, layout, grid.most, ones)
    payload = codec.encode(delta, layout, np.random.default_rng(SEED))
    frame = _frame(codec, payload, layout)
    sent = codec.decode(payload, layout)
    bitmap = np.zeros(layout.size, np.uint8)
    bitmap[sparse.indices] = 1
    packed = np.packbits(bitmap).tobytes()
    # The coder mixes positions and values, so its overhead over the model is divided in proportion.
    overhead = 8 * len(coded.data) / coded.ideal_bits
    row = {
        "report_bytes": len(frame),
        "position_bits": overhead * coded.position_bits / k,
        "value_bits": overhead * (coded.ideal_bits - coded.position_bits) / k,
        "model_bits": coded.ideal_bits / k,
        "uniform_bits": _uniform_bits(layout.size, k),
        "zlib_bytes": len(zlib.compress(packed, 9)),
        "lzma_bytes": len(lzma.compress(packed)),
        "energy_kept": _energy(delta[sparse.indices]) / _energy(delta),
        "encode_ms": min(
            _cpu_ms(partial(codec.encode, delta, layout, np.random.default_rng(SEED))) for _ in range(REPEATS)
        ),
        "decode_ms": min(_cpu_ms(partial(codec.decode, payload, layout)) for _ in range(REPEATS)),
        "ratio": 4 * layout.size / len(frame),
    }
    margin = {
        "above_model_percent": 100 * (8 * len(frame) / coded.ideal_bits - 1),
        "zlib_and_raw_values_bytes": row["zlib_bytes"] + len(pack_levels(levels, grid.most)),
        "value_error": _energy(sparse.values - sent.values) / _energy(sparse.values),
    }
    return row, margin


def _round_s(updates: Updates, codec: Codec) -> float:
    layout = updates.layout
    payloads = [codec.encode(delta, layout, np.random.default_rng(SEED)) for delta in updates.deltas]

    def work() -> None:
        contributions = (
            Contribution(DeviceId(f"device-{n:05d}"), 1.0, codec.decode(payloads[n % len(payloads)], layout))
            for n in range(REPORTS)
        )
        weighted_mean(contributions, layout.size)

    return min(_cpu_ms(work) for _ in range(3)) / 1e3


def _cpu_ms(action: Callable[[], object]) -> float:
    """CPU time of a call, ms."""
    begin = time.process_time()
    action()
    return (time.process_time() - begin) * 1e3


def _frame(codec: Codec, payload: bytes, layout: ParameterLayout) -> bytes:
    return encode_report(Report(1, 1, codec.wire_id, layout.fingerprint, 0, 1, 1, 0.0, 0.0, payload))


def _energy(values: Vector) -> float:
    return float(np.square(values.astype(np.float64)).sum())


def _uniform_bits(n: int, k: int) -> float:
    """log2 C(n, k) / k: bits per position if all sets of k positions are equally likely."""
    return (math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)) / math.log(2) / k


@click.command()
@click.option("--corpus", default="personas", show_default=True, help="personas, pydoc, or a TSV file (user, text).")
@click.option("--model", default="gboard", show_default=True, help=f"One of {', '.join(CONFIGURATIONS)}.")
@click.option("--clients", default=CLIENTS, show_default=True, type=click.IntRange(1), help="Updates to collect.")
@click.option("--codec", "name", type=click.Choice(["topk-4", "sampled-4", "topk-8"]), help="topk-4 and sampled-4.")
@click.option("--json", "as_json", is_flag=True)
def main(*, corpus: str, model: str, clients: int, name: str | None, as_json: bool) -> None:
    """Measure the update codec on real updates; medians over the clients. Progress goes to standard error.

    Bits are per sent position and per sent value. The margins are the excess of a report over the ideal length under
    its own model; zlib of the packed bitmap plus uncoded values; and the share of energy that quantized values lose.
    """
    console = Console(stderr=True)
    with errors_in_a_line("codec"):
        updates = collect(corpus, clients, console, model)
    found = measure(updates, ALWAYS if name is None else (name,), console)
    if as_json:
        print_json(found)
        return
    title = f"{clients} clients of {updates.corpus}, {updates.layout.size:,} parameters"
    show(f"{title} (medians)", found["densities"])
    show("margins", found["margins"])
    click.echo(
        f"decode and sum {REPORTS} reports of {found['codec']} at 1 %: {found['decode_and_accumulate_500_s']:.2f} s"
    )


if __name__ == "__main__":
    main()
