"""A card lasts: what is written within any 24 hours stays within the limit, whatever the coordinator asks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.edge_agent.core.card_budget import HOUR_S, MEGABYTE, CardBudget, today_mb, written
from nightjar.edge_agent.core.eligibility import Answer, Condition
from nightjar.edge_agent.shell.card_use import (
    FILE,
    FLUSH_BYTES,
    TRANSACTION_BYTES,
    CardUse,
    read_budget,
    with_journal,
    written_bytes,
)
from nightjar.edge_agent.shell.probes import Probes
from nightjar.host.files import folders_flushed, replace_file

DAY_S = 24 * HOUR_S


class Life:
    def __init__(self, folder, limit_mb=100.0):
        self.folder, self.limit_mb, self.running_s, self.wall_s, self.total = folder, limit_mb, 0.0, 1.8e9, 0
        self.trusted, self.working = True, False
        self.start()

    def start(self):
        now_s = lambda: self.wall_s if self.trusted else None  # noqa: E731
        self.total = 0
        self.card = CardUse(self.folder, self.limit_mb, lambda: self.running_s, now_s, lambda: self.total)
        self.conditions = Probes([self.card.probe(lambda: self.working)])

    def passes(self, seconds, megabytes=0.0):
        self.running_s += seconds
        self.wall_s += seconds
        self.total += int(megabytes * MEGABYTE)
        self.card.count()

    @property
    def may_begin(self):
        reading = self.conditions.read().get(Condition.DISK_FREE)
        return reading is None or reading.value is not Answer.NO


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("every_s", [60.0, 900.0, 3600.0])
def test_a_coordinator_that_asks_for_round_after_round_writes_no_more_than_the_limit(tmp_path, every_s, restarts):
    life, wrote = Life(tmp_path), []
    for number in range(int(4 * DAY_S / every_s)):
        session_mb = 9.0 if life.may_begin else 0.0
        wrote.append((life.running_s, session_mb))
        life.passes(every_s, session_mb)
        if restarts and number % 7 == 0:
            life.card.keep()
            life.start()
    for moment_s, _ in wrote:
        assert sum(mb for at_s, mb in wrote if moment_s <= at_s < moment_s + DAY_S) <= life.limit_mb
    assert sum(mb for _, mb in wrote) >= 2 * life.limit_mb  # and it does go on, day after day


def test_an_agent_that_is_killed_again_and_again_holds_the_limit(tmp_path):
    """Proven before: killed within each hour, it forgot all that it had written, and wrote 648 MB a day."""
    life, wrote_mb = Life(tmp_path), 0.0
    for _ in range(24):
        for _ in range(3):
            session_mb = 9.0 if life.may_begin else 0.0
            wrote_mb += session_mb
            life.passes(1100, session_mb)
        life.start()
    assert wrote_mb <= life.limit_mb


def test_keeping_the_count_writes_little(tmp_path):
    life = Life(tmp_path, limit_mb=5.0)
    before = folders_flushed()
    for _ in range(50):
        life.passes(60, 0.1)
    assert folders_flushed() - before <= 4


def test_it_says_so_and_begins_again_when_there_is_room(tmp_path):
    life = Life(tmp_path)
    life.passes(60, 89)
    assert not life.may_begin
    life.working = True
    assert life.may_begin  # the session in progress goes on
    assert life.card.spent(working=True) == ""
    life.passes(60, 12)
    assert "101 MB within a day, of at most 100" in life.card.spent(working=True)
    life.working = False
    life.passes(DAY_S + HOUR_S)
    assert life.may_begin


def test_that_the_limit_is_reached_is_kept_at_once(tmp_path):
    life = Life(tmp_path)
    for _ in range(3):
        life.passes(1, 30)
    assert today_mb(read_budget(tmp_path, None)) == pytest.approx(90)


def test_a_download_is_told_at_once_and_the_end_of_a_session_still_fits(tmp_path):
    life = Life(tmp_path)
    life.running_s += 1
    assert not life.card.worn(working=True)
    life.running_s += 1
    life.total += 98_500_000  # since the last turn of the driver
    assert life.card.worn(working=True)
    assert life.card.today_mb == pytest.approx(98.5)


def test_what_the_file_system_writes_for_small_files_is_counted(tmp_path):
    total = with_journal(lambda: 10)
    before = total()
    replace_file(tmp_path / "one", b"1")
    assert total() - before >= FLUSH_BYTES
    assert before >= 10 * TRANSACTION_BYTES


def test_a_small_limit_still_lets_a_session_begin(tmp_path):
    life = Life(tmp_path, limit_mb=5.0)
    assert life.may_begin
    life.passes(60, 4)
    assert not life.may_begin


@pytest.mark.parametrize("trusted", [True, False])
def test_time_off_counts_only_by_a_trusted_clock(tmp_path, trusted):
    life = Life(tmp_path)
    life.passes(60, 95)
    life.card.keep()
    life.wall_s += 2 * DAY_S
    life.trusted = trusted
    life.start()
    assert life.may_begin is trusted


def test_what_a_killed_agent_wrote_is_kept_to_the_hour(tmp_path):
    life = Life(tmp_path)
    for _ in range(61):
        life.passes(60, 1.5)
    life.start()
    assert life.card.today_mb == pytest.approx(90, abs=2)


@pytest.mark.parametrize("content", [b"", bytes(50), b'{"budget": 3}', b'{"budget": {"hours": []}}'])
def test_a_damaged_count_begins_anew(tmp_path, content):
    (tmp_path / FILE).write_bytes(content)
    assert Life(tmp_path).may_begin


def test_the_bytes_of_all_processes_are_counted(tmp_path):
    for name, children in {"self": "7 8", "7": "9", "8": "", "9": ""}.items():
        folder = tmp_path / "proc" / name
        (folder / "task" / "1").mkdir(parents=True)
        (folder / "task" / "1" / "children").write_text(children)
        (folder / "io").write_text("rchar: 9999\nwrite_bytes: 100\ncancelled_write_bytes: 5\n")
    assert written_bytes(tmp_path) == 400
    assert written_bytes(tmp_path / "nowhere") == 0


@given(st.lists(st.tuples(st.floats(0, 1e6), st.integers(0, 10**9)), max_size=50))
def test_nothing_is_forgotten_before_a_day_has_passed(steps):
    budget = CardBudget()
    for elapsed_s, size in steps:
        budget = written(budget, elapsed_s, size)
    recent, total = 0.0, 0
    for elapsed_s, size in reversed(steps):
        if recent < DAY_S:
            total += size
        recent += elapsed_s
    assert today_mb(budget) * MEGABYTE >= total - 1
    assert len(budget.hours) <= 25
