"""What of a measurement of desks is done: a file with a line for each person who was typed, so that a run can go on."""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec

from nightjar.edge_agent.core.keystrokes import Replayed
from nightjar.wire.errors import CorpusError


class DeskSetting(msgspec.Struct, frozen=True):
    """Whose messages are typed. Figures of two settings do not belong together."""

    corpus_sha256: str
    public_sha256: str
    words: int
    seed: int


class TypedPerson(msgspec.Struct, frozen=True):
    """The figures of one person with one predictor.

    Attributes:
        person: the place of the person in the draw.
        times_ms: from each key to its candidates.
        idle_mb: the memory of the processes at the end; None where it is not measured.
    """

    predictor: str
    person: int
    counts: Replayed
    times_ms: list[float] = []
    messages: int = 0
    differing: int = 0
    idle_mb: float | None = None


class DeskRecord:
    """The people who were typed so far, in a file or, without one, in memory. Threads may add to it.

    Raises:
        CorpusError: the file is of another setting, or is not such a file.
    """

    def __init__(self, path: Path | None, setting: DeskSetting) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._typed: dict[tuple[str, int], TypedPerson] = {}
        first = msgspec.json.encode(setting)
        if path is None or not path.exists():
            self._write(first)
            return
        # A run that was cut off may have left the beginning of a line.
        begun, *lines = path.read_bytes().split(b"\n")[:-1] or [b""]
        try:
            former = msgspec.json.decode(begun, type=DeskSetting)
            for line in lines:
                self._remember(msgspec.json.decode(line, type=TypedPerson))
        except msgspec.DecodeError as error:
            msg = f"{path}: expected what --so-far has written, got {error}; name another file"
            raise CorpusError(msg) from error
        if former != setting:
            msg = f"{path}: expected people of {setting}, got {former}; name another file"
            raise CorpusError(msg)
        path.write_bytes(b"".join(line + b"\n" for line in (begun, *lines)))

    def of(self, predictor: str, person: int) -> TypedPerson | None:
        """The figures of a person, None if they are still to be measured."""
        return self._typed.get((predictor, person))

    def all_of(self, predictor: str) -> list[TypedPerson]:
        """The figures of everybody who was typed with a predictor."""
        return [typed for (name, _), typed in self._typed.items() if name == predictor]

    def add(self, typed: TypedPerson) -> None:
        """Record a person."""
        with self._lock:
            self._remember(typed)
            self._write(msgspec.json.encode(typed))

    def _remember(self, typed: TypedPerson) -> None:
        self._typed[typed.predictor, typed.person] = typed

    def _write(self, line: bytes) -> None:
        if self._path is not None:
            with self._path.open("ab") as file:
                file.write(line + b"\n")
