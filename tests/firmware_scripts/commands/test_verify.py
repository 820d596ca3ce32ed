import gzip
import hashlib
import json
import random
import shutil
import subprocess

import pytest

from nightjar.firmware_scripts.core.bmap import parse_bmap
from tests.firmware_scripts.command_line import firmware

IMAGE = random.Random(51).randbytes(2**20 + 70_000)
SHA = hashlib.sha256(IMAGE).hexdigest()


@pytest.fixture
def sparse(tmp_path):
    """An image with holes, as mke2fs leaves them."""
    path = tmp_path / "pi.img"
    with path.open("wb") as file:
        file.seek(12_288)
        file.write(IMAGE[:9000])
        file.seek(5 * 2**20)
        file.write(IMAGE)
        file.truncate(10 * 2**20 + 1)
    return path


def flip(path, offset):
    data = bytearray(path.read_bytes())
    data[offset] ^= 4
    path.write_bytes(data)


def test_a_card_is_compared_with_its_image_to_the_byte(tmp_path, sparse):
    card = tmp_path / "card"
    card.write_bytes(sparse.read_bytes() + b"\xee" * 5000)
    assert firmware("verify", card, "--image", sparse).returncode == 0
    flip(card, 5 * 2**20 + 12_345)
    done = firmware("verify", card, "--image", sparse, "--json")
    assert done.returncode == 8
    assert f"byte {5 * 2**20 + 12_345} " in json.loads(done.stdout)["faults"][0]


def test_a_card_is_compared_with_a_block_map(tmp_path, sparse):
    assert firmware("bmap", sparse).returncode == 0
    card = tmp_path / "card"
    shutil.copy(sparse, card)
    bmap = tmp_path / "pi.img.bmap"
    assert firmware("verify", card, "--bmap", bmap).returncode == 0
    flip(card, 2**20)  # in a hole: not the map's business
    assert firmware("verify", card, "--bmap", bmap).returncode == 0
    flip(card, 5 * 2**20)
    assert firmware("verify", card, "--bmap", bmap).returncode == 8
    card.write_bytes(b"short")
    assert firmware("verify", card, "--bmap", bmap).returncode == 8


def test_an_image_is_compared_with_the_block_map_beside_it(tmp_path, sparse):
    assert firmware("bmap", sparse).returncode == 0
    packed = tmp_path / "pi.img.gz"
    packed.write_bytes(gzip.compress(sparse.read_bytes()))
    assert firmware("verify", sparse).returncode == 0
    assert firmware("verify", packed).returncode == 0
    flip(sparse, 12_288)
    packed.write_bytes(gzip.compress(sparse.read_bytes()))
    assert firmware("verify", sparse).returncode == 8
    assert firmware("verify", packed).returncode == 8


def test_sha256_is_that_of_the_unpacked_image(tmp_path):
    path = tmp_path / "pi.img.gz"
    path.write_bytes(gzip.compress(IMAGE))
    assert firmware("verify", path, "--sha256", SHA.upper()).returncode == 0
    assert firmware("verify", path, "--sha256", "0" * 64).returncode == 8


def test_a_folder_is_compared_with_its_manifest(tmp_path):
    folder = tmp_path / "bundle"
    folder.mkdir()
    (folder / "agent.whl").write_bytes(IMAGE)
    manifest = tmp_path / "manifest.json"
    entry = {"path": "agent.whl", "sha256": SHA, "size_bytes": len(IMAGE)}
    manifest.write_text(json.dumps({"files": [entry]}))
    assert firmware("verify", folder, "--manifest", manifest).returncode == 0
    assert firmware("verify", folder / "agent.whl", "--manifest", manifest).returncode == 0
    flip(folder / "agent.whl", 3)
    assert firmware("verify", folder, "--manifest", manifest).returncode == 8
    (folder / "agent.whl").unlink()
    assert "missing" in firmware("verify", folder, "--manifest", manifest).stdout


def test_sha256sum_prints_a_manifest(tmp_path):
    (tmp_path / "pi.img").write_bytes(IMAGE)
    (tmp_path / "SHA256SUMS").write_text(f"{SHA}  pi.img\n")
    assert firmware("verify", tmp_path / "pi.img", "--manifest", tmp_path / "SHA256SUMS").returncode == 0
    assert firmware("verify", tmp_path / "SHA256SUMS", "--manifest", tmp_path / "SHA256SUMS").returncode == 8


def test_nothing_to_compare_with_is_said(tmp_path):
    (tmp_path / "pi.img").write_bytes(IMAGE)
    assert firmware("verify", tmp_path / "pi.img").returncode == 2
    assert firmware("verify", tmp_path / "none", "--sha256", SHA).returncode in {2, 3}


def test_a_block_map_of_a_packed_image_is_not_made(tmp_path):
    (tmp_path / "pi.img.gz").write_bytes(gzip.compress(IMAGE))
    assert firmware("bmap", tmp_path / "pi.img.gz").returncode == 2


# ---- together with bmap-tools ----------------------------------------------------------------------------------------

needs_bmaptool = pytest.mark.skipif(not shutil.which("bmaptool"), reason="needs bmaptool: apt install bmap-tools")


def bmaptool(*arguments):
    return subprocess.run(["bmaptool", *arguments], capture_output=True, text=True, check=False)


@needs_bmaptool
def test_bmaptool_copies_by_our_map_and_refuses_a_flipped_byte(tmp_path, sparse):
    assert firmware("bmap", sparse, "-o", tmp_path / "ours.bmap").returncode == 0
    done = bmaptool("copy", "--bmap", tmp_path / "ours.bmap", sparse, tmp_path / "card")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "card").read_bytes() == sparse.read_bytes()
    flip(sparse, 5 * 2**20 + 1)
    assert bmaptool("copy", "--bmap", tmp_path / "ours.bmap", sparse, tmp_path / "card").returncode != 0


@needs_bmaptool
def test_we_flash_by_the_map_of_bmaptool_and_refuse_a_flipped_byte(tmp_path, sparse):
    assert bmaptool("create", "-o", tmp_path / "pi.bmap", sparse).returncode == 0
    assert firmware("flash", "--force", sparse, tmp_path / "card").returncode == 0
    assert (tmp_path / "card").read_bytes() == sparse.read_bytes()
    flip(sparse, 5 * 2**20 + 1)
    assert firmware("flash", "--force", sparse, tmp_path / "other").returncode == 6


@needs_bmaptool
def test_both_make_the_same_ranges(tmp_path, sparse):
    bmaptool("create", "-o", tmp_path / "theirs.bmap", sparse)
    firmware("bmap", sparse, "-o", tmp_path / "ours.bmap")
    assert parse_bmap((tmp_path / "ours.bmap").read_bytes()) == parse_bmap((tmp_path / "theirs.bmap").read_bytes())
