"""Prints the losses of three training steps on an exported model as JSON: the same on every machine, or nearly so.

Runs with what a device has: ``python scripts/training_steps.py FOLDER_OF_A_MODEL``.
"""

import json
import platform
import sys
from pathlib import Path

import numpy as np

from edge_agent.shell.model_files import exported_model
from edge_agent.shell.tflite import load_program, runtime_name


def main() -> None:
    """Train on ids that repeat, so that the loss falls."""
    model = exported_model(Path(sys.argv[1]))
    program = load_program(model)
    manifest = model.manifest
    shape = (manifest.batch_rows, manifest.sequence_length)
    ids = np.arange(shape[0] * (shape[1] + 1), dtype=np.int32).reshape(shape[0], -1) % 97 + 8
    losses = [program.train(ids[:, :-1].copy(), ids[:, 1:].copy(), 0.5, 5.0).loss for _ in range(3)]
    told = {"machine": platform.machine(), "runtime": runtime_name(), "losses": [float(loss) for loss in losses]}
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
