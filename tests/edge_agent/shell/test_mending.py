"""A damaged page or file of the database: the device goes on, with its ledger, and says so."""

import random
import shutil
import sqlite3

import pytest

from nightjar.edge_agent.core.events import SendDropout
from nightjar.edge_agent.core.lifecycle import STARTING
from nightjar.edge_agent.core.outbox import Parcel
from nightjar.edge_agent.core.privacy_ledger import LOST, LedgerEntry, faults
from nightjar.edge_agent.core.stored import Change, NewReport, SumState
from nightjar.edge_agent.link.trust import TRUSTED
from nightjar.edge_agent.session.task import StoredMessages
from nightjar.edge_agent.shell.database import Database
from nightjar.edge_agent.shell.kept_apart import LEDGER, read_ledger
from nightjar.edge_agent.shell.mending import MENDED, agree, mend
from nightjar.edge_agent.shell.message_store import prepare_here
from nightjar.host.put_away import FOLDER, in_short, notes
from nightjar.wire.frame import Report, encode_report
from nightjar.wire.identifiers import Sha256
from nightjar.wire.limits import Limits
from nightjar.wire.messages import Assignment, CodecChoice, DropoutCause, PrivacyTerms, TrainingPlan
from tests.edge_agent.fakes import CAPS, FakeClock

PAGE = 4096
THINGS = ("a cat", "the dog", "some mice", "her bird", "his horse", "two cows", "our goat", "a sheep", "the hens")
TERMS = PrivacyTerms(epsilon=8.0, delta=1e-6, rounds=100, separation=10, step=4)
SPENT = [LedgerEntry(f"task-{number:02}", TERMS, 1) for number in range(40)]
JOINED = SumState(number=7, round=3, session=b"s" * 16, phase="joined", state=b"secret")
FRAME = encode_report(
    Report(
        round=3, attempt=1, codec=1, layout="0" * 16, version=1, num_examples=5, steps=2, loss=1.0, seconds=1.0,
        payload=bytes(range(256)) * 40,
    )
)  # fmt: skip


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    path = tmp_path_factory.mktemp("sound") / "agent.db"
    database = Database(path, CAPS, FakeClock())
    generator = random.Random(5)
    for _ in range(300):
        assert database.add(f"I saw {' and '.join(generator.choices(THINGS, k=5))} in the long grass behind the house")
    database.note_own_words([(f"own{number}", f"own{number}") for number in range(150)])
    database.remember(TRUSTED, '{"key":"ab"}')
    database.note_recall(3, 10, 5, 7)
    for entry in SPENT:
        database.commit(Change(STARTING, charged=entry, dropouts=[SendDropout(3, 1, DropoutCause.IN_USE, "")]))
    database.commit(Change(STARTING, report=NewReport(Parcel(3, 1, 1), FRAME), summing=JOINED))
    database.pause_learning(paused=True)
    database.close()
    agree(path)
    return path.parent


@pytest.fixture
def path(tmp_path, sound):
    shutil.copytree(sound, tmp_path, dirs_exist_ok=True)
    return tmp_path / "agent.db"


def order_of(**changes):
    return Assignment(
        task="another",
        round=9,
        attempt=1,
        version=1,
        manifest=Sha256("0" * 64),
        codec=CodecChoice(),
        plan=TrainingPlan(learning_rate=1.0, clip_norm=1.0),
        report_deadline_s=60.0,
        **changes,
    )


def goes_on(path, at_least=0):
    """What an agent of this folder does at its start."""
    prepare_here(StoredMessages(path, CAPS), None)
    database = Database(path, CAPS, FakeClock())
    assert database.ledger() == SPENT
    assert database.learning_paused()
    assert database.load().summing.session == JOINED.session
    assert len(database.texts()) >= at_least
    database.own_words(), database.recall(), database.tally(), database.pending_dropouts()
    assert database.add("what is typed later")
    assert database.texts()[-1] == "what is typed later"
    database.close()
    assert read_ledger(path.parent).entries == SPENT
    assert mend(path, None) == ""


def pages():
    return range(24)


def test_a_sound_database_is_left_alone(path):
    goes_on(path, 300)
    assert in_short(path.parent) == ""


@pytest.mark.parametrize("kind", ["zeroed", "flipped", "of another file", "shifted"])
@pytest.mark.parametrize("number", pages())
def test_a_damaged_page_costs_at_most_what_is_on_it(path, number, kind):
    data = bytearray(path.read_bytes())
    begin = number * PAGE
    if begin >= len(data):
        pytest.skip("the file is shorter")
    generator = random.Random(number)
    if kind == "zeroed":
        data[begin : begin + PAGE] = bytes(PAGE)
    elif kind == "flipped":
        for _ in range(20):
            data[begin + generator.randrange(PAGE)] ^= 1 << generator.randrange(8)
    elif kind == "of another file":
        data[begin : begin + PAGE] = generator.randbytes(PAGE)
    else:
        data[begin : begin + PAGE] = data[begin + 1 : begin + PAGE] + b"\0"
    path.write_bytes(data)
    # The page at the root of a table takes all of the table with it. The first page is in every database the same.
    goes_on(path, 300 if number == 0 else 0)
    if kind in {"of another file", "shifted"} and any(data[begin : begin + PAGE]) and number == 0:
        assert (path.parent / FOLDER / "agent.db.1").read_bytes() == bytes(data)
        assert "agent.db was put away" in in_short(path.parent)


@pytest.mark.parametrize("length", [0, 1, 15, 100, PAGE - 1, PAGE, 3 * PAGE, -1, -PAGE])
def test_a_cut_file_costs_at_most_what_was_cut(path, length):
    data = path.read_bytes()
    path.write_bytes(data[:length])
    goes_on(path)
    assert len(notes(path.parent)) == 1


@pytest.mark.parametrize("end", ["", "-wal", "-shm", "-journal"])
def test_a_folder_in_the_place_of_a_file_is_put_away(path, end):
    victim = path.with_name(path.name + end)
    victim.unlink(missing_ok=True)
    victim.mkdir()
    (victim / "inside").write_text("kept")
    goes_on(path, 0 if not end else 300)
    assert (path.parent / FOLDER / f"{victim.name}.1" / "inside").read_text() == "kept"


@pytest.mark.parametrize("end", ["-wal", "-shm"])
@pytest.mark.parametrize("content", [b"", b"\0" * 5000, b"garbage" * 1000])
def test_a_damaged_file_beside_it_costs_nothing_that_was_in_it(path, end, content):
    path.with_name(path.name + end).write_bytes(content)
    goes_on(path, 300)


@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_schema_costs_no_table(path, seed):
    data, generator = bytearray(path.read_bytes()), random.Random(seed)
    for _ in range(5):
        data[generator.randrange(100, PAGE)] ^= 1 << generator.randrange(8)
    path.write_bytes(data)
    goes_on(path, 300)


def test_a_database_that_is_gone_comes_back_with_the_ledger(path):
    path.unlink()
    goes_on(path)
    assert "it was gone" in in_short(path.parent)


def test_the_database_of_a_newer_agent_is_read_as_far_as_it_is_known(path):
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    goes_on(path, 300)


@pytest.mark.parametrize("content", [b"", b"x", b"\0" * 300, None], ids=["empty", "cut", "zeroed", "folder"])
def test_a_damaged_ledger_is_made_again_from_the_database(path, content):
    ledger = path.parent / LEDGER
    ledger.unlink()
    ledger.mkdir() if content is None else ledger.write_bytes(content)
    goes_on(path, 300)
    assert "ledger.json was put away" in in_short(path.parent)


def test_a_ledger_that_was_lost_with_its_file_spends_no_more(path):
    (path.parent / LEDGER).write_bytes(b"\0" * 500)
    path.write_bytes(b"\0" * 5000)
    prepare_here(StoredMessages(path, CAPS), None)
    database = Database(path, CAPS, FakeClock())
    assert database.ledger() == [LOST]
    order = order_of(privacy=TERMS)
    assert "was lost" in faults(database.ledger(), order, Limits())[0]
    assert faults(database.ledger(), order_of(), Limits()) == []
    database.close()


def test_a_charge_is_never_lowered_by_an_older_file_or_table(path):
    higher = LedgerEntry("task-00", PrivacyTerms(epsilon=8.0, delta=1e-6, rounds=100, separation=10, step=24), 3)
    old_file = (path.parent / LEDGER).read_bytes()
    database = Database(path, CAPS, FakeClock())
    database.commit(Change(STARTING, charged=higher))
    database.close()
    (path.parent / LEDGER).write_bytes(old_file)
    agree(path)
    assert read_ledger(path.parent).entries[0] == higher
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM ledger")
    connection.close()
    agree(path)
    database = Database(path, CAPS, FakeClock())
    assert database.ledger() == [higher, *SPENT[1:]]
    database.close()


@pytest.mark.parametrize("moved", [False, True], ids=["before it is moved", "after it is moved"])
def test_a_power_cut_while_mending_leaves_one_of_the_two(path, moved):
    whole = path.read_bytes()
    path.with_name(path.name + MENDED).write_bytes(whole)
    if moved:
        path.unlink()
    goes_on(path, 300)
    assert not path.with_name(path.name + MENDED).exists()


def test_a_wipe_deletes_the_text_in_what_was_put_away(path):
    path.write_bytes(path.read_bytes()[: 12 * PAGE])
    goes_on(path)
    assert any((path.parent / FOLDER).glob("agent.db.*"))
    database = Database(path, CAPS, FakeClock())
    database.wipe()
    database.close()
    assert not any(b"long grass" in each.read_bytes() for each in path.parent.rglob("*") if each.is_file())
    assert notes(path.parent)


# --- what had not come into the file yet when the device was switched off ---


@pytest.fixture
def killed(path, tmp_path_factory):
    """A folder whose newest twenty messages are only in the log."""
    folder = tmp_path_factory.mktemp("killed")
    database = Database(path, CAPS, FakeClock())
    for number in range(20):
        assert database.add(f"a late cat {'abcdefghijklmnopqrst'[number]} in the long grass")
    shutil.copytree(path.parent, folder, dirs_exist_ok=True)
    database.close()
    return folder / path.name


def test_a_log_that_a_power_cut_left_is_taken_and_nothing_is_said(killed):
    goes_on(killed, 320)
    assert notes(killed.parent) == []


@pytest.mark.parametrize(("share", "at_least"), [(0.0, 300), (0.02, 300), (0.5, 305)])
def test_a_damaged_log_is_kept_before_sqlite_deletes_it_and_what_comes_before_counts(killed, share, at_least):
    log = killed.with_name("agent.db-wal")
    data = bytearray(log.read_bytes())
    data[int(share * len(data)) + 9] ^= 1
    log.write_bytes(data)
    goes_on(killed, at_least)
    assert "agent.db-wal cannot be used" in in_short(killed.parent)
    assert len(notes(killed.parent)) == 1
    assert (killed.parent / FOLDER / "agent.db-wal.1").read_bytes() == bytes(data)


def test_the_log_of_a_file_that_was_emptied_is_put_away_unread_by_sqlite(killed):
    log = killed.with_name("agent.db-wal")
    data = log.read_bytes()
    killed.write_bytes(b"")
    goes_on(killed)
    assert (killed.parent / FOLDER / "agent.db-wal.2").read_bytes() == data


def test_a_damaged_page_is_read_from_the_log_if_it_is_there(killed):
    data = bytearray(killed.read_bytes())
    data[PAGE : 2 * PAGE] = bytes(PAGE)  # the root of the messages, which each of the newest changed
    killed.write_bytes(data)
    goes_on(killed)
