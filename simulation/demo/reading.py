"""Reads the state of a run from the coordinator's API: task, open round, devices, rounds, versions and counters.

It makes several requests, so the parts may differ slightly in time; the task's version is always among the versions.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import urllib3

from nightjar.models.manifest import Manifest
from nightjar.models.task_types import task_type
from nightjar.wire.errors import RemoteProtocolError, UnavailableError

State = dict[str, Any]
"""Keys: task, round (None if none is open), devices, rounds and versions (both ascending), counters."""

_API = "/api/v1"
_REPORTED = "reported"


def read_state(url: str) -> State | None:
    """The state of a coordinator's first task; None if it does not answer."""
    return state_from(lambda path: fetched(f"{url}{path}"))


def fetched(url: str, request: Callable[..., urllib3.BaseHTTPResponse] = urllib3.request) -> bytes | None:
    """What a coordinator answers; None for an error. ``request`` may be that of a pool with certificates."""
    try:
        answer = request("GET", url, timeout=5.0, retries=False)
    except urllib3.exceptions.HTTPError:
        return None
    return answer.data if answer.status == 200 else None


def state_from(fetch: Callable[[str], bytes | None]) -> State | None:
    """The state of a coordinator's first task; None if a request failed.

    ``fetch`` gives the body for a path, and None for an error.
    """
    try:
        task = _read(fetch, "/tasks")["items"][0]
        newest = _read(fetch, "/versions?limit=1000")["items"]
        versions = [version for version in reversed(newest) if version["task"] == task["name"]]
        manifest = Manifest.decode(fetch(f"/artifacts/{versions[-1]['manifest']}") or b"")
        return {
            "task": {
                "name": task["name"],
                "state": task["status"],
                "rounds_wanted": task["rounds_wanted"],
                "version": task["version"],
                "parameters": manifest.layout.size,
                "dense_bytes": 4 * manifest.layout.size,
                "figures": task_type(manifest.task_type).figures,
                "baseline": next(iter(_read(fetch, "/baselines")["items"]), None),
            },
            "round": None if task["round"] is None else _round(_read(fetch, f"/rounds/{task['round']}")),
            "devices": _read(fetch, "/devices?limit=200")["items"],
            "rounds": _read(fetch, "/rounds?limit=100")["items"][::-1],
            "versions": versions,
            "counters": _read(fetch, "/counters"),
        }
    except (LookupError, ValueError, RemoteProtocolError):
        return None


def artifact(url: str, sha256: str) -> bytes:
    """An artifact of the coordinator.

    Raises:
        UnavailableError: it cannot be fetched.
    """
    try:
        answer = urllib3.request("GET", f"{url}/artifacts/{sha256}", timeout=30.0, retries=2)
    except urllib3.exceptions.HTTPError as error:
        msg = f"cannot fetch artifact {sha256[:12]} from the coordinator: {error}"
        raise UnavailableError(msg) from error
    if answer.status != 200:
        msg = f"the coordinator answered {answer.status} for artifact {sha256[:12]}"
        raise UnavailableError(msg)
    return answer.data


def _read(fetch: Callable[[str], bytes | None], path: str) -> Any:
    return json.loads(fetch(_API + path) or b"")


def _round(detail: State) -> State:
    seats = detail["seats"]
    return detail | {
        "selected": [seat["device"] for seat in seats],
        "reported": [seat["device"] for seat in seats if seat["state"] == _REPORTED],
        "dropped": {seat["device"]: seat["cause"] for seat in seats if seat["cause"] is not None},
    }
