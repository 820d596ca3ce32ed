"""Feeds bytes that nobody meant to every decoder: message or RemoteProtocolError, in bounded memory and time.

It changes valid messages where it hurts: fields, lengths, cuts, splices. ``make fuzz`` runs it and ``guided.py``, which
is led by what the code executes. An input that breaks a decoder is written to ``build/fuzz``, and ``--replay FILE``
shows it again.
"""

import argparse
import hashlib
import random
import resource
import struct
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nightjar.wire.errors import RemoteProtocolError
from tests.fuzz.targets import LAYOUT, Target, targets

FOUND = Path(__file__).parents[2] / "build" / "fuzz"
COMPARED_EVERY = 50
"""The independent decoder is slow, so it sees one input in so many."""
PRINTED_EVERY_S = 30
LONGEST = 1 << 18

_NUMBERS = (0, 1, 2, 7, 64, LAYOUT.size - 1, LAYOUT.size, LAYOUT.size + 1, 2**15, 2**16, 2**24, 2**31, 2**32 - 1)
_FLOATS = tuple(struct.pack("<f", value) for value in (0.0, -1.0, 1e-45, 3.4e38, float("nan"), float("inf")))
_TOKENS = (
    b"null",
    b"-1",
    b"1e999",
    b"99999999999999999999",
    b'"\\ud800"',
    b"[" * 2000,
    b'{"',
    b"\xff",
    b"true",
    b"0.5",
)


def say(line: str) -> None:
    """One line, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def mutated(target: Target, rng: random.Random) -> bytes:
    """A valid message after a few changes."""
    data = bytearray(rng.choice(target.seeds))
    for _ in range(1 + min(int(rng.expovariate(0.7)), 8)):
        rng.choice(_CHANGES)(data, target, rng)
    return bytes(data[:LONGEST])


def _place(data: bytearray, rng: random.Random) -> int:
    """Somewhere; half the time near the begin, where the heads are."""
    end = min(len(data), 40) if rng.random() < 0.5 else len(data)
    return rng.randrange(end + 1)


def _flip(data: bytearray, _target: Target, rng: random.Random) -> None:
    at = _place(data, rng)
    if at < len(data):
        data[at] ^= 1 << rng.randrange(8)


def _replace_byte(data: bytearray, _target: Target, rng: random.Random) -> None:
    at = _place(data, rng)
    data[at : at + 1] = bytes([rng.randrange(256)])


def _replace_number(data: bytearray, _target: Target, rng: random.Random) -> None:
    at, size = _place(data, rng), rng.choice((1, 2, 4))
    data[at : at + size] = (rng.choice(_NUMBERS) % (1 << 8 * size)).to_bytes(size, "little")


def _add_to_number(data: bytearray, _target: Target, rng: random.Random) -> None:
    at, size = _place(data, rng), rng.choice((1, 2, 4))
    old = int.from_bytes(data[at : at + size], "little")
    data[at : at + size] = ((old + rng.choice((-2, -1, 1, 2))) % (1 << 8 * size)).to_bytes(size, "little")


def _replace_float(data: bytearray, _target: Target, rng: random.Random) -> None:
    at = _place(data, rng)
    data[at : at + 4] = rng.choice(_FLOATS)


def _insert_token(data: bytearray, _target: Target, rng: random.Random) -> None:
    at = _place(data, rng)
    data[at : at + rng.randrange(12)] = rng.choice(_TOKENS)


def _insert(data: bytearray, _target: Target, rng: random.Random) -> None:
    at = _place(data, rng)
    data[at:at] = rng.choice((rng.randbytes, bytes, lambda size: b"\xff" * size))(int(rng.expovariate(0.1)))


def _delete(data: bytearray, _target: Target, rng: random.Random) -> None:
    at = _place(data, rng)
    del data[at : at + 1 + int(rng.expovariate(0.2))]


def _cut(data: bytearray, _target: Target, rng: random.Random) -> None:
    del data[rng.randrange(len(data) + 1) :]


def _repeat(data: bytearray, _target: Target, rng: random.Random) -> None:
    at = _place(data, rng)
    data[at:at] = data[at : at + 1 + int(rng.expovariate(0.05))] * rng.randrange(1, 4)


def _splice(data: bytearray, target: Target, rng: random.Random) -> None:
    other = rng.choice(target.seeds)
    data[_place(data, rng) :] = other[rng.randrange(len(other) + 1) :]


def _noise(data: bytearray, _target: Target, rng: random.Random) -> None:
    at = _place(data, rng)
    size = int(rng.expovariate(0.02))
    data[at : at + size] = rng.randbytes(size)


_CHANGES: tuple[Callable[[bytearray, Target, random.Random], None], ...] = (
    _flip,
    _flip,
    _replace_byte,
    _replace_number,
    _add_to_number,
    _replace_float,
    _insert_token,
    _insert,
    _delete,
    _cut,
    _repeat,
    _splice,
    _noise,
)


@dataclass
class Tally:
    """What was tried so far, and the worst of it."""

    begin_s: float = field(default_factory=time.monotonic)
    inputs: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    compared: int = 0
    slowest_s: float = 0.0
    slowest: str = ""
    printed_s: float = 0.0

    def line(self) -> str:
        """The figures as one line."""
        count, spent_s = self.inputs.total(), time.monotonic() - self.begin_s
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return (
            f"fuzz: {count:,} inputs in {spent_s:.0f} s ({count / max(spent_s, 1e-9):,.0f} a second), "
            f"{self.accepted.total():,} accepted, {self.compared:,} compared with the independent decoder, "
            f"peak RSS {peak_mb:.0f} MB, slowest {1e3 * self.slowest_s:.1f} ms ({self.slowest})"
        )


def attempt(target: Target, data: bytes, tally: Tally) -> None:
    """Show one input to one target.

    Raises:
        Exception: whatever the decoder raised that is no RemoteProtocolError; the input lies in ``build/fuzz``.
    """
    compared = target.compare is not None and tally.inputs[target.name] % COMPARED_EVERY == 0
    begin_s = time.process_time()  # of this process, whatever else the machine does
    try:
        try:
            target.read(data)
            tally.accepted[target.name] += 1
        except RemoteProtocolError:
            pass
        spent_s = time.process_time() - begin_s
        if compared and target.compare is not None:
            target.compare(data)
            tally.compared += 1
    except BaseException as error:
        FOUND.mkdir(parents=True, exist_ok=True)
        path = FOUND / f"{target.name}-{hashlib.sha256(data).hexdigest()[:12]}"
        path.write_bytes(data)
        sys.stderr.write(f"fuzz: {target.name} raised {type(error).__name__}; the input is in {path}\n")
        raise
    tally.inputs[target.name] += 1
    if spent_s > tally.slowest_s:
        tally.slowest_s, tally.slowest = spent_s, f"{target.name}, {len(data)} bytes"
    if time.monotonic() - tally.printed_s > PRINTED_EVERY_S:
        tally.printed_s = time.monotonic()
        say(tally.line())


def fuzz(runs: int, seed: int) -> None:
    """So many inputs, each to a target by chance."""
    warnings.simplefilter("error")
    rng, found, tally = random.Random(seed), targets(), Tally()
    weights = [target.weight for target in found]
    for target in rng.choices(found, weights, k=runs):
        attempt(target, mutated(target, rng), tally)
    say(tally.line())
    for target in found:
        say(f"  {target.name:12s} {tally.inputs[target.name]:>9,} inputs, {tally.accepted[target.name]:>9,} accepted")


def replay(path: str) -> None:
    """Show a found input to its target again."""
    name = path.rsplit("/", 1)[-1].rsplit("-", 1)[0]
    (target,) = [target for target in targets() if target.name == name]
    with open(path, "rb") as file:  # noqa: PTH123 - any path that a person gives
        data = file.read()
    target.read(data)
    if target.compare is not None:
        target.compare(data)


def run(about: str, fuzz: Callable[[int, int], None], replay: Callable[[str], None], runs: int, what: str) -> None:
    """Fuzz by the options of the command line, and say what came of it; a defect ends it with a traceback and a path.

    ``about`` is the module's text; ``what`` are the ``runs`` that are tried by default.
    """
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--runs", type=int, default=runs, help=f"{what} (default: {runs:,})")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--replay", metavar="FILE", help=f"{what} that an earlier run has found")
    options = parser.parse_args()
    if options.replay:
        replay(options.replay)
    else:
        fuzz(options.runs, options.seed)


if __name__ == "__main__":
    run(__doc__, fuzz, replay, 1_000_000, "inputs")
