"""A device's standing: whether it may connect, and what an operator can do about it. Pure."""

from __future__ import annotations

import msgspec

from nightjar.coordinator.enrolment.claims import KeyState


class Standing(msgspec.Struct, frozen=True):
    """A device's standing."""

    device: str  # its name; empty if the certificate is unknown
    keys: frozenset[KeyState] = frozenset()  # none of a stranger, or if the coordinator enrols nobody
    blocked: str = ""  # why an operator blocked it; empty if it is not blocked


def standing_word(standing: Standing) -> str:
    """The standing in one word; empty if nothing is known of the device's keys and it is not blocked.

    >>> standing_word(Standing("pi", frozenset({KeyState.REVOKED, KeyState.ACTIVE})))
    'enrolled'
    >>> standing_word(Standing("pi", frozenset({KeyState.REVOKED})))
    'revoked'
    """
    if standing.blocked:
        return "blocked"
    if standing.keys & {KeyState.GRANTED, KeyState.ISSUED, KeyState.ACTIVE}:
        return "enrolled"
    if KeyState.WAITING in standing.keys:
        return "pending"
    return "revoked" if standing.keys else ""


def what_to_do(standing: Standing) -> str:
    """What the standing means and what to do about it; empty for an enrolled device.

    >>> what_to_do(Standing("pi", frozenset({KeyState.WAITING})))
    "waits for approval: 'nightjar-coordinator enrolment approve pi' lets it in, 'enrolment refuse pi' does not"
    """
    name = standing.device
    match standing_word(standing):
        case "blocked":
            return f"blocked ({standing.blocked}): 'nightjar-coordinator device unblock {name}' lets it in again"
        case "revoked":
            return (
                f"revoked for good: to let it in again, create a claim with 'nightjar-coordinator enrol-token create "
                f"NAME --device {name}', and run 'nightjar-agent enrol' with it on the device"
            )
        case "pending":
            return (
                f"waits for approval: 'nightjar-coordinator enrolment approve {name}' lets it in, "
                f"'enrolment refuse {name}' does not"
            )
        case _:
            return ""


def said_to_device(standing: Standing) -> str:
    """The refusal that a device receives, and logs.

    >>> said_to_device(Standing("pi", blocked="lost"))
    'an operator blocked this device: lost; an operator can unblock it'
    """
    if standing.blocked:
        return f"an operator blocked this device: {standing.blocked}; an operator can unblock it"
    return "this certificate was revoked; enrol this device again with a new claim"
