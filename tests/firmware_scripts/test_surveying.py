import hashlib
import random

import pytest

from nightjar.firmware_scripts.core.bmap import Bmap, Range
from nightjar.firmware_scripts.surveying import survey
from nightjar.wire.errors import IntegrityError, RemoteProtocolError
from tests.firmware_scripts.fake_card import image_of, quiet

IMAGE = random.Random(9).randbytes(2 * 2**20 + 999)


def bmap_over(*spans):
    return Bmap(len(IMAGE), 512, tuple(Range(s, n, hashlib.sha256(IMAGE[s : s + n]).hexdigest()) for s, n in spans))


def test_size_and_sha256_are_those_of_the_unpacked_image():
    surveyed = survey(image_of(IMAGE), None, quiet)
    assert surveyed.image_bytes == len(IMAGE)
    assert surveyed.sha256 == hashlib.sha256(IMAGE).hexdigest()
    assert surveyed.mapped_bytes == len(IMAGE)


@pytest.mark.parametrize("offset", [0, 511, 2**20 - 1, 2**20, 2**20 + 511])
def test_a_flipped_byte_in_a_mapped_range_is_refused_before_any_card_is_touched(offset):
    bmap = bmap_over((0, 512), (2**20 - 512, 1024))
    damaged = bytearray(IMAGE)
    damaged[offset] ^= 0x10
    with pytest.raises(IntegrityError, match="damaged: bytes"):
        survey(image_of(bytes(damaged)), bmap, quiet)


@pytest.mark.parametrize("image", [IMAGE[:-1], IMAGE + b"x", b""])
def test_an_image_of_another_size_than_its_map_is_refused(image):
    with pytest.raises(RemoteProtocolError):
        survey(image_of(image), bmap_over((0, 512)), quiet)


def test_an_empty_image_is_refused():
    with pytest.raises(RemoteProtocolError):
        survey(image_of(b""), None, quiet)


def test_progress_goes_up_to_the_end():
    told = []
    survey(image_of(IMAGE), None, lambda phase, done, total: told.append(done))
    assert told == sorted(told)
    assert told[-1] == len(IMAGE)
