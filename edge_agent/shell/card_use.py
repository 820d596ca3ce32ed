"""Counts what all processes of the agent write to the card, and keeps the count over restarts.

The kernel counts the bytes that a process has sent towards the disk, and adds those of ended children to their parent.
What the file system writes besides, such as its journal, is not in it. The count is kept once an hour, in
``written.json``. Source: proc_pid_io(5).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import msgspec

from nightjar.edge_agent.core.card_budget import HOUR_S, CardBudget, spent, today_mb, written
from nightjar.edge_agent.core.eligibility import Answer, Condition, ConditionReading, Readings
from nightjar.edge_agent.shell.probes.files import text
from nightjar.edge_agent.shell.probes.own_use import family
from nightjar.host.files import read_file, replace_file

FILE = "written.json"


class _Kept(msgspec.Struct, frozen=True):
    """The budget, and when it was kept, seconds since 1970 UTC; None if the time was not trusted."""

    budget: CardBudget
    at_s: float | None = None


def read_budget(data_dir: Path, now_s: float | None) -> CardBudget:
    """The budget as it was kept, brought forward to a trusted time; a damaged one counts as new."""
    try:
        kept = msgspec.json.decode(read_file(data_dir / FILE), type=_Kept)
    except (OSError, msgspec.MsgspecError):
        return CardBudget()
    off_s = 0.0 if now_s is None or kept.at_s is None else now_s - kept.at_s
    return written(kept.budget, off_s, 0)


def written_bytes(root: Path = Path("/")) -> int:
    """Bytes that this process, its descendants and its ended children have written; 0 if the kernel does not say."""
    total = 0
    for process in family(root / "proc/self"):
        for line in text(process / "io").splitlines():
            name, _, value = line.partition(":")
            if name == "write_bytes" and value.strip().isdigit():
                total += int(value)
    return total


class CardUse:
    """The count of a running agent; for the driver's thread.

    Args:
        data_dir: where the count is kept.
        limit_mb: most megabytes within a day.
        monotonic_s: a clock that never jumps.
        now_s: the time, None while none is trusted.
        total: returns the bytes written so far by the agent's processes.
    """

    def __init__(
        self,
        data_dir: Path,
        limit_mb: float,
        monotonic_s: Callable[[], float],
        now_s: Callable[[], float | None],
        total: Callable[[], int] = written_bytes,
    ) -> None:
        self._path, self._limit_mb = data_dir / FILE, limit_mb
        self._monotonic_s, self._now_s, self._total = monotonic_s, now_s, total
        self._budget = read_budget(data_dir, now_s())
        self._counted_s = self._kept_s = monotonic_s()
        self._counted = 0  # what this process has written before belongs to the day, too

    @property
    def today_mb(self) -> float:
        """Megabytes written within the last day."""
        return today_mb(self._budget)

    def count(self) -> None:
        """Count what was written since; keep it once an hour."""
        now_s, total = self._monotonic_s(), self._total()
        # A child that ends takes its count away for a moment, until it is its parent's.
        self._budget = written(self._budget, now_s - self._counted_s, max(0, total - self._counted))
        self._counted, self._counted_s = max(self._counted, total), now_s
        if now_s - self._kept_s >= HOUR_S:
            self.keep()

    def keep(self) -> None:
        """Make the count durable; on a full disk another time."""
        self._kept_s = self._monotonic_s()
        with contextlib.suppress(OSError):
            replace_file(self._path, msgspec.json.encode(_Kept(self._budget, self._now_s())))

    def spent(self, *, working: bool) -> str:
        """Why nothing more is to be written; empty if it may be."""
        return spent(self._budget, self._limit_mb, working=working)

    def probe(self, working: Callable[[], bool]) -> Callable[[], Readings]:
        """A probe of the device's conditions: no room on the disk, once the card was written enough for a day."""

        def reading() -> Readings:
            why = self.spent(working=working())
            if not why:
                return {}
            return {Condition.DISK_FREE: ConditionReading(Answer.NO, "/proc/self/io", why)}

        return reading
