"""The kernel's mounts and swap areas, parsed from ``/proc/self/mountinfo`` and ``/proc/swaps``.

Source: proc(5). One unreadable line makes the whole file unusable, because the mount that we cannot parse may be the
one that matters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from nightjar.wire.errors import RemoteProtocolError

_ESCAPE = re.compile(r"\\([0-7]{3})")
_NUMBER = re.compile(r"\d{1,7}:\d{1,7}")


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of mountinfo."""

    number: str  # ``major:minor`` of the device; ``0:n`` if the file system has no device number (btrfs, overlay, zfs)
    point: str
    file_system: str
    source: str  # the source that the file system reports, often a device path
    options: str  # the options of the file system, not of the mount
    root: str = "/"  # what of the file system is mounted: a folder or a file in it


@dataclass(frozen=True, slots=True)
class Swap:
    """One line of ``/proc/swaps``; ``is_file`` is true for a file and false for a device."""

    path: str
    is_file: bool


def parse_mountinfo(text: str) -> tuple[Mount, ...]:
    r"""Parse the mounts, in the kernel's order: a later mount hides an earlier one at the same point.

    Raises:
        RemoteProtocolError: a line does not have the format described in proc(5).

    >>> parse_mountinfo("36 1 8:2 / /a\\040b rw shared:1 - ext4 /dev/sda2 rw\n")[0].point
    '/a b'
    """
    mounts = []
    for line in text.splitlines():
        before, dash, after = line.partition(" - ")
        left, right = before.split(" "), after.split(" ")
        if not dash or len(left) < 6 or len(right) < 2 or not _NUMBER.fullmatch(left[2]):
            msg = f"mountinfo: a line is not as the kernel writes it: {line[:120]!r}"
            raise RemoteProtocolError(msg, code="mountinfo")
        options = right[2] if len(right) > 2 else ""
        mounts.append(
            Mount(left[2], _plain(left[4]), _plain(right[0]), _plain(right[1]), _plain(options), _plain(left[3]))
        )
    if not mounts:
        msg = "mountinfo: is empty, but something must be mounted at /"
        raise RemoteProtocolError(msg, code="mountinfo")
    return tuple(mounts)


def parse_swaps(text: str) -> tuple[Swap, ...]:
    r"""Parse the swap areas.

    Raises:
        RemoteProtocolError: a line does not have the format described in proc(5).

    >>> parse_swaps("Filename\tType\tSize\tUsed\tPriority\n/dev/zram0 partition\t1\t0\t100\n")[0].is_file
    False
    """
    swaps = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) != 5 or fields[1] not in {"partition", "file"}:
            # A deleted swap file is shown as "PATH\040(deleted)", which is one field too.
            msg = f"swaps: a line is not as the kernel writes it: {line[:120]!r}"
            raise RemoteProtocolError(msg, code="swaps")
        swaps.append(Swap(_plain(fields[0]), fields[1] == "file"))
    return tuple(swaps)


def containing(mounts: tuple[Mount, ...], path: str) -> Mount | None:
    """The mount that ``path`` lies on: the longest mount point that contains it; of equals, the last."""
    best: Mount | None = None
    for mount in mounts:
        below = mount.point == "/" or path == mount.point or path.startswith(mount.point + "/")
        if below and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def _plain(field: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 8)), field)
