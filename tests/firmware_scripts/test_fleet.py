import contextlib
import errno
import random
import signal
import threading
from pathlib import Path

import pytest

from nightjar.firmware_scripts.core.cards import Card
from nightjar.firmware_scripts.core.rules import Reason, Rule
from nightjar.firmware_scripts.core.targets import parse_machine
from nightjar.firmware_scripts.fleet import Confirmed, CustomiseFailed, FlashJob, TargetRefused, refusals, write_cards
from nightjar.firmware_scripts.shell.naming import DiskTarget, FileTarget
from nightjar.firmware_scripts.surveying import survey
from nightjar.firmware_scripts.writing import Interrupted, VerifyFailed, WriteFailed, Written
from nightjar.host.signals import noticed_signals
from nightjar.wire.errors import ConfigError, UnavailableError
from tests.firmware_scripts.describing import Machine, mount, usb
from tests.firmware_scripts.fake_card import FakeCard, image_of, quiet
from tests.firmware_scripts.made_machines.parts import LAPTOP, LAPTOP_MOUNTS

IMAGE = random.Random(21).randbytes(2**20 + 60_000)
SURVEY = survey(image_of(IMAGE), None, quiet)


def seen(*disks, mounts=()):
    files = Machine("", [LAPTOP, *disks], [*LAPTOP_MOUNTS, *mounts], {}).files()
    return parse_machine(files["lsblk.json"], files["mountinfo"], files["swaps"])


SIZE = 3 * 2**20


def reader(**facts):
    """A reader with a card as small as the ones in memory are."""
    return {**usb("sdb", "8:16", SIZE), **facts}


class Opened(FakeCard):
    """A card in memory that calls itself 8:16."""

    number = "8:16"

    def __init__(self, size_bytes=SIZE, **faults):
        super().__init__(size_bytes, **faults)


def sdb(machine):
    return DiskTarget(Path("/dev/sdb"), machine.devices.by_name["sdb"])


def opener(*cards):
    left = iter(cards)
    lock = threading.Lock()

    def open_target(target, image_bytes):
        with lock:
            return contextlib.nullcontext(next(left))

    return open_target


def write(*, now=None, confirmed=None, opened=None, allow=frozenset(), customise=None, open_image=None):
    machine = seen(reader())
    opened = opened or Opened()
    job = FlashJob(SURVEY, open_image or image_of(IMAGE), lambda: now or machine, allow, customise, opener(opened))
    (outcome,) = write_cards(job, [confirmed or Confirmed(sdb(machine))], [quiet], 1, threading.Event())
    return outcome, opened


def refused_by(outcome):
    assert isinstance(outcome, TargetRefused), outcome
    return {reason.rule for reason in outcome.reasons}


def test_a_card_that_is_still_the_confirmed_one_is_written():
    outcome, opened = write()
    assert outcome == Written(len(IMAGE))
    assert opened.on_medium[: len(IMAGE)] == IMAGE


@pytest.mark.parametrize(
    "changed",
    [{"serial": "other"}, {"model": "other"}, {"size": SIZE - 512}, {"serial": None}, {"disk-seq": 9}],
)
def test_a_card_that_was_changed_since_the_confirmation_is_not_touched(changed):
    outcome, opened = write(now=seen(reader(**changed)))
    assert refused_by(outcome) == {Rule.CHANGED}
    assert opened.operations == 0


def test_a_card_that_was_mounted_since_the_confirmation_is_not_touched():
    outcome, opened = write(now=seen(reader(), mounts=[mount("8:17", "/media/ann/bootfs", "vfat", "/dev/sdb1")]))
    assert refused_by(outcome) == {Rule.MOUNTED}
    assert opened.operations == 0


def test_a_card_that_was_pulled_since_the_confirmation_is_not_touched():
    outcome, opened = write(now=seen())
    assert refused_by(outcome) == {Rule.NOT_LISTED}
    assert opened.operations == 0


def test_a_disk_whose_size_the_kernel_has_otherwise_than_lsblk_is_not_touched():
    opened = Opened(SIZE + 512)
    outcome, _ = write(opened=opened)
    assert refused_by(outcome) == {Rule.CHANGED}
    assert opened.operations == 0


def test_a_disk_that_is_too_small_is_refused_whatever_is_allowed():
    machine = seen(reader())
    everything = frozenset(Rule)
    assert refusals(machine, sdb(machine), SIZE, everything) == ()
    assert [reason.rule for reason in refusals(machine, sdb(machine), SIZE + 1, everything)] == [Rule.TOO_SMALL]


def test_when_the_machine_cannot_be_looked_at_again_the_card_is_not_touched():
    def look():
        raise UnavailableError("lsblk is gone")

    opened = Opened()
    job = FlashJob(SURVEY, image_of(IMAGE), look, frozenset(), None, opener(opened))
    (outcome,) = write_cards(job, [Confirmed(sdb(seen(reader())))], [quiet], 1, threading.Event())
    assert refused_by(outcome) == {Rule.UNKNOWN_FACT}
    assert opened.operations == 0


def test_what_the_kernel_refuses_to_open_is_refused():
    busy = Reason(Rule.BUSY, "in use")
    outcome, _ = write(opened=busy)
    assert outcome == TargetRefused((busy,))


def test_a_rule_allowed_by_name_does_not_refuse_and_another_still_does():
    small = reader(rm=False)
    confirmed = Confirmed(sdb(seen(small)))
    outcome, _ = write(now=seen(small), confirmed=confirmed)
    assert refused_by(outcome) == {Rule.NOT_REMOVABLE}
    outcome, _ = write(now=seen(small), confirmed=confirmed, allow=frozenset({Rule.NOT_REMOVABLE}))
    assert isinstance(outcome, Written)
    locked = reader(rm=False, ro=True)
    confirmed = Confirmed(sdb(seen(locked)))
    outcome, _ = write(now=seen(locked), confirmed=confirmed, allow=frozenset({Rule.NOT_REMOVABLE}))
    assert refused_by(outcome) == {Rule.READ_ONLY}


def test_a_card_is_customised_once_it_is_written_and_verified():
    asked = []
    line = Card("/dev/sdb", "porch-01", "", {})
    confirmed = Confirmed(sdb(seen(reader())), line)
    outcome, opened = write(confirmed=confirmed, customise=lambda c: asked.append((c.card.hostname, c.target.path)))
    assert isinstance(outcome, Written)
    assert asked == [("porch-01", Path("/dev/sdb"))]
    assert bytes(opened.on_medium[:512]) == IMAGE[:512]


@pytest.mark.parametrize("error", [ConfigError("no such Wi-Fi"), OSError(errno.EIO, "I/O error")])
def test_a_card_that_could_not_be_customised_does_not_start(error):
    def customise(confirmed):
        raise error

    outcome, opened = write(customise=customise)
    assert isinstance(outcome, CustomiseFailed)
    assert not any(opened.on_medium[:512])


def test_a_card_that_failed_is_not_customised():
    def customise(confirmed):
        pytest.fail("the image is not on this card")

    outcome, _ = write(opened=Opened(write_faults={2**20: errno.EIO}), customise=customise)
    assert isinstance(outcome, WriteFailed)


def test_one_bad_card_of_many_does_not_touch_the_others(tmp_path):
    confirmed = [Confirmed(FileTarget(tmp_path / f"card-{n}", None)) for n in range(6)]
    cards = [Opened() for _ in confirmed]
    cards[2].stuck_bytes = {2**20 + 7: IMAGE[2**20 + 7] ^ 1}
    by_path = {made.target.path: opened for made, opened in zip(confirmed, cards, strict=True)}
    job = FlashJob(
        SURVEY, image_of(IMAGE), seen, frozenset(), None, lambda t, _: contextlib.nullcontext(by_path[t.path])
    )
    outcomes = write_cards(job, confirmed, [quiet] * 6, 3, threading.Event())
    assert outcomes[2] == VerifyFailed(2**20 + 7, "reads back differently than it should be")
    good = [n for n in range(6) if n != 2]
    assert all(isinstance(outcomes[n], Written) and cards[n].on_medium[: len(IMAGE)] == IMAGE for n in good)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_every_card_and_says_which_were_touched(tmp_path, number):
    def report(phase, done_bytes, total_bytes):
        if not stop.is_set():
            signal.pthread_kill(threading.main_thread().ident, number)
        assert stop.wait(60)

    opened = Opened()
    job = FlashJob(SURVEY, image_of(IMAGE), seen, frozenset(), None, opener(opened))
    confirmed = [Confirmed(FileTarget(tmp_path / name, None)) for name in ("a", "b")]
    before = signal.getsignal(number)
    with noticed_signals() as stop:
        outcomes = write_cards(job, confirmed, [report, report], 1, stop)
    assert outcomes == (Interrupted(touched=True), Interrupted(touched=False))
    assert not any(opened.on_medium[:512])
    assert signal.getsignal(number) is before


def test_files_are_written_alike(tmp_path):
    fresh, old = tmp_path / "fresh.img", tmp_path / "old.img"
    old.write_bytes(b"\xee" * (4 * 2**20))
    job = FlashJob(SURVEY, image_of(IMAGE), seen, frozenset())
    outcomes = write_cards(
        job,
        [Confirmed(FileTarget(fresh, None)), Confirmed(FileTarget(old, 4 * 2**20))],
        [quiet] * 2,
        2,
        threading.Event(),
    )
    assert outcomes == (Written(len(IMAGE)), Written(len(IMAGE)))
    assert fresh.read_bytes() == IMAGE
    assert old.read_bytes()[: len(IMAGE)] == IMAGE
    assert old.stat().st_size == 4 * 2**20


def test_a_file_that_became_a_link_is_not_followed(tmp_path):
    precious = tmp_path / "precious"
    precious.write_bytes(b"mine")
    (tmp_path / "card.img").symlink_to(precious)
    job = FlashJob(SURVEY, image_of(IMAGE), seen, frozenset())
    (outcome,) = write_cards(job, [Confirmed(FileTarget(tmp_path / "card.img", None))], [quiet], 1, threading.Event())
    assert isinstance(outcome, TargetRefused)
    assert precious.read_bytes() == b"mine"


def test_a_disk_with_other_sectors_than_the_image_is_refused_when_lsblk_or_the_disk_itself_says_so():
    large = seen(reader(**{"log-sec": 4096}))
    for_small, for_large = frozenset({512}), frozenset({4096})
    (reason,) = refusals(large, sdb(large), SIZE, frozenset(), for_small)
    assert (reason.rule, "4096" in reason.text, "512" in reason.text) == (Rule.SECTOR_SIZE, True, True)
    assert refusals(large, sdb(large), SIZE, frozenset(), for_large) == ()
    assert refusals(large, sdb(large), SIZE, frozenset(), frozenset()) == (), "an image without a partition table"
    assert refusals(large, sdb(large), SIZE, frozenset({Rule.SECTOR_SIZE}), for_small) == ()

    silent = seen(reader())  # an lsblk that does not say
    assert refusals(silent, sdb(silent), SIZE, frozenset(), for_small) == ()
    opened = Opened()
    opened.sector_bytes = 4096
    job = FlashJob(
        SURVEY, image_of(IMAGE), lambda: silent, frozenset(), None, opener(opened), sector_sizes=frozenset({512})
    )
    (outcome,) = write_cards(job, [Confirmed(sdb(silent))], [quiet], 1, threading.Event())
    assert refused_by(outcome) == {Rule.SECTOR_SIZE}
    assert opened.operations == 0
