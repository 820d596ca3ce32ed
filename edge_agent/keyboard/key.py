"""The key of the keyboard's page: with it a browser is the device's user, and no other user of the machine is.

A loopback port is open to every user. So the agent keeps a key in its folder, which is its own, and the address that
``nightjar-agent status`` prints brings it to the browser: behind the ``#``, which no browser sends or logs. The page
remembers it for its own address and port, where a cookie would go to every port of this machine, and shows it with each
request.
"""

from __future__ import annotations

import hmac
import secrets
from pathlib import Path

from host.files import replace_file
from wire.errors import ConfigError

FILE = "keyboard.key"
"""In the agent's folder."""


def kept_key(data_dir: Path) -> str:
    """The key of an agent's folder; made if there is none.

    Raises:
        ConfigError: it cannot be read or written.
    """
    path = data_dir / FILE
    try:
        if not path.exists():
            replace_file(path, secrets.token_urlsafe(32).encode())
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"the key of the keyboard's page cannot be kept in {path}: {error}"
        raise ConfigError(msg) from error


def address(url: str, data_dir: Path) -> str | None:
    """What opens the page at ``url`` in a browser for good; None before the agent has served it.

    Raises:
        ConfigError: the key cannot be read.
    """
    return f"{url}#key={kept_key(data_dir)}" if (data_dir / FILE).exists() else None


def headers(key: str) -> dict[str, str]:
    """What a request brings to show that it may come.

    >>> headers("abc")
    {'Authorization': 'Bearer abc'}
    """
    return {"Authorization": f"Bearer {key}"}


def shows(authorization: str, key: str) -> bool:
    """Whether a header ``Authorization`` shows the key; takes as long whatever it holds."""
    return hmac.compare_digest(authorization.encode(), headers(key)["Authorization"].encode())
