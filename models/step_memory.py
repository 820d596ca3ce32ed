"""Measures the memory of a program's training step: ``python -m nightjar.models.step_memory PROGRAM`` prints bytes.

The runtime is the one of devices. Only private memory is counted, as the limit of a device's training process does.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

from nightjar.host.children import python_command
from nightjar.wire.errors import UnavailableError

TIMEOUT_S = 300.0


def memory_of_step(program: Path) -> int:
    """Private memory of a process that trains, bytes, measured in a child process.

    Raises:
        UnavailableError: the program could not be run.
    """
    command = python_command("-m", "nightjar.models.step_memory", str(program))
    child = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)  # noqa: S603
    if child.returncode != 0:
        msg = f"the program's training step cannot be run: {child.stderr.strip()[-300:]}"
        raise UnavailableError(msg)
    return int(child.stdout)


def _private_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    """Run two steps on zeros."""
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=sys.argv[1], num_threads=1)
    runners = {name: interpreter.get_signature_runner(name) for name in ("write", "train")}
    for name in ("write", "train", "train"):
        inputs = runners[name].get_input_details()
        runners[name](**{key: np.zeros(each["shape"], each["dtype"]) for key, each in inputs.items()})
    sys.stdout.write(f"{_private_bytes()}\n")


if __name__ == "__main__":
    main()
