"""Block maps: which blocks of an image hold data, with a sha256 for each range (the format of bmap-tools, version 2.0).

Reads what ``bmaptool create`` writes (2.x, and 1.4, which differs only in its version number) and writes what
``bmaptool copy`` reads. Accepts only sha256 and refuses older checksums. Source: bmap-tools; the header comment in
``BmapCreate.py`` describes the format.

Blocks outside the ranges of a bmap are not written, and keep what the card held before.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import NoReturn
from xml.etree import ElementTree as Xml

from nightjar.wire.errors import IntegrityError, RemoteProtocolError

MAX_BMAP_BYTES = 64 * 2**20
_NO_CHECKSUM = "0" * 64
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes ``offset`` to ``offset + length_bytes`` of the image, and their sha256."""

    offset: int
    length_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Bmap:
    """A block map; its ranges ascend and do not overlap."""

    image_bytes: int
    block_bytes: int
    ranges: tuple[Range, ...]

    @property
    def mapped_bytes(self) -> int:
        """The number of bytes in the image that hold data."""
        return sum(part.length_bytes for part in self.ranges)


def parse_bmap(data: bytes) -> Bmap:
    """Parse a block map file.

    Raises:
        RemoteProtocolError: the block map is malformed, inconsistent or of an unsupported version.
        IntegrityError: the file does not match the checksum that it holds of itself.
    """
    # Entities are the only dangerous part of XML, and no bmap has a document type.
    if len(data) > MAX_BMAP_BYTES or b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        _refuse("it is too large, or has a document type")
    try:
        root = Xml.fromstring(data)  # noqa: S314 - guarded by the line above
    except (Xml.ParseError, ValueError) as error:
        _refuse(f"it is no XML ({error})")
    version = root.get("version", "")
    if root.tag != "bmap" or not (version == "1.4" or re.fullmatch(r"2\.\d{1,3}", version)):
        _refuse(f"expected a bmap of version 1.4 or 2.x, got {root.tag[:40]!r} {version[:20]!r}")
    if _field(root, "ChecksumType") != "sha256":
        _refuse(f"its checksums are {_field(root, 'ChecksumType')[:20]!r}: make it again, with sha256")
    _check_own_checksum(data, _field(root, "BmapFileChecksum"))
    image_bytes, block_bytes = _number(_field(root, "ImageSize")), _number(_field(root, "BlockSize"))
    if not 512 <= block_bytes <= 2**26 or _number(_field(root, "BlocksCount")) != -(-image_bytes // block_bytes):
        _refuse("its image size, block size and number of blocks do not fit together")
    ranges, next_block = [], 0
    for element in root.iterfind("BlockMap/Range"):
        first_text, _, last_text = (element.text or "").strip().partition("-")
        first = _number(first_text)
        last = _number(last_text) if last_text else first
        sha256 = element.get("chksum", "")
        if first < next_block or last < first or last * block_bytes >= image_bytes or not _SHA256.fullmatch(sha256):
            _refuse(f"range {first}-{last} overlaps another, lies outside of the image or has no sha256")
        next_block = last + 1
        offset = first * block_bytes
        ranges.append(Range(offset, min(next_block * block_bytes, image_bytes) - offset, sha256))
    mapped_blocks = sum(-(-part.length_bytes // block_bytes) for part in ranges)
    if mapped_blocks != _number(_field(root, "MappedBlocksCount")):
        _refuse(f"it promises {_field(root, 'MappedBlocksCount')} mapped blocks and lists {mapped_blocks}")
    return Bmap(image_bytes, block_bytes, tuple(ranges))


def format_bmap(bmap: Bmap) -> bytes:
    """Serialise a block map; equal maps give identical bytes.

    >>> parse_bmap(format_bmap(Bmap(5000, 4096, (Range(4096, 904, "ab" * 32),)))).ranges[0].length_bytes
    904
    """
    blocks = -(-bmap.image_bytes // bmap.block_bytes)
    mapped = sum(-(-part.length_bytes // bmap.block_bytes) for part in bmap.ranges)
    lines = [
        '<?xml version="1.0" ?>',
        "<!-- The blocks of an image that hold data: write these, skip the rest, compare the checksums. -->",
        '<bmap version="2.0">',
        f"    <ImageSize> {bmap.image_bytes} </ImageSize>",
        f"    <BlockSize> {bmap.block_bytes} </BlockSize>",
        f"    <BlocksCount> {blocks} </BlocksCount>",
        f"    <MappedBlocksCount> {mapped} </MappedBlocksCount>",
        "    <ChecksumType> sha256 </ChecksumType>",
        "    <!-- sha256 of this file with 64 zeros in this place -->",
        f"    <BmapFileChecksum> {_NO_CHECKSUM} </BmapFileChecksum>",
        "    <BlockMap>",
    ]
    for part in bmap.ranges:
        first = part.offset // bmap.block_bytes
        last = (part.offset + part.length_bytes - 1) // bmap.block_bytes
        span = f"{first}-{last}" if last > first else f"{first}"
        lines.append(f'        <Range chksum="{part.sha256}"> {span} </Range>')
    lines += ["    </BlockMap>", "</bmap>", ""]
    unsigned = "\n".join(lines).encode()
    return unsigned.replace(_NO_CHECKSUM.encode(), hashlib.sha256(unsigned).hexdigest().encode(), 1)


def _check_own_checksum(data: bytes, claimed: str) -> None:
    if not _SHA256.fullmatch(claimed):
        _refuse("it has no checksum of itself")
    actual = hashlib.sha256(data.replace(claimed.encode(), _NO_CHECKSUM.encode(), 1)).hexdigest()
    if actual != claimed:
        msg = "bmap: its own checksum does not fit: the file is damaged"
        raise IntegrityError(msg)


def _field(root: Xml.Element, name: str) -> str:
    return (root.findtext(name) or "").strip()


def _number(text: str) -> int:
    text = text.strip()
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        _refuse(f"expected a number, got {text[:40]!r}")
    return int(text)


def _refuse(what: str) -> NoReturn:
    msg = f"bmap: {what}"
    raise RemoteProtocolError(msg, code="bmap")
