"""Whose models this device takes: those that the coordinator signed with the one key that is known here.

The key is the one of the configuration, or else the first that a coordinator announced, as SSH knows its hosts: kept in
the database from then on, and never replaced by another announcement. A device that has heard of no key yet has nothing
to compare with, and takes what it is offered. What is refused is counted, and its reason kept for ``status``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Protocol

import structlog

from edge_agent.shell.signatures import holds_in_a_process
from wire.errors import RemoteProtocolError, UnavailableError
from wire.identifiers import Population, Sha256
from wire.signatures import signed_bytes

KEY, REFUSED, WHY = "coordinator_key", "manifests_refused", "manifest_refused_because"
"""Names of the facts."""

log = structlog.get_logger()


Holds = Callable[[str, str, bytes], bool]
"""(public key, signature, what is signed) -> whether it holds."""


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
        holds: whether a signature holds; see :mod:`edge_agent.shell.signatures`.
    """

    def __init__(
        self, population: Population, facts: Facts, given: str = "", holds: Holds = holds_in_a_process
    ) -> None:
        self._population = population
        self._facts = facts
        self._given = given
        self._key = given or facts.fact(KEY) or ""
        self._told = ""
        self._holds = holds
        self._last: tuple[Sha256, str] | None = None  # found good; the keyboard and a session take the same model

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
            UnavailableError: that cannot be found out now.
        """
        if not self._key or (manifest, signature) == self._last:
            return
        if not signature:
            why = f"nobody signed manifest {manifest[:12]}; expected a signature by key {self._key[:12]}"
        elif not self._holds(self._key, signature, signed_bytes(self._population, manifest)):
            why = f"the signature of manifest {manifest[:12]} is not by key {self._key[:12]}; {_remedy(self._given)}"
        else:
            self._last = manifest, signature
            return
        with contextlib.suppress(UnavailableError):  # a full disk must not let it through
            self._facts.remember(REFUSED, str(int(self._facts.fact(REFUSED) or 0) + 1))
            self._facts.remember(WHY, why)
        raise RemoteProtocolError(why, code="signature")


def _remedy(given: str) -> str:
    if given:
        return "if the coordinator has a new key, set coordinator_key to it"
    return "if the coordinator has a new key, set coordinator_key to it: the first one that was announced is kept"
