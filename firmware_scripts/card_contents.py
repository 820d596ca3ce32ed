"""What a customised card holds, in words and as JSON, without its secrets. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from nightjar.firmware_scripts.core.printable import printable, time_text
from nightjar.firmware_scripts.customising import Order


def contents_json(order: Order) -> dict[str, object]:
    """The settings of a card by name; None for each that it does not have."""
    settings = order.settings
    facts = {} if order.parcel is None else order.parcel.facts
    return {
        "hostname": settings.hostname,
        "user": settings.user,
        "ssh_keys": len(settings.ssh_keys),
        "password": settings.password_hash is not None,
        "wifi": None if settings.wifi is None else settings.wifi.ssid,
        "wifi_country": None if settings.wifi is None else settings.wifi.country,
        "agent": facts.get("agent"),
        "platform": facts.get("platform"),
        "claim": order.claim is not None,
        "claim_until": None if order.claim_until_s is None else time_text(order.claim_until_s),
    }


def contents_lines(order: Order) -> Sequence[str]:
    """One line for each thing that was put on a card beside its image."""
    settings = order.settings
    lines = [f"host name: {settings.hostname}"]
    if settings.user is None:
        lines.append("user: none, unless the image brings one")
    else:
        ways = [f"{len(settings.ssh_keys)} SSH key(s)"] if settings.ssh_keys else []
        ways += ["a password"] if settings.password_hash else []
        lines.append(f"user: {settings.user}, with {' and '.join(ways)}")
    if settings.wifi is None:
        lines.append("Wi-Fi: none, it uses a cable")
    else:
        lines.append(f"Wi-Fi: {printable(settings.wifi.ssid)} ({settings.wifi.country})")
    if order.parcel is None:
        lines.append("agent: none")
        return lines
    lines.append(f"agent: {order.parcel.facts.get('agent')} for {order.parcel.facts.get('platform')}")
    if order.claim is None:
        lines.append("claim: none, it takes its coordinator from agent.toml")
    elif order.claim_until_s is None:
        lines.append("claim: yes; 'nightjar-coordinator enrol-token list' says until when it can be used")
    else:
        lines.append(f"claim: to be used once, until {time_text(order.claim_until_s)}")
    return lines
