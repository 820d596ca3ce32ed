"""What the coordinator signs, and how keys and signatures are written.

Whatever a device obeys, an announcement or an assignment, travels as a text with a signature over it and over the topic
that it came by: so it holds for one population, one device and one kind of message. The text says how long it holds
and its number, of which a device keeps the highest, so that nothing old can be said again. A new key is named by the
one before it, or by a recovery key that lies offline (docs/adr/0036).

Keys and signatures are those of Ed25519 (RFC 8032) in lower-case hex. This module makes and checks none, because that
takes a library that not everybody who imports this package has.
"""

from __future__ import annotations

import re

from wire.errors import RemoteProtocolError
from wire.identifiers import Population

_KEY = re.compile(r"[0-9a-f]{64}")


def signed_bytes(topic: str, text: str) -> bytes:
    r"""The bytes under the signature of a message.

    Args:
        topic: that it is published on; no topic has a line break.
        text: what it says, as it travels.

    >>> signed_bytes("nightjar/1/demo/announce", "{}")
    b'nightjar/1/demo/announce\n{}'
    """
    return f"{topic}\n{text}".encode()


def succession_bytes(population: Population, signer: str, key: str, number: int) -> bytes:
    r"""The bytes under the statement that orders are signed by another key from now on.

    Args:
        population: whose coordinator signs.
        signer: the key before, or the recovery key.
        key: the key from now on.
        number: counts the statements of a recovery key; 0 in one of the key before.

    >>> succession_bytes(Population("demo"), "0" * 64, "1" * 64, 0)[:27]
    b'nightjar succession 1\ndemo\n'
    """
    return f"nightjar succession 1\n{population}\n{signer}\n{key}\n{number}\n".encode()


def public_key(text: str) -> str:
    """Check a public key.

    Raises:
        RemoteProtocolError: not 64 lower-case hex digits.
    """
    if not _KEY.fullmatch(text):
        msg = f"expected a public key as 64 lower-case hex digits, got {text[:80]!r}"
        raise RemoteProtocolError(msg, code="identifier")
    return text
