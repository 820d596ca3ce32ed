"""Writes the programs of ``models/programs`` to another folder, and prints the table of ``models/packaged.py``.

``python -m scripts.packaged_programs FOLDER``. Another version of TensorFlow writes other bytes; devices of before know
the packaged ones only, so they are replaced with a release of the agent, and never without need.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path

from nightjar.models.configurations import configuration
from nightjar.models.export import export_program
from nightjar.models.packaged import PackagedProgram

SIZES = (
    ("tiny", 500, True),
    ("tiny", 1_000, True),
    ("tiny", 2_000, True),
    ("tiny", 2_000, False),
    ("gboard", 5_000, True),
    ("gboard", 10_000, True),
    ("gboard", 10_000, False),
)


def main(folder: Path) -> None:
    """Write the files."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as cache:
        for name, rows, padded in SIZES:
            data = export_program(configuration(name), rows, Path(cache), padded=padded)
            made = PackagedProgram(name, rows, padded, hashlib.sha256(data).hexdigest())
            (folder / made.file_name).write_bytes(data)
            print(f"    {made},")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
