"""The bytes that the coordinator signs, and the format of keys and signatures.

An order (an announcement or an assignment) is sent as a text with a signature over the text and its topic, so it is
valid for one population, one kind of message and, for an assignment, one device. The text contains its expiry and its
number; a device keeps the highest number, so that old orders cannot be replayed. A new key is signed by the previous
one, or by a recovery key that is kept offline (docs/adr/0036).

Keys and signatures are Ed25519 (RFC 8032) in lower-case hex. This module neither creates nor verifies signatures,
because that needs a library which some importers of this package do not have.
"""

from __future__ import annotations

import re

from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.identifiers import Population

_KEY = re.compile(r"[0-9a-f]{64}")


def signed_bytes(topic: str, text: str) -> bytes:
    r"""The bytes that the signature of a message covers.

    Topics contain no line breaks; the text is exactly as sent.

    >>> signed_bytes("nightjar/1/demo/announce", "{}")
    b'nightjar/1/demo/announce\n{}'
    """
    return f"{topic}\n{text}".encode()


def succession_bytes(population: Population, signer: str, key: str, number: int) -> bytes:
    r"""The bytes that the signature of a key change covers.

    The signer is the previous key (then the number is 0), or the recovery key, whose changes are counted.

    >>> succession_bytes(Population("demo"), "0" * 64, "1" * 64, 0)[:27]
    b'nightjar succession 1\ndemo\n'
    """
    return f"nightjar succession 1\n{population}\n{signer}\n{key}\n{number}\n".encode()


def public_key(text: str) -> str:
    """Check a public key.

    Raises:
        RemoteProtocolError: the text is not 64 lower-case hex digits.
    """
    if not _KEY.fullmatch(text):
        msg = f"expected a public key as 64 lower-case hex digits, got {text[:80]!r}"
        raise RemoteProtocolError(msg, code="identifier")
    return text
