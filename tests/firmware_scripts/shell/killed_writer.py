"""Writes an image to a file and kills itself, really, at one operation: ``killed_writer.py IMAGE TARGET OPERATION``."""

import os
import signal
import sys
from functools import partial
from pathlib import Path

from nightjar.firmware_scripts.shell.block_file import OpenFile, open_file
from nightjar.firmware_scripts.shell.images import open_image
from nightjar.firmware_scripts.surveying import survey
from nightjar.firmware_scripts.writing import Written, write_image


class Mortal:
    """A BlockFile that ends its process before the given operation, half way through it if it is a write."""

    def __init__(self, file: OpenFile, operation: int) -> None:
        self._file = file
        self._left = operation
        self.size_bytes = file.size_bytes

    def write_at(self, offset, data):
        if self._dies():
            self._file.write_at(offset, data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return self._file.write_at(offset, data)

    def read_at(self, offset, length_bytes):
        return self._live().read_at(offset, length_bytes)

    def sync(self):
        self._live().sync()

    def drop_cache(self):
        self._live().drop_cache()

    def _dies(self):
        self._left -= 1
        return self._left < 0

    def _live(self):
        if self._dies():
            os.kill(os.getpid(), signal.SIGKILL)
        return self._file


def main():
    image, target, operation = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    opener = partial(open_image, image)
    surveyed = survey(opener, None, lambda *_: None)
    with open_file(target, surveyed.image_bytes) as file:
        outcome = write_image(surveyed, opener, Mortal(file, operation), lambda *_: None, lambda: False)
    print("success" if isinstance(outcome, Written) else outcome)


if __name__ == "__main__":
    main()
