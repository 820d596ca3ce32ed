import gzip
import io
import lzma
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from backports import zstd

from nightjar.firmware_scripts.shell.images import Packing, find_bmap, open_image, packing_of
from nightjar.firmware_scripts.surveying import survey
from nightjar.wire.errors import ConfigError, RemoteProtocolError
from tests.firmware_scripts.fake_card import quiet

IMAGE = random.Random(5).randbytes(300_000) + bytes(2_000_000) + random.Random(6).randbytes(70_000)
PACKERS = {Packing.GZIP: gzip.compress, Packing.XZ: lzma.compress, Packing.ZSTD: zstd.compress, Packing.PLAIN: bytes}


def unpacked(path):
    with open_image(path) as stream:
        return b"".join(iter(lambda: stream.read(2**20), b""))


@pytest.mark.parametrize("packing", Packing)
def test_an_image_is_unpacked_whatever_its_name(tmp_path, packing):
    path = tmp_path / "image"
    path.write_bytes(PACKERS[packing](IMAGE))
    assert packing_of(path) is packing
    assert unpacked(path) == IMAGE


def skippable(data, number=0):
    return bytes([0x50 + number]) + b"\x2a\x4d\x18" + len(data).to_bytes(4, "little") + data


def as_pzstd_writes(data, part_bytes=100_000):
    """Each frame behind a skippable one that says how long it is (zstd's contrib/pzstd)."""
    parts = [zstd.compress(data[at : at + part_bytes]) for at in range(0, len(data), part_bytes)]
    return b"".join(skippable(len(part).to_bytes(4, "little")) + part for part in parts)


XZ_PARTS = [lzma.compress(IMAGE[:1000], check=lzma.CHECK_SHA256), lzma.compress(b""), lzma.compress(IMAGE[1000:])]
FORMS = {
    "gzip of two members": gzip.compress(IMAGE[:1000]) + gzip.compress(IMAGE[1000:]),
    "gzip with zeros at the end": gzip.compress(IMAGE) + bytes(513),
    "gzip with zeros between its members": gzip.compress(IMAGE[:9]) + bytes(3) + gzip.compress(IMAGE[9:]) + bytes(1),
    "xz of three streams": b"".join(XZ_PARTS),
    "xz with padding": lzma.compress(IMAGE) + bytes(4),
    "xz with much padding": lzma.compress(IMAGE) + bytes(2**20),
    "xz with padding between its streams": bytes(8).join(XZ_PARTS) + bytes(4),
    "zstd of two frames": zstd.compress(IMAGE[:1000]) + zstd.compress(IMAGE[1000:]),
    "zstd of pzstd": as_pzstd_writes(IMAGE),
    "zstd behind a long comment": skippable(bytes(300_000), 15) + zstd.compress(IMAGE),
    "zstd with a table at its end": zstd.compress(IMAGE) + skippable(b"seekable", 14),
    "zstd with an empty frame": zstd.compress(b"") + zstd.compress(IMAGE) + zstd.compress(b""),
}


@pytest.mark.parametrize("packed", FORMS.values(), ids=FORMS)
def test_every_valid_form_of_a_format_is_unpacked_to_its_end(tmp_path, packed):
    path = tmp_path / "image"
    path.write_bytes(packed)
    assert packing_of(path) is not Packing.PLAIN
    assert unpacked(path) == IMAGE
    assert survey(lambda: open_image(path), None, quiet).image_bytes == len(IMAGE)
    with open_image(path) as stream:
        assert all(stream.read(1) == IMAGE[at : at + 1] for at in range(1100))


@pytest.mark.parametrize(
    ("packed", "said"),
    [
        (lzma.compress(IMAGE) + b"x", "something else follows"),
        (lzma.compress(IMAGE) + bytes(4) + b"something", "something else follows"),
        (lzma.compress(IMAGE) + bytes(5), "5 zeros"),
        (lzma.compress(IMAGE) + bytes(2) + lzma.compress(IMAGE), "2 zeros"),
        (lzma.compress(IMAGE) + gzip.compress(IMAGE), "something else follows"),
        (lzma.compress(IMAGE[:9]) + lzma.compress(IMAGE)[:-9], "ends in the middle"),
        (gzip.compress(IMAGE) + bytes(9) + b"x", "something else follows"),
        (zstd.compress(IMAGE) + bytes(4), "something else follows"),
        (as_pzstd_writes(IMAGE) + b"x", "something else follows"),
        (as_pzstd_writes(IMAGE)[:-1], "ends in the middle"),
        (skippable(bytes(9))[:-1], "ends in the middle"),
        (skippable(bytes(9)) + b"MBR or what", "something else follows"),
    ],
)
def test_what_is_not_whole_or_goes_on_with_something_else_says_so(tmp_path, packed, said):
    path = tmp_path / "image"
    path.write_bytes(packed)
    with pytest.raises(RemoteProtocolError, match=f"damaged.*{said}"):
        unpacked(path)


@pytest.mark.parametrize("program", ["pzstd -q -p 3", "zstd -q --long=31", "xz -T2 --block-size=100000", "gzip"])
def test_what_the_programs_themselves_write_is_unpacked(tmp_path, program):
    name, *options = program.split()
    if not shutil.which(name):
        pytest.skip(f"{name} is not installed (apt install zstd xz-utils gzip)")
    (tmp_path / "plain").write_bytes(IMAGE)
    with (tmp_path / "image").open("wb") as file:
        subprocess.run([name, *options, "-c", tmp_path / "plain"], stdout=file, check=True)
    assert unpacked(tmp_path / "image") == IMAGE


def cut_short(packed):
    return packed[: len(packed) // 2]


def cut_by_a_byte(packed):
    return packed[:-1]


def followed_by_something(packed):
    return packed + b"something else"


def flipped_in_the_middle(packed):
    middle = len(packed) // 2
    return packed[:middle] + bytes([packed[middle] ^ 0xFF]) + packed[middle + 1 :]


# What a format cannot notice, a block map or --sha256 does: zstd without checksums.
DAMAGES = [
    *(
        (packing, damage)
        for packing in (Packing.GZIP, Packing.XZ, Packing.ZSTD)
        for damage in (cut_short, cut_by_a_byte)
    ),
    (Packing.GZIP, followed_by_something),
    (Packing.XZ, followed_by_something),
    (Packing.ZSTD, followed_by_something),
    (Packing.GZIP, flipped_in_the_middle),
    (Packing.XZ, flipped_in_the_middle),
]


@pytest.mark.parametrize(("packing", "damage"), DAMAGES)
def test_a_damaged_packed_image_is_refused(tmp_path, packing, damage):
    path = tmp_path / "image"
    path.write_bytes(damage(PACKERS[packing](IMAGE)))
    with pytest.raises(RemoteProtocolError, match="damaged"):
        unpacked(path)


@pytest.mark.parametrize(
    "start", [b"PK\x03\x04", b"BZh9", b"7z\xbc\xaf\x27\x1c", b"QFI\xfb", b"<?xml version", b"\x04\x22\x4d\x18"]
)
def test_what_is_no_image_of_a_disk_is_named(tmp_path, start):
    path = tmp_path / "image"
    path.write_bytes(start + bytes(100))
    with pytest.raises(ConfigError):
        packing_of(path)


def test_a_missing_image_is_a_fault_of_the_command_line(tmp_path):
    with pytest.raises(ConfigError):
        packing_of(tmp_path / "image")


@pytest.mark.parametrize("name", ["pi.img.xz.bmap", "pi.img.bmap", "pi.bmap"])
def test_the_block_map_beside_an_image_is_found(tmp_path, name):
    (tmp_path / name).touch()
    assert find_bmap(tmp_path / "pi.img.xz") == tmp_path / name


def test_the_block_map_of_another_image_is_not_taken(tmp_path):
    (tmp_path / "other.img.bmap").touch()
    assert find_bmap(tmp_path / "pi.img.xz") is None


def test_a_file_of_mostly_zeros_is_unpacked_in_little_memory(tmp_path):
    path = tmp_path / "image"
    path.write_bytes(zstd.compress(bytes(200_000_000)))
    script = (
        "import re, sys; from pathlib import Path; from functools import partial;"
        "from nightjar.firmware_scripts.shell.images import open_image\n"
        "from nightjar.firmware_scripts.surveying import survey\n"
        "survey(partial(open_image, Path(sys.argv[1])), None, lambda *a: None);"
        "print(re.search(r'VmHWM:\\s+(\\d+) kB', Path('/proc/self/status').read_text())[1])"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", script, path], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(root)}
    )
    assert int(done.stdout) < 120_000


def test_a_plain_image_is_read_from_the_file_itself(tmp_path):
    path = tmp_path / "image"
    path.write_bytes(IMAGE)
    with open_image(path) as stream:
        assert isinstance(stream, io.BufferedReader)
    assert survey(lambda: open_image(path), None, quiet).image_bytes == len(IMAGE)
