import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.firmware_scripts.core.bmap import MAX_BMAP_BYTES, Bmap, Range, format_bmap, parse_bmap
from nightjar.wire.errors import IntegrityError, RemoteProtocolError

SHA = "ab" * 32
BMAP = Bmap(10_485_761, 4096, (Range(12288, 8192, SHA), Range(5242880, 1048576, SHA), Range(10485760, 1, SHA)))


def resigned(text):
    """A map whose own checksum fits again after it was changed."""
    zeroed = re.sub(r"<BmapFileChecksum> \w+ <", f"<BmapFileChecksum> {'0' * 64} <", text)
    return zeroed.replace("0" * 64, hashlib.sha256(zeroed.encode()).hexdigest(), 1).encode()


@st.composite
def bmaps(draw):
    block = draw(st.sampled_from([512, 4096, 65536]))
    size = draw(st.integers(1, 200 * block))
    blocks = -(-size // block)
    edges = sorted(draw(st.sets(st.integers(0, blocks), max_size=10)))
    ranges = []
    for first, end in zip(edges[::2], edges[1::2], strict=False):
        ranges.append(Range(first * block, min(end * block, size) - first * block, SHA))
    return Bmap(size, block, tuple(ranges))


@given(bmaps())
def test_a_written_map_is_read_back_the_same(bmap):
    assert parse_bmap(format_bmap(bmap)) == bmap


def test_the_same_map_gives_the_same_bytes():
    assert format_bmap(BMAP) == format_bmap(parse_bmap(format_bmap(BMAP)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2.0", "3.0"),
        ("2.0", "1.3"),
        ("<bmap ", "<map "),
        ("</bmap>", "</map>"),
        ("> sha256 <", "> sha1 <"),
        ("> 10485761 <", "> 10485760 <"),
        ("> 10485761 <", "> -1 <"),
        ("> 10485761 <", f"> {'9' * 40} <"),
        ("> 4096 <", "> 0 <"),
        ("> 4096 <", "> 4097 <"),
        ("> 259 <", "> 258 <"),
        ("> 3-4 <", "> 4-3 <"),
        ("> 3-4 <", "> 1280-1281 <"),
        ("> 2560 <", "> 2561 <"),
        ("> 2560 <", "> 99999999 <"),
        ("> 2560 <", "> 0x10 <"),
        ("> 2560 <", "> 1000 <"),
        (f'chksum="{SHA}"', ""),
        (f'chksum="{SHA}"', 'chksum="../../etc"'),
        (f'chksum="{SHA}"', f'chksum="{SHA.upper()}"'),
    ],
)
def test_a_map_that_does_not_fit_together_is_refused_even_if_its_checksum_does(old, new):
    text = format_bmap(BMAP).decode()
    assert old in text
    with pytest.raises(RemoteProtocolError):
        parse_bmap(resigned(text.replace(old, new, 1)))


def test_every_flipped_byte_is_refused_or_changes_nothing_that_is_written():
    good = format_bmap(BMAP)
    for position in range(len(good)):
        damaged = bytearray(good)
        damaged[position] ^= 1
        with pytest.raises(RemoteProtocolError):
            parse_bmap(bytes(damaged))


def test_every_truncation_is_refused():
    good = format_bmap(BMAP)
    for length in range(len(good) - 1):
        with pytest.raises(RemoteProtocolError):
            parse_bmap(good[:length])


def test_a_wrong_checksum_of_the_map_itself_is_an_integrity_error():
    with pytest.raises(IntegrityError):
        parse_bmap(format_bmap(BMAP).replace(b"> 3-4 <", b"> 5-6 <"))


def test_entities_and_giant_files_are_refused_before_they_are_parsed():
    bomb = b'<!DOCTYPE x [<!ENTITY a "aaaa">]>' + format_bmap(BMAP)
    for data in (bomb, b" " * (MAX_BMAP_BYTES + 1)):
        with pytest.raises(RemoteProtocolError):
            parse_bmap(data)
