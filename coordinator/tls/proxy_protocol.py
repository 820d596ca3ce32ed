"""The PROXY protocol, version 1: the line by which a proxy that passes TCP through names its client.

Source: The PROXY protocol, versions 1 & 2, section 2.1 (HAProxy, 2020).
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket

from nightjar.wire.errors import RemoteProtocolError

MOST_BYTES = 107
"""Longest line of version 1, with its end."""
_END = b"\r\n"


def client_named(line: bytes) -> str:
    r"""The client's address in a complete line; empty if the proxy does not know it.

    >>> client_named(b"PROXY TCP4 192.0.2.7 198.51.100.1 56324 8443\r\n")
    '192.0.2.7'
    >>> client_named(b"PROXY UNKNOWN\r\n")
    ''

    Raises:
        RemoteProtocolError: it is no such line.
    """
    try:
        match line.removesuffix(_END).decode("ascii").split(" "):
            case ["PROXY", "UNKNOWN", *_]:
                return ""
            case ["PROXY", "TCP4", client, _, _, _]:
                return str(ipaddress.IPv4Address(client))
            case ["PROXY", "TCP6", client, _, _, _]:
                return str(ipaddress.IPv6Address(client))
            case _:
                pass
    except ValueError:
        pass
    msg = f"expected a line of the PROXY protocol, got {line!r}"
    raise RemoteProtocolError(msg)


async def client_behind(connection: socket.socket, proxy: str) -> str:
    """Read the line, if the connection begins with one, and nothing after it; a TLS handshake begins otherwise.

    The connection is non-blocking, and comes from the address ``proxy``.

    Returns:
        The client's address; the proxy's if it does not name one.

    Raises:
        RemoteProtocolError: the line is not of the protocol.
        OSError: the connection ended.
    """
    loop = asyncio.get_running_loop()
    if await _first_byte(loop, connection) != b"P":
        return proxy
    line = bytearray()
    while not line.endswith(_END) and len(line) < MOST_BYTES:
        piece = await loop.sock_recv(connection, 1)
        if not piece:
            raise ConnectionResetError
        line += piece
    return client_named(bytes(line)) or proxy


async def _first_byte(loop: asyncio.AbstractEventLoop, connection: socket.socket) -> bytes:
    while True:
        try:
            return connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            readable = loop.create_future()
            loop.add_reader(connection, readable.set_result, None)
            try:
                await readable
            finally:
                loop.remove_reader(connection)
