"""The same tests for the journal of a simulated phone and for that of a real one."""

import pytest

from nightjar.edge_agent.core.events import SendDropout
from nightjar.edge_agent.core.lifecycle import Reporting, Resting
from nightjar.edge_agent.core.outbox import Parcel
from nightjar.edge_agent.core.stored import Caps, Change, NewReport
from nightjar.edge_agent.shell.database import Database
from nightjar.simulation.rounds.faults import Fuse, PowerCut
from nightjar.simulation.rounds.journal import MOST_PENDING_DROPOUTS, MemoryJournal
from nightjar.wire.errors import LocalProtocolError
from nightjar.wire.messages import DropoutCause, Verdict
from tests.edge_agent.fakes import FakeClock

REPORTING, RESTING = Reporting(3, 1), Resting(9.0, "done")
REPORT = NewReport(Parcel(3, 1, 1), b"frame")


@pytest.fixture(params=["memory", "database"])
def journal(request, tmp_path):
    if request.param == "memory":
        yield MemoryJournal(lambda: None, lambda _report: None)
        return
    database = Database(tmp_path / "agent.db", Caps(10, 1000, 1e6), FakeClock())
    yield database
    database.close()


def test_an_empty_one_remembers_nothing(journal):
    assert journal.load().lifecycle is None
    assert journal.load().parcel is None
    assert journal.pending_dropouts() == []
    with pytest.raises(LocalProtocolError):
        journal.frame()


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_report_stays_until_there_is_a_receipt(journal, verdict):
    journal.commit(Change(REPORTING, report=REPORT))
    journal.commit(Change(REPORTING))
    assert journal.load().lifecycle == REPORTING
    assert journal.load().parcel == REPORT.parcel
    assert journal.frame() == b"frame"
    journal.commit(Change(RESTING, receipted=verdict))
    assert journal.load().parcel is None


def test_the_newest_dropouts_wait_until_they_are_sent(journal):
    lost = [SendDropout(number, 1, DropoutCause.UNPLUGGED, "") for number in range(MOST_PENDING_DROPOUTS + 2)]
    for one in lost:
        journal.commit(Change(RESTING, dropouts=[one]))
    waiting = journal.pending_dropouts()
    assert [pending.dropout for pending in waiting] == lost[2:]
    journal.dropout_sent(waiting[0].number)
    assert [pending.dropout for pending in journal.pending_dropouts()] == lost[3:]


def test_deaths_are_counted_until_they_are_set_back(journal):
    journal.commit(Change(RESTING, deaths=2))
    journal.commit(Change(RESTING))
    assert journal.load().deaths == 2
    journal.commit(Change(RESTING, deaths=0))
    assert journal.load().deaths == 0


def test_a_power_cut_before_the_change_leaves_the_old_state_and_one_after_it_the_new():
    fuse = Fuse()
    journal = MemoryJournal(fuse.touch, lambda _report: None)
    for touches, kept in ((1, None), (2, RESTING)):
        fuse.left = touches
        with pytest.raises(PowerCut):
            journal.commit(Change(RESTING))
        assert journal.load().lifecycle == kept
