"""Starts a device whose files it may not write or read: ``python -m tests.edge_agent.other_owner FOLDER KIND``.

Each line that it prints is JSON: the file, what the device then is, and what it says.
"""

import json
import os
import shutil
import sys
from pathlib import Path

from nightjar.edge_agent.config import DATA_DIR_VARIABLE
from nightjar.edge_agent.enrolment.identity import COPY, CREDENTIAL
from nightjar.edge_agent.enrolment.identity import FOLDER as OURS
from nightjar.edge_agent.shell.folder import DATABASE, LOCK
from nightjar.edge_agent.shell.kept_apart import KEPT_SETTINGS, LEDGER
from nightjar.host.put_away import notes
from tests.edge_agent.any_damage import sound_device, start

OF_ANOTHER = 12345
NAMES = (
    *(f"{OURS}/{COPY}", f"{OURS}/{CREDENTIAL}", DATABASE, LEDGER, LOCK, KEPT_SETTINGS),
    *("release/metadata", "artifacts"),
)
KINDS = {"no rights": 0, "read only": 0o500, "foreign": 0o600, "foreign readable": 0o755}


def change(path: Path, kind: str) -> None:
    others = [*path.rglob("*"), path] if kind.startswith("foreign") else []
    for each in others[:-1]:
        os.chown(each, OF_ANOTHER, OF_ANOTHER)
    path.chmod(KINDS[kind])
    for each in others[-1:]:
        os.chown(each, OF_ANOTHER, OF_ANOTHER)


def main(folder: Path, kind: str) -> None:
    with sound_device() as sound:
        for number, name in enumerate(NAMES):
            copy = folder / str(number)
            shutil.copytree(sound, copy)
            data_dir = copy / "data"
            change(data_dir / name, kind)
            environment = {DATA_DIR_VARIABLE: str(data_dir)}
            device, _, _, spent = start(copy / "agent.toml", environment)
            said = notes(data_dir)
            start(copy / "agent.toml", environment)
            found = {"file": name, "device": device, "spent": [entry.task for entry in spent], "said": said}
            print(json.dumps(found | {"again": notes(data_dir)[len(said) :]}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
