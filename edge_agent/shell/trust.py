"""Whose models this device takes: those that the coordinator signed with the one key that is known here.

The key is the one of the configuration, or else the first that a coordinator announced, as SSH knows its hosts: kept in
the database from then on, and never replaced by another announcement. A device that has heard of no key yet has nothing
to compare with, and takes what it is offered. What is refused is counted, and its reason kept for ``status``.
"""

from __future__ import annotations

import contextlib
from typing import Protocol

import structlog

from wire.errors import RemoteProtocolError, UnavailableError
from wire.identifiers import Population, Sha256
from wire.signatures import signed_bytes

KEY, REFUSED, WHY = "coordinator_key", "manifests_refused", "manifest_refused_because"
"""Names of the facts."""

log = structlog.get_logger()


class Facts(Protocol):
    """Small things that a device remembers."""

    def fact(self, name: str) -> str | None:
        """A remembered value, or None."""

    def remember(self, name: str, value: str) -> None:
        """Remember a value under a name.

        Raises:
            UnavailableError: not now.
        """


class KnownKey:
    """Implements :class:`edge_agent.ports.Trust`. Any thread may check.

    Args:
        population: whose coordinator signs.
        facts: what the device remembers.
        given: the key of the configuration, in hex; empty if none was given.
    """

    def __init__(self, population: Population, facts: Facts, given: str = "") -> None:
        self._population = population
        self._facts = facts
        self._given = given
        self._key = given or facts.fact(KEY) or ""
        self._told = ""

    def announced(self, key: str) -> None:
        """A coordinator announced its key: the first counts if none was given."""
        if not key or key == self._key:
            return
        if not self._key:
            self._facts.remember(KEY, key)
            self._key = key
            log.info("coordinator_key_kept", key=key)
        elif key != self._told:
            self._told = key  # announcements come again and again
            log.warning("coordinator_key_refused", announced=key, known=self._key, remedy=_remedy(self._given))

    def check(self, manifest: Sha256, signature: str) -> None:
        """See whether the coordinator signed a manifest.

        Raises:
            RemoteProtocolError: it did not.
        """
        if not self._key:
            return
        if not signature:
            why = f"nobody signed manifest {manifest[:12]}; expected a signature by key {self._key[:12]}"
        elif not _holds(self._key, signature, signed_bytes(self._population, manifest)):
            why = f"the signature of manifest {manifest[:12]} is not by key {self._key[:12]}; {_remedy(self._given)}"
        else:
            return
        with contextlib.suppress(UnavailableError):  # a full disk must not let it through
            self._facts.remember(REFUSED, str(int(self._facts.fact(REFUSED) or 0) + 1))
            self._facts.remember(WHY, why)
        raise RemoteProtocolError(why, code="signature")


def _remedy(given: str) -> str:
    if given:
        return "if the coordinator has a new key, set coordinator_key to it"
    return "if the coordinator has a new key, set coordinator_key to it: the first one that was announced is kept"


def _holds(key: str, signature: str, signed: bytes) -> bool:
    # Eight megabytes, for which a device without anything to check has no use.
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(bytes.fromhex(signature), signed)
    except InvalidSignature:
        return False
    return True
