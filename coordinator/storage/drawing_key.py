"""The drawing key: a secret file in the data folder, from which each round gets the seed of its draw.

Who is drawn must not be foreseen: a device that knew the seed could compute which names and rounds to wait for, and
enrol again until it had such a name. So the seed is none of the configuration's, and no page, log or version shows it.
A round's seed is a hash of the key and the round's number, so that a seed that became known gives no other away.
``init`` makes the key, or the next start in a folder of an older release. A backup does not hold it: a restored folder
makes another.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from pathlib import Path

from nightjar.host.files import private_folder, replace_file
from nightjar.wire.errors import ConfigError, UnavailableError, rewording

FILE = "drawing.key"
_KEY_BYTES = 32


def load_draw_seeds(data_dir: Path) -> Callable[[int], int]:
    """The function that gives a round the seed of its draw, below 2^63; its key is created if there is none.

    Raises:
        ConfigError: the file is readable by others, or holds something else.
        UnavailableError: the file cannot be read or written.
    """
    path = data_dir / FILE
    with rewording(UnavailableError, f"the key of the draws cannot be kept in {path}"):
        if not path.exists():
            private_folder(data_dir)
            replace_file(path, secrets.token_bytes(_KEY_BYTES))
        mode, key = path.stat().st_mode, path.read_bytes()
    if mode & 0o077:
        msg = f"{path} is readable by others, who could foresee which devices are drawn: delete it, and start again"
        raise ConfigError(msg)
    if len(key) != _KEY_BYTES:
        msg = f"expected {_KEY_BYTES} bytes in {path}, got {len(key)}: delete it, and start again"
        raise ConfigError(msg)
    return lambda number: seed_of_draw(key, number)


def seed_of_draw(key: bytes, number: int) -> int:
    """The seed of a round's draw.

    >>> [seed_of_draw(bytes(32), number) == seed_of_draw(bytes(32), 1) for number in (1, 2)]
    [True, False]
    """
    digest = hmac.digest(key, b"nightjar draw " + str(number).encode(), hashlib.sha256)
    return int.from_bytes(digest[:8], "big") >> 1
