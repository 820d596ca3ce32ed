"""Where a twin belongs, as the files of its boot partition say: whose device it is, and which coordinator's. Pure."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from typing import Any

from wire.errors import ConfigError

DEFAULT_URL = "http://127.0.0.1:8080"


@dataclass(frozen=True, slots=True)
class Belonging:
    """Where a twin belongs.

    Attributes:
        url: of its coordinator.
        device: its name there; empty where the coordinator gives it one when it enrols.
        authority: certificates of the coordinator, PEM; empty without a claim.
        broker_port: that its settings name; None where they name none.
    """

    url: str
    device: str
    authority: str
    broker_port: int | None


def belonging(settings: str | None, claim: str | None, url: str | None) -> Belonging:
    r"""Put together what is known.

    Args:
        settings: agent.toml; None if there is none.
        claim: the claim file; None if there is none, or it was wiped.
        url: that counts whatever they say; None for theirs.

    Raises:
        ConfigError: a file is not what it should be.

    >>> belonging('device = "porch"\n[broker]\nport = 1884', None, None)
    Belonging(url='http://127.0.0.1:8080', device='porch', authority='', broker_port=1884)
    """
    try:
        table: dict[str, Any] = tomllib.loads(settings or "")
        held: dict[str, Any] = json.loads(claim) if claim else {}
        return Belonging(
            url or held.get("url") or table.get("coordinator_url", DEFAULT_URL),
            table.get("device", ""),
            held.get("authority", ""),
            table.get("broker", {}).get("port"),
        )
    except (ValueError, AttributeError) as error:
        msg = f"the settings or the claim on the twin's boot partition cannot be read: {error}"
        raise ConfigError(msg) from error
