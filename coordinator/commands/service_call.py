"""How commands ask the running service for an answer or a change: its HTTP API, through the socket in ``data_dir``."""

from __future__ import annotations

import http.client
import math
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import click
import msgspec

from nightjar.coordinator.commands.console import at_the_command_line, say
from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.control_socket import OPERATOR, connected
from nightjar.coordinator.web import ANSWER_TIMEOUT_S, ROOT
from nightjar.host.configuration import flattened
from nightjar.wire.errors import ConfigError, UnavailableError

reason_option = click.option("--reason", required=True, help="Kept in the audit log; devices see it, too.")


def ask_service(config: CoordinatorConfig, method: str, path: str, body: object | None = None) -> Any:
    """Send a request to the running service; returns its answer.

    Raises:
        UnavailableError: the service is not running, or cannot handle the request now.
        ConfigError: the service refuses the request, or this user may not ask it.
    """
    url = f"{ROOT}{quote(path, safe='/?=&')}"
    headers = {OPERATOR: quote(at_the_command_line())}
    data = None
    if body is not None:
        _refuse_non_finite(body)
        data, headers["Content-Type"] = msgspec.json.encode(body), "application/json"
    connection = http.client.HTTPConnection("localhost")
    connection.sock = connected(config.data_dir, 2 * ANSWER_TIMEOUT_S)
    with connection.sock:
        try:
            connection.request(method, url, data, headers)
            response = connection.getresponse()
            status, answer = response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            msg = f"the coordinator on {config.data_dir} gave no answer: {error or type(error).__name__}"
            raise UnavailableError(msg) from error
    if status < 400:
        return msgspec.json.decode(answer)
    msg = _detail(answer)
    raise UnavailableError(msg) if status >= 500 else ConfigError(msg)


def _refuse_non_finite(body: object) -> None:
    """Refuse what JSON has no number for: it would be sent as null, which stands for the default of some settings."""
    for name, value in flattened(body) if isinstance(body, dict) else ():
        if isinstance(value, float) and not math.isfinite(value):
            msg = f"{name}: expected a number, got {value}"
            raise ConfigError(msg)


def _detail(data: bytes) -> str:
    try:
        return str(msgspec.json.decode(data)["detail"])
    except (msgspec.MsgspecError, KeyError, TypeError):
        return data[:200].decode(errors="replace")


def change(config: CoordinatorConfig, path: str, body: object, now: str | Callable[[], str], *, as_json: bool) -> None:
    """Ask the service for a change, and print its answer; for people what is so ``now``: a text, or what reads one."""
    answer = ask_service(config, "POST", path, body)
    now = now() if callable(now) else now
    say(answer, [now if answer["changed"] else f"nothing to change: {now}"], as_json=as_json)
