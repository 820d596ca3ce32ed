"""The key of the keyboard's page: it authenticates the device's user against other users of the machine.

A loopback port is open to every user. So the agent keeps a key in its private folder. The address that
``nightjar-agent status`` prints passes the key to the browser in the fragment (after the ``#``), which a browser
neither sends nor logs. The page stores the key for its own origin, whereas a cookie would be sent to every port of
this machine, and proves in each request that it has the key (:mod:`nightjar.edge_agent.keyboard.sealing`).
"""

from __future__ import annotations

import hmac
import secrets
from pathlib import Path

from nightjar.host.files import read_file, replace_file
from nightjar.wire.errors import ConfigError

FILE = "keyboard.key"
"""Name of the key file in the agent's folder."""
PORT_FILE = "keyboard.port"
"""Name of the file that holds the page's port, which the system may have picked."""


def kept_key(data_dir: Path) -> str:
    """The key in the folder of the agent that calls this; created if there is none.

    Raises:
        ConfigError: the key cannot be read or written.
    """
    path = data_dir / FILE
    try:
        if not path.exists():
            replace_file(path, secrets.token_urlsafe(32).encode())
    except OSError as error:
        msg = f"the key of the keyboard's page cannot be kept in {path}: {error}"
        raise ConfigError(msg) from error
    return _read(path)


def served_key(data_dir: Path) -> str | None:
    """The key that an agent has made; None before it has. For other processes, as only the agent may make it.

    Raises:
        ConfigError: the key cannot be read.
    """
    path = data_dir / FILE
    return _read(path) if path.exists() else None


def _read(path: Path) -> str:
    try:
        return read_file(path).decode("ascii")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"the key of the keyboard's page cannot be read from {path}: {error}"
        raise ConfigError(msg) from error


def note_port(data_dir: Path, port: int) -> None:
    """Note where the page is served, for ``nightjar-agent status``.

    Raises:
        ConfigError: it cannot be written.
    """
    try:
        replace_file(data_dir / PORT_FILE, str(port).encode())
    except OSError as error:
        msg = f"data_dir: the port of the keyboard's page cannot be noted: {error}"
        raise ConfigError(msg) from error


def served_port(data_dir: Path) -> int:
    """Where the page of a running agent is served; 0 if that was not noted."""
    try:
        return int(read_file(data_dir / PORT_FILE))
    except (OSError, ValueError):
        return 0


def address(url: str, data_dir: Path) -> str | None:
    """The address, including the key, that opens the page at ``url``; None before the agent has served it.

    Raises:
        ConfigError: the key cannot be read.
    """
    key = served_key(data_dir)
    return None if key is None else f"{url}#key={key}"


def headers(key: str) -> dict[str, str]:
    """The headers that authenticate a request.

    >>> headers("abc")
    {'Authorization': 'Bearer abc'}
    """
    return {"Authorization": f"Bearer {key}"}


def shows(authorization: str, key: str) -> bool:
    """Whether an ``Authorization`` header holds the key; compares in constant time."""
    return hmac.compare_digest(authorization.encode(), headers(key)["Authorization"].encode())
