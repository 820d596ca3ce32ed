"""The private store: many blobs in one file, because a file for each report costs ten times its bytes.

The driver stores the reports of hundreds of messages at once. They go into one *pack*: written, flushed to the disk and
renamed like any blob, so a pack is there whole or not at all. A pack is a row of entries::

    32 bytes  name of the blob
     4 bytes  its length, little-endian
     n bytes  the blob

and 36 zeros where it ends. A pack goes when nobody needs any of its blobs any more, which is when the round of its
reports is over. It is written over with zeros, and up to a bound its room is kept for packs to come: fresh room takes
twenty times as long to write (docs/adr/0011-group-commit-and-our-own-mqtt-session.md).

What is put alone (an optimizer's state) is a plain file. Nothing here is an index on disk: the entries are read at the
start.
"""

from __future__ import annotations

import hashlib
import struct
import threading
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from coordinator.shell.blobs import WRITING, FileBlobs, unavailable, write_durably
from wire.errors import IntegrityError

_ENTRY = struct.Struct("<32sI")
_END = bytes(_ENTRY.size)
_SUFFIX = ".pack"
_SPARE = ".spare-"
SPARE_BYTES = 128 * 2**20
"""Kept of packs that nobody needs any more: a round of five thousand reports of 20 kB, and no more than that."""
_ZEROS = bytes(256 * 1024)


class _Place(NamedTuple):
    pack: Path
    offset: int
    size_bytes: int


class PackedBlobs:
    """Blobs in packs and plain files of one folder; several processes may read, one writes packs.

    Args:
        folder: made if it is not there.

    Raises:
        UnavailableError: the folder cannot be made or read.
    """

    def __init__(self, folder: Path) -> None:
        self._files = FileBlobs(folder)
        self._folder = folder
        self._places: dict[str, _Place] = {}
        self._packs: dict[Path, set[str]] = {}
        self._spares: dict[Path, int] = {}
        self._lock = threading.Lock()
        self._read_new_packs()

    def put(self, data: bytes) -> str:
        """Store one blob durably, in a file of its own; its hash.

        Raises:
            UnavailableError: no room, or a broken disk.
        """
        return self._files.put(data)

    def keep_all(self, blobs: Mapping[str, bytes]) -> None:
        """Store blobs durably in one pack, each under its name of 64 hex digits.

        Raises:
            UnavailableError: no room, or a broken disk.
        """
        fresh = {name: data for name, data in blobs.items() if name not in self._places}
        if not fresh:
            return
        parts: list[bytes] = []
        places: dict[str, _Place] = {}
        offset = 0
        pack = self._folder / (hashlib.sha256("".join(fresh).encode()).hexdigest() + _SUFFIX)
        for name, data in fresh.items():
            parts += (_ENTRY.pack(bytes.fromhex(name), len(data)), data)
            places[name] = _Place(pack, offset + _ENTRY.size, len(data))
            offset += _ENTRY.size + len(data)
        with self._lock:
            spare = self._take_spare(offset + len(_END))
        try:
            write_durably(pack, *parts, _END, over=spare)
        except OSError as error:
            raise unavailable(pack, error) from error
        with self._lock:
            self._remember(pack, places)

    def get(self, name: str) -> bytes:
        """Read; what was put alone is verified, a frame in a pack verifies itself.

        Raises:
            IntegrityError: there is no such blob, or its bytes are damaged.
            UnavailableError: it cannot be read.
        """
        place = self._places.get(name)
        if place is None and not self._files.path(name).exists():
            self._read_new_packs()  # another process wrote it
            place = self._places.get(name)
        if place is None:
            return self._files.get(name)
        try:
            with place.pack.open("rb") as file:
                file.seek(place.offset - _ENTRY.size)
                head, data = file.read(_ENTRY.size), file.read(place.size_bytes)
        except OSError as error:
            raise unavailable(place.pack, error) from error
        if head != _ENTRY.pack(bytes.fromhex(name), place.size_bytes) or len(data) != place.size_bytes:
            msg = f"{place.pack} is damaged: {name} is not where it was written"
            raise IntegrityError(msg)
        return data

    def delete(self, name: str) -> None:
        """Delete it if it is there; its bytes go with the last blob of its pack.

        Raises:
            UnavailableError: a broken disk.
        """
        with self._lock:
            place = self._places.pop(name, None)
            if place is None:
                self._files.delete(name)
                return
            left = self._packs[place.pack]
            left.discard(name)
            if not left:
                del self._packs[place.pack]
                try:
                    self._set_aside(place.pack)
                except FileNotFoundError:
                    return  # as with any blob
                except OSError as error:
                    raise unavailable(place.pack, error) from error

    def sweep(self, needed: Collection[str]) -> int:
        """Delete everything else: what a process left that was killed between a blob and its row; how many files."""
        packs = len(self._packs)
        for name in [name for name in self._places if name not in needed]:
            self.delete(name)
        unfinished = list(self._folder.glob(f"{WRITING}*"))
        for path in (*unfinished, *self._folder.glob(f"{_SPARE}*")):
            path.unlink(missing_ok=True)
        self._spares.clear()
        return packs - len(self._packs) + len(unfinished) + self._files.sweep(needed)

    def _take_spare(self, size_bytes: int) -> Path | None:
        """The smallest that has the room, so that large ones are left for large packs; or else the largest."""
        if not self._spares:
            return None
        by_size = sorted(self._spares, key=lambda spare: self._spares[spare])
        found = next((spare for spare in by_size if self._spares[spare] >= size_bytes), by_size[-1])
        del self._spares[found]
        return found

    def _set_aside(self, pack: Path) -> None:
        """Delete a pack, but for its room."""
        size_bytes = pack.stat().st_size
        if sum(self._spares.values()) + size_bytes > SPARE_BYTES:
            pack.unlink()
            return
        spare = pack.with_name(_SPARE + pack.stem)
        pack.replace(spare)  # first: whoever reads it, such as a backup, sees by its name that it is gone
        with spare.open("r+b", buffering=0) as file:
            for left in range(size_bytes, 0, -len(_ZEROS)):
                file.write(_ZEROS[:left])
        self._spares[spare] = size_bytes

    def _read_new_packs(self) -> None:
        try:
            for pack in sorted(self._folder.glob(f"*{_SUFFIX}")):
                if pack not in self._packs:
                    places = dict(_entries(pack))
                    with self._lock:
                        self._remember(pack, places)
        except OSError as error:
            raise unavailable(self._folder, error) from error

    def _remember(self, pack: Path, places: dict[str, _Place]) -> None:
        self._places |= places
        self._packs[pack] = set(places)


def _entries(pack: Path) -> Iterator[tuple[str, _Place]]:
    try:
        with pack.open("rb") as file:
            while (head := file.read(_ENTRY.size)) not in {b"", _END}:
                digest, size_bytes = _ENTRY.unpack(head)
                yield digest.hex(), _Place(pack, file.tell(), size_bytes)
                file.seek(size_bytes, 1)
    except FileNotFoundError:
        return  # deleted by the process that writes
    except struct.error as error:
        msg = f"{pack} is damaged: it ends in the middle of an entry"
        raise IntegrityError(msg) from error
