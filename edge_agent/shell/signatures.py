"""Verifies Ed25519 signatures in a separate process, because the library takes eight megabytes of memory.

A device verifies one signature for each new model. The agent runs all day, and the owner notices its memory use.
"""

from __future__ import annotations

import subprocess
import sys

from nightjar.host.children import python_command
from nightjar.wire.errors import UnavailableError

TIMEOUT_S = 120.0
"""A busy board takes some seconds to load the library from its SD card."""
HOLDS, HOLDS_NOT = 0, 10
"""Exit statuses; an interpreter that fails exits with 1."""


def signature_valid(key: str, signature: str, signed: bytes) -> bool:
    """Whether the owner of a public key signed these bytes, checked in this process; key and signature are in hex."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(bytes.fromhex(signature), signed)
    except InvalidSignature:
        return False
    return True


def checked_in_a_process(key: str, signature: str, signed: bytes) -> bool:
    """Whether the owner of a key signed these bytes; checked in a short-lived process.

    Raises:
        UnavailableError: the process failed or timed out.
    """
    command = python_command("-m", "nightjar.edge_agent.shell.signatures", key, signature)
    try:
        done = subprocess.run(command, input=signed, capture_output=True, timeout=TIMEOUT_S, check=False)  # noqa: S603 - our own module
    except (OSError, subprocess.SubprocessError) as error:
        msg = f"a signature could not be checked: {error}"
        raise UnavailableError(msg) from error
    if done.returncode not in {HOLDS, HOLDS_NOT}:
        msg = f"a signature could not be checked: {done.stderr.decode(errors='replace').strip()[-300:]}"
        raise UnavailableError(msg)
    return done.returncode == HOLDS


if __name__ == "__main__":
    sys.exit(HOLDS if signature_valid(sys.argv[1], sys.argv[2], sys.stdin.buffer.read()) else HOLDS_NOT)
