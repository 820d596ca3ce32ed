"""Fuzzes decoders or sequences with atheris: libFuzzer, led by what Python code of ours has executed.

A process tries so many inputs and is followed by another, which begins with all inputs that led anywhere new
(``build/fuzz/corpus`` or ``build/fuzz/sequences``, which stay for the next time): atheris 3.0 loses the result of every
comparison of numpy arrays that it watches, which after a million inputs is gigabytes. So the limit on memory means the
decoders again.
"""

import argparse
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import atheris

from tests.fuzz.decoders import FOUND, Tally, attempt, say

RUNS_OF_A_PROCESS = {"decoders": 50_000, "sequences": 2_000}
CORPORA = {"decoders": FOUND / "corpus", "sequences": FOUND / "sequences"}


def fuzz_decoders(runs: int, seed: int) -> None:
    """So many inputs in this process; the first byte of an input chooses the target. Does not return."""
    with atheris.instrument_imports(include=["nightjar.wire", "nightjar.models"]):
        from tests.fuzz.targets import targets

    warnings.simplefilter("error")
    found, tally, corpus = targets(), Tally(), _corpus("decoders")
    for number, target in enumerate(found):
        for index, one in enumerate(target.seeds):
            (corpus / f"{target.name}-{index}").write_bytes(bytes([number]) + one)

    def one_input(data: bytes) -> None:
        attempt(found[(data[0] if data else 0) % len(found)], data[1:], tally)
        if tally.inputs.total() == runs:  # libFuzzer ends the process itself
            say(tally.line())

    _run(one_input, runs, seed, corpus, most_bytes=4096)


def fuzz_sequences(runs: int, seed: int) -> None:
    """So many scripts in this process. Does not return."""
    with atheris.instrument_imports(include=["nightjar.coordinator", "nightjar.edge_agent"]):
        from tests.fuzz.sequences import Sequences, quiet

    quiet()
    sequences, corpus = Sequences(), _corpus("sequences")
    for name in (b"a", b"b"):
        (corpus / name.decode()).write_bytes(name * 40)

    def one_input(data: bytes) -> None:
        sequences.attempt(data)
        if sequences.steps.total() == runs:
            say(f"fuzz: {runs:,} sequences")

    _run(one_input, runs, seed, corpus, most_bytes=400)


def _run(one_input: Callable[[bytes], None], runs: int, seed: int, corpus: Path, most_bytes: int) -> None:
    options = [f"-runs={runs}", f"-seed={seed}", f"-max_len={most_bytes}", "-verbosity=0", "-rss_limit_mb=2048"]
    atheris.Setup([sys.argv[0], *options, "-timeout=60", f"-artifact_prefix={FOUND}/", str(corpus)], one_input)
    atheris.Fuzz()


def _corpus(name: str) -> Path:
    CORPORA[name].mkdir(parents=True, exist_ok=True)
    return CORPORA[name]


def main() -> None:
    """Fuzz in one process after another; a defect ends it with a traceback and the input's path."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1_000_000, help="inputs (default: a million)")
    parser.add_argument("--seed", type=int, default=1, help="above 0")
    parser.add_argument("--sequences", action="store_true", help="a running coordinator and agent, not the decoders")
    parser.add_argument("--in-this-process", action="store_true", help="do not start others")
    options = parser.parse_args()
    if options.in_this_process:
        (fuzz_sequences if options.sequences else fuzz_decoders)(options.runs, options.seed)
    begin_s, kind = time.monotonic(), "sequences" if options.sequences else "decoders"
    for begin in range(0, options.runs, RUNS_OF_A_PROCESS[kind]):
        runs, seed = min(RUNS_OF_A_PROCESS[kind], options.runs - begin), options.seed + begin
        command = [sys.executable, "-m", "tests.fuzz.guided", "--in-this-process"]
        command += ["--sequences"] if options.sequences else []
        done = subprocess.run([*command, "--runs", str(runs), "--seed", str(seed)], check=False)
        if done.returncode != 0:
            sys.exit(done.returncode)
    say(f"fuzz: atheris, {kind}, {options.runs:,} inputs in {time.monotonic() - begin_s:.0f} s")


if __name__ == "__main__":
    main()
