"""Makes the data folders of former releases that the tests upgrade; run it with ``python -m``.

Each is made by the code of its time (``git archive`` of the last commit with that schema), so that the JSON inside the
rows is what that code really wrote. They are never made again or edited: a folder that exists is left alone. A
release whose tables differ from the one before gets a new line here.
"""

import io
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from contextlib import closing
from pathlib import Path

HERE = Path(__file__).parent
RELEASES = {"0001": "39f2439", "0002": "2907a66", "0003": "cc05656"}
"""Revision of the schema -> the last commit that had it."""


def make(commit: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as place:
        done = subprocess.run(["git", "archive", commit], cwd=HERE.parents[3], stdout=subprocess.PIPE, check=True)
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            archive.extractall(place, filter="data")
        made = Path(place) / "made"
        made.mkdir()
        subprocess.run(
            [sys.executable, HERE / "scenario.py", made], cwd=place, env={**os.environ, "PYTHONPATH": place}, check=True
        )
        with closing(sqlite3.connect(made / "coordinator.sqlite")) as database:
            dump = "\n".join(database.iterdump()) + "\n"
        for name in ("artifacts", "private", "outbox"):
            shutil.copytree(made / name, folder / name)
        (folder / "coordinator.sql").write_text(dump)


if __name__ == "__main__":
    for revision, commit in RELEASES.items():
        if not (HERE / revision).exists():
            make(commit, HERE / revision)
