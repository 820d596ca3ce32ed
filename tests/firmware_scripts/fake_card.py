"""A card in memory that can be broken in every way that cards are, and cut off between any two of its operations."""

import contextlib
import errno
import io
import os


class Cut(BaseException):
    """The power went, or the process was killed: nothing may catch it."""


class FakeCard:
    """Implements BlockFile. ``on_medium`` survives; the last writes are ``cached`` until they are flushed."""

    sector_bytes = 512

    def __init__(self, size_bytes, *, old=b"\xee", most_per_write=None, write_faults=None, read_faults=None):
        self.on_medium = bytearray(old * size_bytes)
        self.cached = []
        self.page_cache = bytearray(self.on_medium)  # what is read back until the cache is dropped
        self.size_bytes = size_bytes
        self.most_per_write = most_per_write
        self.write_faults = write_faults or {}  # offset: errno
        self.read_faults = read_faults or {}
        self.sync_faults = {}  # which flush: errno
        self.syncs = 0
        self.stuck_bytes = {}  # offset: what is there whatever is written
        self.operations = 0
        self.cut_at = None
        self.gone_at = None

    def write_at(self, offset, data):
        self._count()
        for bad, number in self.write_faults.items():
            if offset == bad:
                raise OSError(number, os.strerror(number))
            if offset < bad < offset + len(data):
                data = data[: bad - offset]
        if offset >= self.size_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        data = bytes(data[: self.size_bytes - offset][: self.most_per_write])
        self.cached.append((offset, data))
        self.page_cache[offset : offset + len(data)] = data
        return len(data)

    def read_at(self, offset, length_bytes):
        self._count()
        for bad, number in self.read_faults.items():
            if offset <= bad < offset + length_bytes:
                if offset == bad:
                    raise OSError(number, os.strerror(number))
                length_bytes = bad - offset
        return bytes(self.page_cache[offset : offset + length_bytes])

    def sync(self):
        self._count()
        self.syncs += 1
        if number := self.sync_faults.get(self.syncs):
            raise OSError(number, os.strerror(number))
        self.on_medium, self.cached = self.seen(), []

    def drop_cache(self):
        self.sync()
        self.page_cache = bytearray(self.on_medium)

    def seen(self):
        """What the medium holds once everything has reached it."""
        return self.after(self.cached)

    def after(self, writes):
        """What the medium holds once these of the cached writes have reached it."""
        held = bytearray(self.on_medium)
        for offset, data in writes:
            held[offset : offset + len(data)] = data
        for offset, value in self.stuck_bytes.items():
            held[offset] = value
        return held

    def _count(self):
        self.operations += 1
        if self.cut_at is not None and self.operations > self.cut_at:
            raise Cut
        if self.gone_at is not None and self.operations > self.gone_at:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))


def image_of(data, *, most_per_read=None):
    """Opens ``data`` as an image, again and again."""

    class Trickle(io.BytesIO):
        def read(self, length_bytes=-1, /):
            return super().read(min(length_bytes, most_per_read) if most_per_read else length_bytes)

    return lambda: contextlib.nullcontext(Trickle(data))


def quiet(phase, done_bytes, total_bytes):
    """A Report that tells nobody."""


def never():
    """Nobody asks to stop."""
    return False
