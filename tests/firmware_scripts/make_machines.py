"""Machines, each with what it shows: ``python -m tests.firmware_scripts.make_machines`` writes their files again.

None is a recording: they are composed by hand, input and expectation, from how lsblk (util-linux 2.31 to 2.41) and the
kernel print such machines. A recording that a user sends is added to the folder ``machines`` as it came, with an
``expected.json``.
"""

from pathlib import Path

from tests.firmware_scripts.made_machines import boards, further, hidden, layers, ordinary, swapping
from tests.firmware_scripts.made_machines.parts import MACHINES

FOLDER = Path(__file__).parent / "machines"
MADE_BY = (ordinary, layers, swapping, boards, hidden, further)
"""Each adds its machines to the list."""


def main():
    for name, made in MACHINES.items():
        folder = FOLDER / name
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in made.files().items():
            (folder / file).write_text(text, encoding="utf-8")
    print(f"{len(MACHINES)} machines in {FOLDER.name}/")


if __name__ == "__main__":
    main()
