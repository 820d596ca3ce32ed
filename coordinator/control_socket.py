"""The Unix socket in ``data_dir`` through which commands ask the running service; both ends of it.

Whoever may open it may do everything, because such a user could write the database as well. So it takes no token: the
file is for its owner only, and a request merely says in whose name it comes, for the audit log.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from nightjar.host.put_away import put_away
from nightjar.host.unix_sockets import address_of
from nightjar.wire.errors import ConfigError, UnavailableError

FILE = "control.sock"
"""Name of the socket in ``data_dir``."""
OPERATOR = "Nightjar-Operator"
"""Header with the name of the user who asks, percent-encoded; on other listeners it means nothing."""
_MOST_WAITING = 64


@contextlib.contextmanager
def listening(data_dir: Path) -> Iterator[socket.socket]:
    """Listen until the block ends. The caller holds the lock of ``data_dir``, so a socket found there is a stale one.

    Raises:
        ConfigError: the folder cannot hold the socket.
    """
    path = data_dir / FILE
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as listener:
        try:
            _make_way(data_dir, path)
            os.fchmod(listener.fileno(), 0o600)  # before bind, which gives the file these permissions less the umask
            with address_of(path) as address:
                listener.bind(address)
            listener.listen(_MOST_WAITING)
        except OSError as error:
            msg = f"data_dir: cannot make the socket {path} for commands: {error.strerror or error}"
            raise ConfigError(msg) from error
        try:
            yield listener
        finally:
            path.unlink(missing_ok=True)


def connected(data_dir: Path, timeout_s: float) -> socket.socket:
    """A connection to the service that runs on ``data_dir``.

    Raises:
        UnavailableError: no service runs there, or it is too busy to accept.
        ConfigError: this user may not ask it.
    """
    path = data_dir / FILE
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    line.settimeout(timeout_s)
    try:
        with address_of(path) as address:
            line.connect(address)
    except PermissionError as error:
        line.close()
        msg = f"{path} is for the coordinator's own user and for root: run the command as one of them"
        raise ConfigError(msg) from error
    except OSError as error:
        line.close()
        why, remedy = error.strerror or error, "start it with 'serve', or wait until it logs coordinator_ready"
        msg = f"no coordinator runs on {data_dir} ({why}): {remedy}"
        raise UnavailableError(msg) from error
    return line


def _make_way(data_dir: Path, path: Path) -> None:
    """Remove a stale socket, and put away anything else.

    Raises:
        OSError: it cannot be removed.
    """
    if path.is_symlink() or not path.is_socket():
        put_away(data_dir, [path], "something that is no socket is in its place")
    path.unlink(missing_ok=True)
