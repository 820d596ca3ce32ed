"""Looks for releases of the agent (docs/releases.md), and reads which ones were rolled back here.

``nightjar-device`` records the latter outside of every release; environment variables of the systemd unit give the
record's path and the present release. The agent passes it on to the coordinator: nobody inspects the card of a device
that seems to be fine. Verifying and fetching take a separate process (:mod:`nightjar.edge_agent.shell.release_fetch`),
because The Update Framework's client takes memory that the agent would keep all day.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from nightjar.edge_agent.inbox import ReleaseCheckDone
from nightjar.host.children import python_command
from nightjar.host.files import read_file
from nightjar.wire.errors import UnavailableError

VARIABLE = "NIGHTJAR_RELEASES"
PRESENT = "NIGHTJAR_RELEASE"
LOOK_EVERY_S = 3600.0
COSTLY_EVERY_S = 6 * 3600.0
"""Pause between looks on battery or a metered network, where only security releases are fetched."""
FIRST_WITHIN_S = 600.0
"""After a start the first look comes within this time, so that a fleet that starts at once does not ask at once."""
_PATIENCE_S = 4 * 3600.0
_STOPPING_S = 0.2
_MOST_BYTES = 1 << 20
_MOST_CHARACTERS = 400


class ReleaseRecord(msgspec.Struct, frozen=True):
    """The part of the device's record that the agent reads: release -> why it was rolled back."""

    refused: dict[str, str] = {}


class Looking(msgspec.Struct, frozen=True, kw_only=True):
    """What a look for releases needs to know.

    Attributes:
        release: folder of the present release.
        record: the device's record of releases.
        free: whether fetching costs nothing: charging, and on an unmetered network.
    """

    device: str
    coordinator_url: str
    data_dir: str
    release: str
    record: str
    free: bool = False


class ReleaseProcess:
    """Implements :class:`nightjar.edge_agent.ports.Releases` with a process for each look.

    ``hurry`` is how much faster than a device an emulated phone lives; it also skips the first pause.
    """

    def __init__(self, looking: Looking, jitter: Callable[[], float], hurry: float | None = None) -> None:
        self._looking = looking
        self._jitter = jitter
        self._hurry = hurry or 1.0
        self._pause_s = 0.0 if hurry else jitter() * FIRST_WITHIN_S
        self._since_s: float | None = None
        self._costly_pause_s = self._pause_s

    def due(self, now_s: float, *, free: bool) -> bool:
        """Whether it is time to look."""
        if self._since_s is None:
            self._since_s = now_s
        return now_s - self._since_s >= (self._pause_s if free else self._costly_pause_s)

    def ended(self, now_s: float, *, whole: bool) -> None:
        """Note that a look ended; one that was stopped is resumed as soon as it may be."""
        self._since_s = now_s
        share = (0.9 + 0.2 * self._jitter()) / self._hurry if whole else 0.0
        self._pause_s, self._costly_pause_s = LOOK_EVERY_S * share, COSTLY_EVERY_S * share

    def look(self, free: bool, should_stop: Callable[[], bool]) -> ReleaseCheckDone:
        """Look for a release, fetch what may be fetched now, and hand it over to ``nightjar-device``."""
        command = python_command("-m", "nightjar.edge_agent.shell.release_fetch")
        asked = msgspec.json.encode(msgspec.structs.replace(self._looking, free=free))
        try:
            with subprocess.Popen(  # noqa: S603 - our own module
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            ) as child:
                return _outcome(child, asked, should_stop)
        except OSError as error:
            msg = f"no look for releases: {error}"
            raise UnavailableError(msg) from error


def _outcome(child: subprocess.Popen[bytes], asked: bytes, should_stop: Callable[[], bool]) -> ReleaseCheckDone:
    given: bytes | None = asked
    for _ in range(int(_PATIENCE_S / _STOPPING_S)):
        try:
            answer, said = child.communicate(given, timeout=_STOPPING_S)
        except subprocess.TimeoutExpired:
            given = None
            if should_stop():
                break
        else:
            if child.returncode == 0:
                return msgspec.json.decode(answer, type=ReleaseCheckDone)
            msg = f"a look for releases ended with status {child.returncode}: {said.decode(errors='replace')[-300:]}"
            raise UnavailableError(msg)
    child.kill()
    msg = "a look for releases was stopped"
    raise UnavailableError(msg)


def rollback_reason(environment: Mapping[str, str]) -> str:
    """The newest release that was rolled back on this device, with the reason; empty if there is none.

    >>> rollback_reason({})
    ''
    """
    refused = read_record(Path(environment.get(VARIABLE, ""))).refused
    if not refused:
        return ""
    newest = max(refused, key=_order)
    return f"{newest}: {refused[newest]}"[:_MOST_CHARACTERS].replace("\0", "?")


def read_record(path: Path) -> ReleaseRecord:
    """The device's record; an empty one if it is missing or unreadable: such a device still trains."""
    try:
        return msgspec.json.decode(read_file(path, _MOST_BYTES), type=ReleaseRecord)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return ReleaseRecord()


def _order(version: str) -> tuple[tuple[int, ...], str]:
    parts = version.split(".")
    return tuple(int(part) for part in parts) if all(part.isdecimal() for part in parts) else (), version
