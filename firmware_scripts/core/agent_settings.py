"""The agent's settings for one card, derived from a fleet's shared settings: only the device's name differs."""

from __future__ import annotations

import json
import re
import tomllib

from nightjar.wire.errors import ConfigError

_DEVICE = re.compile(r"^[ \t]*device[ \t]*=[^\n]*\n", re.MULTILINE)
_TABLE = re.compile(r"^[ \t]*\[", re.MULTILINE)
# The training conditions stay as in the agent's example: boards have no battery, and on most of them /sys says so.
_LEAST = "# Written by `nightjar-firmware customise`. `nightjar-agent example` prints every setting.\n"
_MOST_CLAIM_BYTES = 64_000


def agent_settings(shared: str | None, hostname: str, *, has_claim: bool) -> str:
    r"""Return the text of agent.toml.

    ``hostname`` becomes the device's name, unless it has a claim: then the coordinator supplies the name and all
    addresses. ``shared`` are the fleet's settings; None if there are none.

    Raises:
        ConfigError: the settings are not TOML, their ``device`` line cannot be replaced, or the coordinator's address
            is missing.

    >>> agent_settings('device = "x"\npopulation = "home"\n', "porch-01", has_claim=False)
    'device = "porch-01"\npopulation = "home"\n'
    """
    if shared is None and not has_claim:
        msg = "the agent would not know its coordinator: give --config, or a claim (--claim-file)"
        raise ConfigError(msg)
    text = _LEAST if shared is None else shared
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        msg = f"the agent's settings are no TOML: {error}"
        raise ConfigError(msg) from error
    table = _TABLE.search(text)
    end = table.start() if table else len(text)
    named = "" if has_claim else f'device = "{hostname}"\n'
    head, replaced = _DEVICE.subn(named, text[:end], count=1)
    made = (head if replaced else named + head) + text[end:]
    settings = tomllib.loads(made)
    if ("device" in settings) is has_claim or (not has_claim and settings["device"] != hostname):
        msg = "the line with 'device' in the agent's settings is not understood: write it as device = \"name\""
        raise ConfigError(msg)
    return made


def local_only(settings: str) -> tuple[str, ...]:
    """The settings that point at localhost, where a device cannot reach us: almost always left over from a trial.

    >>> local_only('coordinator_url = "http://127.0.0.1:8080"')
    ('coordinator_url',)
    """
    parsed = tomllib.loads(settings)
    named = {
        "coordinator_url": parsed.get("coordinator_url", ""),
        "broker.host": parsed.get("broker", {}).get("host", ""),
    }
    return tuple(name for name, value in named.items() if re.search(r"\b(127\.|localhost\b|::1)", str(value)))


def check_claim(data: bytes) -> None:
    """Check that this is a claim file from ``nightjar-coordinator enrol-token create``. Never shows its contents.

    Raises:
        ConfigError: it is not a claim file.
    """
    try:
        claim = json.loads(data) if len(data) <= _MOST_CLAIM_BYTES else None
    except (ValueError, RecursionError):
        claim = None
    if not isinstance(claim, dict) or not isinstance(claim.get("claim"), str) or not isinstance(claim.get("url"), str):
        msg = "the claim file is none: make one with 'nightjar-coordinator enrol-token create'"
        raise ConfigError(msg)
