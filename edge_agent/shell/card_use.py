"""Counts what all processes of the agent write to the card, and keeps the count over restarts.

The kernel counts the bytes that a process has sent towards the disk, and adds those of ended children to their parent.
What the file system writes besides, in its journal and tables, is not in it, and is sixteen times as much where a small
file is replaced. So it is added, as it was measured on ext4 (docs/benchmarks.md). The count is kept in
``written.json``. Source: proc_pid_io(5).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from nightjar.edge_agent.core.card_budget import HOUR_S, MEGABYTE, CardBudget, spent, today_mb, written
from nightjar.edge_agent.core.eligibility import Answer, Condition, ConditionReading, Readings
from nightjar.edge_agent.shell.probes.files import text
from nightjar.edge_agent.shell.probes.own_use import family
from nightjar.host.files import folders_flushed, read_file, replace_file

FILE = "written.json"
FLUSH_BYTES = 108 << 10
"""What ext4, with blocks of 4 kB, writes besides when a file is replaced, two commits of its journal: at most 66 kB.
More is counted, because the files that the agent's children replace are not."""
TRANSACTION_BYTES = 24 << 10
"""The same for a transaction of a database that grows: one commit."""
KEPT_SHARE, KEPT_BYTES = 0.05, 20 * FLUSH_BYTES
"""So much of the limit may be written, and at least so much, before the count is kept: a kill forgets what was written
since, and keeping it writes, too."""
LOOK_EVERY_S = 0.1
"""Downloads ask after each piece; a card writes a megabyte or two within this time."""


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


def with_journal(transactions: Callable[[], int]) -> Callable[[], int]:
    """What the agent's processes have written so far, and the file system for them.

    Args:
        transactions: returns how many this process has made.
    """
    return lambda: written_bytes() + folders_flushed() * FLUSH_BYTES + transactions() * TRANSACTION_BYTES


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
    """The count of a running agent. Thread-safe.

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
        self._lock = threading.Lock()
        self._budget = read_budget(data_dir, now_s())
        self._counted_s = self._kept_s = monotonic_s()
        self._was_spent = bool(spent(self._budget, limit_mb, working=False))
        self._kept_bytes = 0
        self._counted = 0  # what this process has written before belongs to the day, too

    @property
    def today_mb(self) -> float:
        """Megabytes written within the last day."""
        return today_mb(self._budget)

    def count(self) -> None:
        """Count what was written since; keep it once an hour, after much, and when the limit is reached."""
        now_s = self._monotonic_s()
        self._count(now_s)
        is_spent = bool(self.spent(working=False))
        is_much = self._counted - self._kept_bytes >= max(KEPT_SHARE * self._limit_mb * MEGABYTE, KEPT_BYTES)
        if is_spent != self._was_spent or is_much or now_s - self._kept_s >= HOUR_S:
            self._was_spent = is_spent
            self.keep()

    def _count(self, now_s: float) -> None:
        with self._lock:
            total = self._total()
            # A child that ends takes its count away for a moment, until it is its parent's.
            self._budget = written(self._budget, now_s - self._counted_s, max(0, total - self._counted))
            self._counted, self._counted_s = max(self._counted, total), now_s

    def worn(self, *, working: bool) -> bool:
        """Whether nothing more is to be written, also by what was written a moment ago."""
        now_s = self._monotonic_s()
        if now_s - self._counted_s >= LOOK_EVERY_S:
            self._count(now_s)
        return bool(self.spent(working=working))

    def keep(self) -> None:
        """Make the count durable; on a full disk another time."""
        self._kept_s, self._kept_bytes = self._monotonic_s(), self._counted
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
