"""Writes the golden and hostile vectors of the codecs: ``python -m tests.vectors.make_updates FOLDER``.

They were made once and are never edited: a change of the format gets a version and a folder of its own. A test makes
them again and compares. (reports.json and hostile.json, the vectors of codec 1 and of frames, are older than this.)
"""

import sys
from pathlib import Path

from tests.vectors.cases import written
from tests.vectors.golden_updates import keyboards, sampled, transfers, updates
from tests.vectors.hostile_updates import hostile_keyboards, hostile_sampled, hostile_transfers, hostile_updates

FILES = {
    "updates.json": updates,
    "transfers.json": transfers,
    "hostile_updates.json": hostile_updates,
    "hostile_transfers.json": hostile_transfers,
    "sampled.json": sampled,
    "hostile_sampled.json": hostile_sampled,
    "keyboards.json": keyboards,
    "hostile_keyboards.json": hostile_keyboards,
}

if __name__ == "__main__":
    for name, vectors in FILES.items():
        (Path(sys.argv[1]) / name).write_text(written(vectors()))
