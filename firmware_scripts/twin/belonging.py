"""Determines a twin's device name and coordinator from the files on its boot partition. Pure."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from typing import Any

from nightjar.wire.errors import ConfigError

DEFAULT_URL = "http://127.0.0.1:8080"


@dataclass(frozen=True, slots=True)
class Belonging:
    """The fleet that a twin belongs to."""

    url: str
    device: str  # the device's name; empty if the coordinator assigns it at enrolment
    authority: str  # the coordinator's certificates, PEM; empty without a claim
    broker_port: int | None  # the broker's port in the settings; None if they give none


def belonging(settings: str | None, claim: str | None, url: str | None) -> Belonging:
    r"""Combine the settings, the claim and an explicit URL.

    ``settings`` and ``claim`` are the texts of the files, None where there is none; ``url`` overrides what both say.

    Raises:
        ConfigError: a file is malformed.

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
