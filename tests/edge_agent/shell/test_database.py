import sqlite3
import stat
import threading

import pytest

from nightjar.edge_agent.core.events import SendDropout
from nightjar.edge_agent.core.exclusion import Secret
from nightjar.edge_agent.core.lifecycle import STARTING, Reporting, Resting
from nightjar.edge_agent.core.outbox import Parcel
from nightjar.edge_agent.core.stored import AgentTally, Change, NewReport
from nightjar.edge_agent.keyboard.learning import OwnWord
from nightjar.edge_agent.shell.database import (
    MOST_OWN_WORDS,
    MOST_PENDING_DROPOUTS,
    MOST_RECALL_ROWS,
    Caps,
    Database,
)
from nightjar.wire.errors import ConfigError, LocalProtocolError, UnavailableError
from nightjar.wire.messages import DropoutCause, Verdict
from tests.edge_agent.fakes import CAPS, FakeClock

DAY_S = 86_400.0


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "agent.db"


@pytest.fixture
def database(path, clock):
    database = Database(path, CAPS, clock)
    yield database
    database.close()


def capped(path, clock, **changes):
    return Database(path, Caps(**({"messages": 100, "total_bytes": 10_000, "age_s": DAY_S} | changes)), clock)


def new_report(number=3, frame=b"frame"):
    return NewReport(Parcel(number, 1, 2), frame)


# --- typed messages ---


def test_messages_come_back_in_order(database):
    for text in ("one", "two", "dreißig 🎉"):
        database.add(text)
    assert database.texts() == ["one", "two", "dreißig 🎉"]
    assert database.count() == 3


def test_the_oldest_go_when_there_are_too_many(path, clock):
    database = capped(path, clock, messages=3)
    for text in "abcde":
        database.add(text)
    assert database.texts() == ["c", "d", "e"]
    database.close()


def test_the_oldest_go_when_they_are_too_long(path, clock):
    database = capped(path, clock, total_bytes=10)
    for text in ("aaaa", "bbbb", "éé"):
        database.add(text)
    assert database.texts() == ["bbbb", "éé"]
    database.add("x" * 11)
    assert database.texts() == []
    database.close()


def test_messages_are_forgotten_when_they_are_old_also_without_new_ones(path, clock):
    database = capped(path, clock)
    database.add("old")
    clock.now_s += DAY_S / 2
    database.add("new")
    clock.now_s += DAY_S / 2 + 1
    assert database.texts() == ["new"]
    database.close()


def test_a_session_learns_from_the_newest_and_from_no_message_more_often_than_allowed(path, clock):
    database = capped(path, clock, session_messages=4, repeats=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        database.add(text)
    assert database.count() == 6
    assert database.texts() == ["a", "c", "a", "b"]
    database.close()


def test_what_must_not_be_kept_never_reaches_the_file(path, clock):
    database = capped(path, clock, forbidden=("zyzzyva",))
    secrets = ("ada@example.org", "4111 1111 1111 1111", "GB82 WEST 1234 5698 7654 32", "call 030 901820", "my Zyzzyva")
    assert [database.add(secret) for secret in secrets] == [""] * len(secrets)
    assert database.add("see you at 8127") == "see you at …"
    assert database.add_once("person", [*secrets, "hello", "4271"])
    assert database.texts() == ["see you at …", "hello"]
    on_disk = b"".join(file.read_bytes() for file in path.parent.iterdir() if file.is_file())
    assert b"hello" in on_disk
    for secret in (*secrets, "4271", "8127"):
        assert secret.encode() not in on_disk
    database.close()


def test_a_set_is_added_once_in_the_life_of_the_file(path, clock, database):
    assert database.add_once("person", ["a", "b"])
    assert not database.add_once("person", ["a", "b"])
    again = Database(path, CAPS, clock)
    assert not again.add_once("person", ["a", "b"])
    assert again.texts() == ["a", "b"]
    again.close()


def test_a_lone_surrogate_is_kept_as_something_else(database):
    database.add("bad \ud800 text")
    assert database.texts() == ["bad ? text"]


def test_threads_may_add_at_the_same_time(database):
    threads = [threading.Thread(target=lambda: [database.add("x") for _ in range(20)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert database.count() == 80


def test_only_the_owner_can_read_the_files(path, database):
    database.add("secret")
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_a_file_that_was_readable_for_all_is_closed(path, clock):
    path.touch(mode=0o644)
    Database(path, CAPS, clock).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_forgotten_message_is_not_left_in_the_file(path, clock):
    database = capped(path, clock, messages=1)
    database.add("unforgettable words")
    database.add("others")
    database.close()
    assert b"unforgettable" not in path.read_bytes()


# --- journal ---


def test_a_new_device_remembers_nothing(database):
    remembered = database.load()
    assert (remembered.lifecycle, remembered.parcel) == (None, None)
    assert database.tally() == AgentTally()


def test_state_report_and_dropouts_survive_a_process(path, clock, database):
    dropout = SendDropout(2, 1, DropoutCause.IN_USE, "in use")
    database.commit(Change(Reporting(3, 1), report=new_report(), dropouts=[dropout]))
    again = Database(path, CAPS, clock)
    assert again.load().lifecycle == Reporting(3, 1)
    assert again.load().parcel == Parcel(3, 1, 2)
    assert again.frame() == b"frame"
    assert [p.dropout for p in again.pending_dropouts()] == [dropout]
    again.close()


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_report_goes_with_its_receipt_and_counts_if_it_was_accepted(database, verdict):
    database.commit(Change(Reporting(3, 1), report=new_report()))
    database.commit(Change(Resting(0.0, ""), receipted=verdict))
    assert database.load().parcel is None
    assert database.tally().reports_sent == verdict.counted
    with pytest.raises(LocalProtocolError, match="empty"):
        database.frame()


def test_the_tally_counts_accepted_reports_and_their_bytes(database, clock):
    for frame in (b"12345", b"123"):
        database.commit(Change(Reporting(3, 1), report=new_report(frame=frame)))
        database.commit(Change(STARTING, receipted=Verdict.ACCEPTED))
    assert database.tally() == AgentTally(2, 8, 3, clock.wall_s())


def test_a_change_is_written_whole_or_not_at_all(database):
    database.commit(Change(Reporting(3, 1), report=new_report()))
    broken = NewReport(Parcel(4, 1, 1), None)  # the database refuses
    with pytest.raises(UnavailableError, match="could not be written"):
        database.commit(Change(STARTING, report=broken))
    assert database.load().lifecycle == Reporting(3, 1)
    assert database.frame() == b"frame"


def test_a_sent_dropout_is_forgotten_and_very_old_ones_too(database):
    dropouts = [SendDropout(n, 1, DropoutCause.IN_USE, "") for n in range(MOST_PENDING_DROPOUTS + 3)]
    database.commit(Change(STARTING, dropouts=dropouts))
    pending = database.pending_dropouts()
    assert [p.dropout.round for p in pending] == list(range(3, MOST_PENDING_DROPOUTS + 3))
    database.dropout_sent(pending[0].number)
    assert len(database.pending_dropouts()) == MOST_PENDING_DROPOUTS - 1


def test_a_state_of_an_unknown_version_counts_as_none(path, clock, database):
    database.commit(Change(Reporting(3, 1), report=new_report()))
    with sqlite3.connect(path) as connection:
        connection.execute('UPDATE lifecycle SET state = \'{"type":"dreaming"}\'')
    connection.close()
    assert database.load().lifecycle is None
    assert database.load().parcel == Parcel(3, 1, 2)


# --- agents of before, which had error feedback ---


def left_by_an_agent_with_error_feedback(path, clock, model_bytes=6 << 20):
    Database(path, CAPS, clock).close()
    vector = b"leftover" * (model_bytes // 8)
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO outbox VALUES (1, 3, 1, 2, ?, 'layout', ?, ?)", (b"frame", vector, vector))
        connection.execute("INSERT INTO residual VALUES (1, 'layout', ?)", (vector,))
        state = '{"type":"reporting","round":3,"attempt":1}'
        connection.execute("INSERT INTO lifecycle VALUES (1, ?)", (state.encode(),))
    connection.close()
    assert path.stat().st_size > 3 * model_bytes


def test_the_report_of_an_agent_of_before_stays_and_its_residual_goes_with_its_space(path, clock):
    left_by_an_agent_with_error_feedback(path, clock)
    database = Database(path, CAPS, clock)
    assert path.stat().st_size < 1 << 20
    assert database.frame() == b"frame"
    assert (database.load().lifecycle, database.load().parcel) == (Reporting(3, 1), Parcel(3, 1, 2))
    assert b"leftover" not in b"".join(file.read_bytes() for file in path.parent.iterdir())
    database.close()


def test_a_file_without_much_empty_space_is_not_written_again_at_a_start(path, clock):
    left_by_an_agent_with_error_feedback(path, clock)
    Database(path, CAPS, clock).close()
    before = path.stat().st_mtime_ns
    Database(path, CAPS, clock).close()
    assert path.stat().st_mtime_ns == before


def test_an_agent_starts_with_the_residual_of_one_before_while_the_disk_is_full(path, clock):
    left_by_an_agent_with_error_feedback(path, clock)

    class FullDisk(Database):
        def _empty_residual(self):
            raise sqlite3.OperationalError("database or disk is full")

    database = FullDisk(path, CAPS, clock)
    assert database.frame() == b"frame"
    database.commit(Change(Resting(0.0, ""), receipted=Verdict.ACCEPTED))
    database.close()


def test_the_agent_of_before_can_go_on_with_the_database_after_a_rollback(path, clock, database):
    """Its own statements, over the tables as this agent leaves them."""
    database.commit(Change(Reporting(3, 1), report=new_report()))
    with sqlite3.connect(path) as before:
        assert before.execute("PRAGMA user_version").fetchone() == (1,)
        before.execute(
            "INSERT OR REPLACE INTO residual SELECT 1, layout, residual FROM outbox WHERE residual IS NOT NULL"
        )
        before.execute("DELETE FROM outbox")
        before.execute(
            "INSERT OR REPLACE INTO outbox VALUES (1, ?, ?, ?, ?, ?, ?, ?)", (4, 1, 1, b"f", "l", b"r", b"c")
        )
        before.execute(
            "INSERT OR REPLACE INTO residual SELECT 1, layout, residual FROM outbox WHERE residual IS NOT NULL"
        )
        assert before.execute("SELECT vector FROM residual WHERE layout = ?", ("l",)).fetchone() == (b"r",)
        before.execute("SELECT vector, carried FROM residual JOIN outbox USING (only) WHERE carried IS NOT NULL")
    before.close()


# --- what a person can get wrong ---


def test_a_file_that_is_no_database_is_a_config_error(path, clock):
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(ConfigError, match="mends it when it starts"):
        Database(path, CAPS, clock)


def test_a_database_of_a_newer_agent_is_a_config_error(path, clock):
    Database(path, CAPS, clock).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(ConfigError, match="version 99"):
        Database(path, CAPS, clock)


def test_a_folder_that_is_not_there_is_a_config_error(tmp_path, clock):
    with pytest.raises(ConfigError, match=r"agent\.db"):
        Database(tmp_path / "missing" / "agent.db", CAPS, clock)


def test_own_words_are_counted_and_kept_as_they_were_written_last(database):
    database.note_own_words([("ada", "Ada"), ("zorblax", "zorblax")])
    database.note_own_words([("ada", "ada"), ("ada", "Ada")])
    assert database.own_words() == [OwnWord("ada", "Ada", 3), OwnWord("zorblax", "zorblax", 1)]


def test_deleted_word_is_gone_and_one_that_is_offered_anyway_stays_as_forgotten_until_it_is_typed(database):
    database.note_own_words([("ada", "Ada"), ("hello", "hello")])
    database.forget_own_word("ada", offered_anyway=False)
    database.forget_own_word("hello", offered_anyway=True)
    assert database.own_words() == [OwnWord("hello", "hello", 0)]
    database.note_own_words([("hello", "hello")])
    assert database.own_words() == [OwnWord("hello", "hello", 1)]


def test_message_is_refused_by_a_rule_and_kept_if_the_person_wants_it(database):
    assert database.add("my password is sunshine") == ""
    assert database.refusal("my password is sunshine") is Secret.NAMED
    assert database.refusal("hello") is None
    assert database.add("my password is sunshine", anyway=True) == "my password is sunshine"


def test_own_words_are_capped_and_the_newest_stay(database, clock):
    for number in range(3):
        clock.now_s += 1
        database.note_own_words([(f"w{number}-{i}", "x") for i in range(MOST_OWN_WORDS // 2)])
    clock.now_s += 1
    database.note_own_words([(f"w{number}-0", "x") for number in range(3)])
    assert [own.word for own in database.own_words() if own.count > 1] == ["w1-0", "w2-0"]
    assert len(database.own_words()) == MOST_OWN_WORDS


def test_own_words_are_forgotten_with_age(database, clock):
    database.note_own_words([("ada", "Ada")] * 2)
    clock.now_s += CAPS.age_s + 1
    database.note_own_words([("new", "new")])
    assert database.own_words() == [OwnWord("new", "new", 1)]


def test_recall_is_noted_by_message_and_capped(database, clock):
    database.note_recall(1, 10, 2, 5)
    clock.now_s += 60
    database.note_recall(2, 3, 1, 1)
    first, second = database.recall()
    assert (first.version, first.words, first.top1, first.top3) == (1, 10, 2, 5)
    assert (second.version, second.typed_at_s - first.typed_at_s) == (2, 60)
    for number in range(MOST_RECALL_ROWS):
        database.note_recall(3, number, 0, 0)
    assert [row.words for row in database.recall()] == list(range(MOST_RECALL_ROWS))


def test_pausing_is_remembered(database, path, clock):
    assert not database.learning_paused()
    database.pause_learning(paused=True)
    assert database.learning_paused()
    database.pause_learning(paused=False)
    assert not database.learning_paused()


def test_a_wiped_database_has_no_typed_byte_left_in_any_file(database, path):
    database.add("xylophone concert")
    database.note_own_words([("quokkas", "Quokkas")] * 2)
    database.note_recall(1, 10, 2, 5)
    database.commit(Change(Reporting(3, 1), report=new_report()))
    database.commit(Change(STARTING, receipted=Verdict.ACCEPTED))
    database.commit(Change(Reporting(4, 1), report=new_report(frame=b"whistling")))
    sent = database.tally().reports_sent
    database.wipe()
    assert (database.count(), database.size_bytes()) == (0, 0)
    assert database.texts() == database.own_words() == database.recall() == []
    assert database.load().parcel is None
    assert database.tally().reports_sent == sent  # what is out is out, and the person may know
    left = b"".join(file.read_bytes() for file in path.parent.iterdir())
    for secret in (b"xylophone", b"uokka", b"whistling"):
        assert secret not in left
