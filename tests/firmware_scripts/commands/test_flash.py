import gzip
import hashlib
import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nightjar.firmware_scripts.commands.flash import status_of
from nightjar.firmware_scripts.core.bmap import Bmap, Range, format_bmap
from nightjar.firmware_scripts.core.exit_status import ExitStatus
from nightjar.firmware_scripts.fleet import CustomiseFailed, TargetRefused
from nightjar.firmware_scripts.verifying import VerifyFailed
from nightjar.firmware_scripts.writing import ImageFailed, Interrupted, WriteFailed, Written
from tests.firmware_scripts.command_line import firmware, partitioned

ROOT = Path(__file__).parents[3]
IMAGE = partitioned(random.Random(41).randbytes(2**20 + 70_000))


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "pi.img"
    path.write_bytes(IMAGE)
    return path


def test_a_new_file_is_written_and_read_back_without_asking(image, tmp_path):
    done = firmware("flash", image, tmp_path / "card")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "card").read_bytes() == IMAGE
    assert "written and read back" in done.stderr


def test_an_image_without_a_partition_table_is_refused_unless_forced(tmp_path):
    noise = tmp_path / "noise.img"
    noise.write_bytes(random.Random(1).randbytes(70_000))
    refused = firmware("flash", noise, tmp_path / "card")
    assert (refused.returncode, "no partition table" in refused.stderr) == (6, True)
    assert not (tmp_path / "card").exists()
    assert firmware("flash", noise, tmp_path / "card", "--force").returncode == 0
    assert (tmp_path / "card").read_bytes() == noise.read_bytes()


def test_a_packed_image_with_a_wrong_name_is_unpacked(tmp_path):
    (tmp_path / "pi.img").write_bytes(gzip.compress(IMAGE))
    assert firmware("flash", tmp_path / "pi.img", tmp_path / "card").returncode == 0
    assert (tmp_path / "card").read_bytes() == IMAGE


def test_a_file_that_is_there_is_confirmed_by_name_and_size(image, tmp_path):
    card = tmp_path / "card"
    card.write_bytes(b"\xee" * 4_000_000)
    for typed in ("", "y\n", "card\n", "card 4 MB\n"):
        refused = firmware("flash", image, card, typed=typed)
        assert refused.returncode == 5
        assert card.read_bytes() == b"\xee" * 4_000_000
    done = firmware("flash", image, card, typed="CARD  4.0 mb\n")
    assert done.returncode == 0, done.stderr
    assert card.read_bytes()[: len(IMAGE)] == IMAGE


def test_many_files_at_once_each_told_as_json(image, tmp_path):
    cards = [tmp_path / f"card-{n}" for n in range(3)]
    done = firmware("flash", image, *cards, "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [(row["target"], row["outcome"]) for row in rows] == [(str(card), "done") for card in cards]
    assert all(card.read_bytes() == IMAGE for card in cards)


def test_a_list_of_cards_names_targets_and_hosts(image, tmp_path):
    (tmp_path / "cards.csv").write_text(f"target,hostname\n{tmp_path}/a,porch-01\n{tmp_path}/b,porch-02\n")
    done = firmware("flash", image, "--cards", tmp_path / "cards.csv", "--json")
    assert done.returncode == 0, done.stderr
    assert [row["hostname"] for row in json.loads(done.stdout)] == ["porch-01", "porch-02"]
    assert (tmp_path / "b").read_bytes() == IMAGE


def test_the_plan_is_json_and_nothing_is_touched(image, tmp_path):
    card = tmp_path / "card"
    card.write_bytes(b"mine")
    done = firmware("flash", image, card, tmp_path / "new", "--dry-run")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert plan["image"]["size_bytes"] == len(IMAGE)
    assert [target["allowed"] for target in plan["targets"]] == [True, True]
    assert card.read_bytes() == b"mine"
    assert not (tmp_path / "new").exists()


def test_the_plan_of_a_refused_target_says_why_and_ends_as_the_flash_would(image):
    done = firmware("flash", image, "/dev/nightjar-none", "--dry-run")
    assert done.returncode == 4
    assert json.loads(done.stdout)["targets"][0]["reasons"][0]["rule"] == "not-listed"


def test_a_path_among_the_devices_that_is_not_there_never_becomes_a_file(image):
    done = firmware("flash", image, "/dev/nightjar-none", "--yes")
    assert done.returncode == 4
    assert not Path("/dev/nightjar-none").exists()


@pytest.mark.parametrize("target", ["/dev/null", "/dev/tty", "/", "/proc/self/mem"])
def test_what_is_no_disk_and_no_file_is_refused(image, target):
    done = firmware("flash", image, target, "--yes")
    assert done.returncode == 4
    assert "not-a-target" in done.stderr or "could not be opened" in done.stderr


def test_the_image_itself_is_no_target(image, tmp_path):
    (tmp_path / "link").symlink_to(image)
    for target in (image, tmp_path / "link"):
        assert firmware("flash", image, target, "--yes").returncode == 4
    assert image.read_bytes() == IMAGE


def test_no_target_is_ever_picked(image):
    done = firmware("flash", image, "--yes")
    assert done.returncode == 2
    assert "name the targets" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("{card}", "{card}"),
        ("{card}", "--cards", "{image}"),
        ("{card}", "--expect-serial", "a", "--expect-serial", "b"),
        ("{card}", "--bmap", "{image}", "--no-bmap"),
        ("{card}", "--allow", "mounted"),
        ("{card}", "--bmap", "{tmp}/none.bmap"),
        ("--cards", "{tmp}/none.csv"),
    ],
)
def test_a_command_line_that_makes_no_sense_ends_before_anything_is_written(image, tmp_path, arguments):
    card = tmp_path / "card"
    filled = [a.format(card=card, image=image, tmp=tmp_path) for a in arguments]
    assert firmware("flash", image, *filled).returncode == 2
    assert not card.exists()


def test_a_file_has_no_serial_that_could_be_expected(image, tmp_path):
    done = firmware("flash", image, tmp_path / "card", "--yes", "--expect-serial", "12")
    assert done.returncode == 5
    assert not (tmp_path / "card").exists()


def test_a_missing_image_is_told(tmp_path):
    done = firmware("flash", tmp_path / "none.img", tmp_path / "card")
    assert done.returncode == 2
    assert "none.img" in done.stderr
    assert not (tmp_path / "card").exists()


def test_a_damaged_image_leaves_the_card_alone(tmp_path):
    (tmp_path / "pi.img.gz").write_bytes(gzip.compress(IMAGE)[:-100])
    done = firmware("flash", tmp_path / "pi.img.gz", tmp_path / "card")
    assert done.returncode == 6
    assert not (tmp_path / "card").exists()


def test_an_image_with_another_sha256_leaves_the_card_alone(image, tmp_path):
    assert firmware("flash", image, tmp_path / "card", "--sha256", "0" * 64).returncode == 6
    assert not (tmp_path / "card").exists()


def test_a_flipped_byte_under_a_block_map_leaves_the_card_alone(image, tmp_path):
    bmap = Bmap(len(IMAGE), 4096, (Range(4096, 8192, hashlib.sha256(IMAGE[4096:12288]).hexdigest()),))
    (tmp_path / "pi.bmap").write_bytes(format_bmap(bmap))
    good = firmware("flash", image, tmp_path / "good")
    assert good.returncode == 0, good.stderr
    held = (tmp_path / "good").read_bytes()
    assert held[4096:12288] == IMAGE[4096:12288]
    assert not any(held[12288:])
    damaged = bytearray(IMAGE)
    damaged[5000] ^= 1
    image.write_bytes(damaged)
    assert firmware("flash", image, tmp_path / "card").returncode == 6
    assert not (tmp_path / "card").exists()
    # Told to ignore the map, the image is what it is.
    assert firmware("flash", image, tmp_path / "card", "--no-bmap").returncode == 0


@pytest.mark.slow
def test_an_interrupt_from_the_keyboard_is_clean(image, tmp_path):
    big = tmp_path / "big.img"
    with big.open("wb") as file:
        file.write(IMAGE)
        file.truncate(3 * 2**30)
    command = [sys.executable, "-m", "nightjar.firmware_scripts", "flash", str(big), str(tmp_path / "card")]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        process.stderr.readline()  # "looking through": it is at work
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(60) == 130
    assert "interrupted" in rest
    assert "Traceback" not in rest


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Written(1), ExitStatus.DONE),
        (TargetRefused(()), ExitStatus.REFUSED),
        (WriteFailed(0, ""), ExitStatus.WRITE_FAILED),
        (VerifyFailed(0, ""), ExitStatus.VERIFY_FAILED),
        (ImageFailed(""), ExitStatus.IMAGE_UNUSABLE),
        (CustomiseFailed(""), ExitStatus.CUSTOMISE_FAILED),
        (Interrupted(touched=True), ExitStatus.INTERRUPTED),
    ],
)
def test_only_a_verified_card_ends_with_zero(outcome, status):
    assert status_of(outcome) is status
    assert (status == 0) == isinstance(outcome, Written)
