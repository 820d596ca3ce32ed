"""Lists of files with their sha256: the manifest of a bundle (JSON), or the output of ``sha256sum``.

The JSON form is ``{"files": [{"path": ..., "sha256": ..., "size_bytes": ...}]}``; this module ignores other keys.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from nightjar.wire.errors import RemoteProtocolError

MAX_MANIFEST_BYTES = 16 * 2**20
_LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class ListedFile:
    """One file: a relative path, its sha256 in hex, and its size if the list gives it."""

    path: str
    sha256: str
    size_bytes: int | None


def parse_manifest(data: bytes) -> tuple[ListedFile, ...]:
    """Parse a manifest.

    Raises:
        RemoteProtocolError: the list is malformed, names a file twice, or names a file outside the manifest's folder.

    >>> parse_manifest(b"ab" * 32 + b"  pi.img")[0].path
    'pi.img'
    """
    try:
        text = data.decode()
        files = _from_json(text) if text.lstrip().startswith("{") else _from_lines(text)
    except (UnicodeDecodeError, ValueError, KeyError, TypeError, RecursionError) as error:
        msg = f"the manifest is neither JSON with 'files' nor the output of sha256sum: {error!r:.120}"
        raise RemoteProtocolError(msg, code="manifest") from error
    names = [file.path for file in files]
    for name in names:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name or names.count(name) > 1:
            msg = f"the manifest names {name[:120]!r} twice, or it lies outside of the manifest's folder"
            raise RemoteProtocolError(msg, code="manifest")
    return files


def _from_json(text: str) -> tuple[ListedFile, ...]:
    files = []
    for row in json.loads(text)["files"]:
        path, sha256, size = row["path"], row["sha256"], row.get("size_bytes")
        if not (isinstance(path, str) and _SHA256.fullmatch(sha256) and (size is None or type(size) is int)):
            raise ValueError(row)
        files.append(ListedFile(path, sha256, size))
    return tuple(files)


def _from_lines(text: str) -> tuple[ListedFile, ...]:
    files = []
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if not match:
            raise ValueError(line[:80])
        files.append(ListedFile(match[2].removeprefix("./"), match[1], None))
    return tuple(files)
