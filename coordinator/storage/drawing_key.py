"""The drawing key: a secret file in the data folder, from which each round gets the seed of its draw.

Who is drawn must not be foreseen: a device that knew the seed could compute which names and rounds to wait for, and
enrol again until it had such a name. So the seed is none of the configuration's, and no page, log or version shows it.
A round's seed is a hash of the key and the round's number, so that a seed that became known gives no other away.
``init`` makes the key, or the next start in a folder of an older release. A backup does not hold it: a restored folder
makes another, and so does a start that finds it damaged or readable by others, because a new one is always as good.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from pathlib import Path

import structlog

from nightjar.host.files import private_folder, read_file, replace_file
from nightjar.host.put_away import put_away
from nightjar.wire.errors import UnavailableError, rewording

FILE = "drawing.key"
_KEY_BYTES = 32

_log = structlog.get_logger("coordinator")


def load_draw_seeds(data_dir: Path) -> Callable[[int], int]:
    """The function that gives a round the seed of its draw, below 2^63; its key is created if there is none.

    Raises:
        UnavailableError: the file cannot be read or written.
    """
    path = data_dir / FILE
    with rewording(UnavailableError, f"the key of the draws cannot be kept in {path}"):
        private_folder(data_dir)
        wrong = _wrong(path)
        if wrong:
            put_away(data_dir, [path], wrong)
            _log.warning("damaged_file_put_away", file=str(path), reason=wrong)
        if not path.exists():
            replace_file(path, secrets.token_bytes(_KEY_BYTES))
        key = read_file(path, _KEY_BYTES)
    return lambda number: seed_of_draw(key, number)


def _wrong(path: Path) -> str:
    """Why another key must be made; empty if the file can be used, or there is none."""
    try:
        mode, key = path.stat().st_mode, read_file(path, _KEY_BYTES + 1)
    except FileNotFoundError:
        return "expected a file, got a link to nothing" if path.is_symlink() else ""
    except OSError as error:
        return f"expected a file, got: {error.strerror or error}"
    if mode & 0o077:
        return "others may read it, who could foresee which devices are drawn"
    return (
        "" if len(key) == _KEY_BYTES else f"expected {_KEY_BYTES} bytes, got {'more' if key[_KEY_BYTES:] else len(key)}"
    )


def seed_of_draw(key: bytes, number: int) -> int:
    """The seed of a round's draw.

    >>> [seed_of_draw(bytes(32), number) == seed_of_draw(bytes(32), 1) for number in (1, 2)]
    [True, False]
    """
    digest = hmac.digest(key, b"nightjar draw " + str(number).encode(), hashlib.sha256)
    return int.from_bytes(digest[:8], "big") >> 1
