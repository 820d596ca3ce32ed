"""Bytes of a report: real updates of a partly trained model, encoded as the agent does; always ``len(frame)``."""

from __future__ import annotations

import math
import os
import zlib
from functools import partial
from typing import Any

import click
import numpy as np

from benchmarks.measuring import median, show, time_ms
from benchmarks.setting import SEED, Setting, setting
from edge_agent.shell.tflite import load_program
from wire.codec import codec_for
from wire.codec.positions import encode_positions
from wire.frame import Report, encode_report
from wire.messages import CodecChoice
from wire.parameters import Vector

TITLE = "bytes of a report (medians over clients)"
CHOICES = (
    CodecChoice(name="topk-8", density=0.001),
    CodecChoice(name="topk-8", density=0.01),
    CodecChoice(name="topk-8", density=0.05),
    CodecChoice(name="dense-f32"),
)


def updates(at: Setting, clients: int, warm_up_steps: int) -> list[Vector]:
    """Updates of one local epoch on the device runtime, from a model that was partly trained on other people."""
    device = load_program(at.model, threads=2)
    done = 0
    for person in range(clients, len(at.people)):
        for x, y in at.batches(person):
            if done < warm_up_steps:
                device.train(x, y, 1.0, 1.0)
                done += 1
    base = device.save()
    found = []
    for person in range(clients):
        device.restore(base)
        for x, y in at.batches(person):
            device.train(x, y, 0.5, 1.0)
        found.append(device.delta())
    return found


def measure(clients: int = 6) -> list[dict[str, Any]]:
    """Rows for each model and codec."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    rows: list[dict[str, Any]] = []
    for name in ("tiny", "gboard"):
        at = setting(name)
        deltas = updates(at, clients, warm_up_steps=60)
        rows.extend(_row(name, at, deltas, choice) for choice in CHOICES)
    return rows


def _row(name: str, at: Setting, deltas: list[Vector], choice: CodecChoice) -> dict[str, Any]:
    codec = codec_for(choice)
    sizes, encode_ms, decode_ms, bits, energy, zlib_bits = [], [], [], [], [], []
    for delta in deltas:
        payload = codec.encode(delta, at.layout, np.random.default_rng(SEED))
        encode_ms.append(time_ms(partial(codec.encode, delta, at.layout, np.random.default_rng(SEED))))
        decode_ms.append(time_ms(partial(codec.decode, payload, at.layout)))
        sent = codec.decode(payload, at.layout)
        sizes.append(len(encode_report(Report(1, 1, codec.wire_id, at.layout.fingerprint, 0, 1, 1, 0.0, 0.0, payload))))
        positions = encode_positions(sent.indices, at.layout) if choice.name == "topk-8" else b""
        bits.append(8 * len(positions) / sent.indices.size)
        bitmap = np.zeros(at.layout.size, np.uint8)
        bitmap[sent.indices] = 1
        zlib_bits.append(8 * len(zlib.compress(np.packbits(bitmap).tobytes(), 9)) / sent.indices.size)
        energy.append(float(np.square(delta[sent.indices]).sum() / np.square(delta).sum()))
    k = codec.decode(payload, at.layout).indices.size
    return {
        "model": name,
        "codec": choice.name,
        "density": choice.density if choice.name == "topk-8" else 1.0,
        "report_bytes": int(median(sizes)),
        "times_smaller": 4 * at.layout.size / median(sizes),
        "position_bits": median(bits),
        "uniform_bits": _uniform_bits(at.layout.size, k),
        "zlib_bitmap_bits": median(zlib_bits),
        "energy_kept": median(energy),
        "encode_ms": median(encode_ms),
        "decode_ms": median(decode_ms),
    }


def _uniform_bits(n: int, k: int) -> float:
    """log2 C(n, k) / k: what a position costs if all sets of k are equally likely."""
    return (math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)) / math.log(2) / k


@click.command()
@click.option("--clients", default=6, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def main(*, clients: int, as_json: bool) -> None:
    """Measure the bytes of real reports by model, codec and density."""
    show(TITLE, measure(clients), as_json=as_json, key="report_bytes")


if __name__ == "__main__":
    main()
