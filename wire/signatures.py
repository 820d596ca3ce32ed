"""What the coordinator signs, and how keys and signatures are written.

A signature says: the coordinator of this population made this manifest. It does not say that the manifest is the newest
one; going back to an older version is something that an operator may want.

Keys and signatures are those of Ed25519 (RFC 8032) in lower-case hex. This module makes and checks none, because that
takes a library that not everybody who imports this package has.
"""

from __future__ import annotations

import re

from wire.errors import RemoteProtocolError
from wire.identifiers import Population, Sha256

_KEY = re.compile(r"[0-9a-f]{64}")


def signed_bytes(population: Population, manifest: Sha256) -> bytes:
    r"""The bytes under a manifest's signature.

    The first line keeps a signature from being taken for one of something else; a population has no line break.

    Args:
        population: whose coordinator signs.
        manifest: hash of the manifest, which vouches for the manifest and all that it names.

    >>> signed_bytes(Population("demo"), Sha256("0" * 64))[:30]
    b'nightjar manifest 1\ndemo\n00000'
    """
    return f"nightjar manifest 1\n{population}\n{manifest}\n".encode()


def public_key(text: str) -> str:
    """Check a public key.

    Raises:
        RemoteProtocolError: not 64 lower-case hex digits.
    """
    if not _KEY.fullmatch(text):
        msg = f"expected a public key as 64 lower-case hex digits, got {text[:80]!r}"
        raise RemoteProtocolError(msg, code="identifier")
    return text
