"""What the processes of one run share (pytest-xdist): who runs which tests, and what is made once for all of them."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path

import pytest

_LONGEST_S = 900
"""What a test that takes minutes on a quiet machine allows itself, beside whatever else runs."""


def in_good_order(items: list[pytest.Item]) -> list[pytest.Item]:
    """The longest tests first, then slow ones, so that none is the last on its own; who shares something, together."""
    for item in items:
        shared = _shares(item)
        if shared:
            item.add_marker(pytest.mark.xdist_group(shared))
    return sorted(
        items,
        key=lambda item: (
            not _takes_minutes(item),
            item.get_closest_marker("slow") is None and not _in_tensorflow(item),
            item.get_closest_marker("long") is None,
        ),
    )


def _takes_minutes(item: pytest.Item) -> bool:
    timeout = item.get_closest_marker("timeout")
    return timeout is not None and timeout.args[0] >= _LONGEST_S


def _shares(item: pytest.Item) -> str:
    """The name of what this test shares with others: a module's fixtures, a database server, or TensorFlow."""
    fixtures = item._fixtureinfo.name2fixturedefs  # pytest has no public way to ask for a fixture's scope
    if "postgresql_server" in fixtures:
        return "postgresql"
    if _in_tensorflow(item):
        return "tensorflow"
    scopes = {definitions[-1].scope for name, definitions in fixtures.items() if definitions}
    return item.nodeid.split("::")[0] if scopes & {"module", "package"} else ""


def _in_tensorflow(item: pytest.Item) -> bool:
    """Whether a test imports TensorFlow, and converts programs, in its own process: six seconds, and ten for each."""
    here = ("tests/models/", "tests/edge_agent/core/")  # elsewhere it is in processes of their own
    return item.get_closest_marker("tensorflow") is not None and item.nodeid.startswith(here)


def made_once(tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder that the first process of a run to ask for it fills; others wait for it.

    Args:
        name: of the folder, the same in all processes.
        make: fills it; given the empty folder.
    """
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if base.name.startswith("popen-") else base) / name
    with shared.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ready = shared / ".ready"
        if not ready.exists():
            shared.mkdir()
            make(shared)
            ready.touch()
    return shared
