"""Takes over what the agent fetched: a bundle to install, or the news that the present release was withdrawn.

The agent verifies both with The Update Framework (:mod:`nightjar.edge_agent.shell.release_fetch`), but it faces the
network, so nothing that it leaves is trusted here: a bundle counts by its own signature and its version, and a
withdrawal can only lead back to the release before. A bundle is moved, not copied; it may be changed while it is read,
which :func:`nightjar.firmware_scripts.device.unpacking.unpack` notices.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from pathlib import Path

from nightjar.firmware_scripts.device.places import Places
from nightjar.firmware_scripts.device.releases import ReleaseWithdrawn
from nightjar.host.files import READABLE, replace_file, sync_folder

BUNDLE, WITHDRAWN = "bundle.tar", "withdrawn.json"
_MOST_BYTES = 4096


def take_bundle(places: Places) -> Path | None:
    """The bundle to install: one that was just handed over, or was before and is not done with; None if there is none.

    Raises:
        OSError: it cannot be moved.
    """
    handed = places.handed_over / BUNDLE
    if not places.handed_over.is_symlink() and os.path.lexists(handed):
        places.kept.mkdir(parents=True, exist_ok=True)
        handed.replace(places.incoming)
        sync_folder(places.kept)
    if not os.path.lexists(places.incoming):
        return None
    found = places.incoming.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        done_with_bundle(places, "what was handed over is no plain file")
        return None
    return places.incoming


def is_news(places: Places) -> bool:
    """Whether the agent handed something over that was not taken over yet."""
    return any(os.path.lexists(places.handed_over / name) for name in (BUNDLE, WITHDRAWN))


def done_with_bundle(places: Places, reason: str = "") -> None:
    """Remove the bundle that was taken over, and keep why it is not used: the agent tells the coordinator."""
    places.not_taken.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # a full disk, say, which the bundle must not keep full
        replace_file(places.not_taken, _printable(" ".join(reason.split())).encode(), READABLE)
    places.incoming.unlink(missing_ok=True)
    sync_folder(places.kept)


def withdrawal(places: Places) -> ReleaseWithdrawn | None:
    """What the agent says was withdrawn; None if nothing was, or it is unreadable."""
    try:
        fd = os.open(places.handed_over / WITHDRAWN, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            fields = json.loads(file.read(_MOST_BYTES))
        version, reason = str(fields["version"]), _printable(str(fields["reason"])[:200])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return ReleaseWithdrawn(version, reason)


def done_with_withdrawal(places: Places) -> None:
    """Remove the news of a withdrawal."""
    if not places.handed_over.is_symlink():
        (places.handed_over / WITHDRAWN).unlink(missing_ok=True)


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)
