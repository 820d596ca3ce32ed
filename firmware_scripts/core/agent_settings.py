"""The agent's settings for one card, from the ones that a fleet shares: only the device's name differs."""

from __future__ import annotations

import json
import re
import tomllib

from wire.errors import ConfigError

_DEVICE = re.compile(r"^[ \t]*device[ \t]*=[^\n]*\n", re.MULTILINE)
_TABLE = re.compile(r"^[ \t]*\[", re.MULTILINE)
# A board has no battery, and /sys of most says so; conditions are as in the agent's example.
_LEAST = "# Written by `nightjar-firmware customise`. `nightjar-agent example` prints every setting.\n"
_MOST_CLAIM_BYTES = 64_000


def agent_settings(shared: str | None, hostname: str, *, has_claim: bool) -> str:
    r"""The text of agent.toml.

    Args:
        shared: the settings of the fleet; None if there are none.
        hostname: becomes the device's name, where no claim decides over it.
        has_claim: the coordinator will say who the device is, and where itself and the broker are.

    Raises:
        ConfigError: the settings are no TOML, or nothing says where the coordinator is.

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
    head, found = _DEVICE.subn(named, text[:end], count=1)
    made = (head if found else named + head) + text[end:]
    said = tomllib.loads(made)
    if ("device" in said) is has_claim or (not has_claim and said["device"] != hostname):
        msg = "the line with 'device' in the agent's settings is not understood: write it as device = \"name\""
        raise ConfigError(msg)
    return made


def local_only(settings: str) -> tuple[str, ...]:
    """The settings that name this very machine, which a device cannot reach: almost always left over from a trial.

    >>> local_only('coordinator_url = "http://127.0.0.1:8080"')
    ('coordinator_url',)
    """
    said = tomllib.loads(settings)
    named = {"coordinator_url": said.get("coordinator_url", ""), "broker.host": said.get("broker", {}).get("host", "")}
    return tuple(name for name, value in named.items() if re.search(r"\b(127\.|localhost\b|::1)", str(value)))


def check_claim(data: bytes) -> None:
    """Return if this is a claim file of ``nightjar-coordinator enrol-token create``. Nothing of it is ever shown.

    Raises:
        ConfigError: it is not.
    """
    try:
        said = json.loads(data) if len(data) <= _MOST_CLAIM_BYTES else None
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict) or not isinstance(said.get("claim"), str) or not isinstance(said.get("url"), str):
        msg = "the claim file is none: make one with 'nightjar-coordinator enrol-token create'"
        raise ConfigError(msg)
