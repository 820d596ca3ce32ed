"""Which keys count as the owner of this device: those that may sign a program. Pure.

A device knows its owner in two ways. A claim, or the configuration on its card, brought one public key. And a release
of the agent brought the root of The Update Framework (docs/releases.md), whose role *targets* says which of its keys
must sign what devices install; the same keys sign what devices compute.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import msgspec


@dataclass(frozen=True, slots=True)
class ProgramOwner:
    """Public keys, in hex, and how many of them must have signed.

    >>> ProgramOwner(frozenset({"a", "b", "c"}), 2).agrees({"a", "c", "x"})
    True
    """

    keys: frozenset[str]
    threshold: int = 1

    def agrees(self, signed: Collection[str]) -> bool:
        """Whether enough of the keys are among those that signed."""
        return len(self.keys & set(signed)) >= self.threshold >= 1


class _KeyValue(msgspec.Struct, frozen=True):
    public: str = ""


class _RootKey(msgspec.Struct, frozen=True):
    keytype: str
    keyval: _KeyValue


class _Role(msgspec.Struct, frozen=True):
    keyids: list[str]
    threshold: int


class _Signed(msgspec.Struct, frozen=True):
    keys: dict[str, _RootKey]
    roles: dict[str, _Role]


class _Root(msgspec.Struct, frozen=True):
    signed: _Signed


def owner_in(root: bytes) -> ProgramOwner | None:
    """The owner that a release's ``root.json`` names; None if it names none that can be read."""
    try:
        signed = msgspec.json.decode(root, type=_Root).signed
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    role = signed.roles.get("targets")
    if role is None or role.threshold < 1:
        return None
    keys = (signed.keys[keyid] for keyid in role.keyids if keyid in signed.keys)
    return ProgramOwner(frozenset(key.keyval.public for key in keys if key.keytype == "ed25519"), role.threshold)
