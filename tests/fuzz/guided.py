"""Fuzzes the decoders with atheris: libFuzzer, led by what the Python code of ``wire`` has executed.

A process tries so many inputs and is followed by another, which begins with all inputs that led anywhere new
(``build/fuzz/corpus``): atheris 3.0 loses the result of every comparison of numpy arrays that it watches, which after a
million inputs is gigabytes. So the limit on memory means the decoders again.
"""

import argparse
import subprocess
import sys
import time
import warnings

import atheris

with atheris.instrument_imports(include=["nightjar.wire", "nightjar.models"]):
    from tests.fuzz.targets import targets

from tests.fuzz.decoders import FOUND, Tally, attempt, say

RUNS_OF_A_PROCESS = 50_000
CORPUS = FOUND / "corpus"


def fuzz(runs: int, seed: int) -> None:
    """So many inputs in this process; the first byte of an input chooses the target. Does not return."""
    warnings.simplefilter("error")
    found, tally = targets(), Tally()
    CORPUS.mkdir(parents=True, exist_ok=True)
    for number, target in enumerate(found):
        for index, one in enumerate(target.seeds):
            (CORPUS / f"{target.name}-{index}").write_bytes(bytes([number]) + one)

    def one_input(data: bytes) -> None:
        attempt(found[(data[0] if data else 0) % len(found)], data[1:], tally)
        if tally.inputs.total() == runs:  # libFuzzer ends the process itself
            say(tally.line())

    options = [f"-runs={runs}", f"-seed={seed}", "-max_len=4096", "-verbosity=0", "-rss_limit_mb=1024", "-timeout=60"]
    atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={FOUND}/", str(CORPUS)], one_input)
    atheris.Fuzz()


def main() -> None:
    """Fuzz in one process after another; a defect ends it with a traceback and the input's path."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1_000_000, help="inputs (default: a million)")
    parser.add_argument("--seed", type=int, default=1, help="above 0")
    parser.add_argument("--in-this-process", action="store_true", help="do not start others")
    options = parser.parse_args()
    if options.in_this_process:
        fuzz(options.runs, options.seed)
    begin_s = time.monotonic()
    for begin in range(0, options.runs, RUNS_OF_A_PROCESS):
        runs, seed = min(RUNS_OF_A_PROCESS, options.runs - begin), options.seed + begin
        command = [sys.executable, "-m", "tests.fuzz.guided", "--in-this-process"]
        done = subprocess.run([*command, "--runs", str(runs), "--seed", str(seed)], check=False)
        if done.returncode != 0:
            sys.exit(done.returncode)
    say(f"fuzz: atheris, {options.runs:,} inputs in {time.monotonic() - begin_s:.0f} s")


if __name__ == "__main__":
    main()
