"""What the coordinator knows of a device.

A record and the few ways in which it changes; pure. It is a lease and not the truth: a device may be gone without
anybody having said so, therefore a round relies on its own deadlines and never on this.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from wire.identifiers import DeviceId
from wire.messages import CheckIn, Status


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """One device as last heard of.

    Attributes:
        device: its id.
        online: whether it is connected, as it or its last will said.
        state: its lifecycle state, in its own words.
        reason: why it is in this state, in its own words.
        last_seen_s: wall-clock time of its last sign of life.
        agent_version: as in its last check-in.
        runtime: as in its last check-in.
        program: hash of the program that it holds.
        weights: hash of the weights that it holds.
        examples: messages that it could train on.
        emulated: whether it is an emulated phone.
    """

    device: DeviceId
    online: bool = False
    state: str = ""
    reason: str = ""
    last_seen_s: float = 0.0
    agent_version: str = ""
    runtime: str = ""
    program: str | None = None
    weights: str | None = None
    examples: int = 0
    emulated: bool = False


def heard(lease: Lease, now_s: float) -> Lease:
    """The device sent something."""
    return replace(lease, online=True, last_seen_s=now_s)


def checked_in(lease: Lease, message: CheckIn, now_s: float) -> Lease:
    """The device offered itself and said what it holds."""
    return replace(
        heard(lease, now_s),
        agent_version=message.agent_version,
        runtime=message.runtime,
        program=message.program,
        weights=message.weights,
        examples=message.examples,
        emulated=message.emulated,
    )


def status_changed(lease: Lease, message: Status, now_s: float, *, retained: bool) -> Lease:
    """The device, or its last will, said how it is.

    A retained status is an old one that the broker kept, and the will of a device is not a sign of life, so neither
    renews ``last_seen_s``.
    """
    seen_s = now_s if message.online and not retained else lease.last_seen_s
    return replace(
        lease,
        online=message.online,
        state=message.state or lease.state if message.online else "offline",
        reason=message.reason,
        emulated=message.emulated or lease.emulated,
        last_seen_s=seen_s,
    )
