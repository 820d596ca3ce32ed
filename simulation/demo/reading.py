"""What the coordinator's API says of a run: the task, its open round, devices, rounds, versions and counters.

Several requests, so the parts may be of slightly different moments; a version that the task names is always among the
versions.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import urllib3

from models.manifest import Manifest
from wire.errors import RemoteProtocolError

State = dict[str, Any]
"""The keys are task, round (None between two), devices, rounds and versions (both ascending), counters."""

_API = "/api/v1"
_REPORTED = "reported"


def read_state(url: str) -> State | None:
    """The state of a coordinator's first task, or None while it does not answer."""

    def fetch(path: str) -> bytes | None:
        try:
            answer = urllib3.request("GET", f"{url}{path}", timeout=5.0, retries=False)
        except urllib3.exceptions.HTTPError:
            return None
        return answer.data if answer.status == 200 else None

    return state_from(fetch)


def state_from(fetch: Callable[[str], bytes | None]) -> State | None:
    """The same by any means.

    Args:
        fetch: path -> body, or None if there is no good answer.

    Returns:
        None if anything did not answer.
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


def _read(fetch: Callable[[str], bytes | None], path: str) -> Any:
    return json.loads(fetch(_API + path) or b"")


def _round(detail: State) -> State:
    seats = detail["seats"]
    return detail | {
        "selected": [seat["device"] for seat in seats],
        "reported": [seat["device"] for seat in seats if seat["state"] == _REPORTED],
        "dropped": {seat["device"]: seat["cause"] for seat in seats if seat["cause"] is not None},
    }
