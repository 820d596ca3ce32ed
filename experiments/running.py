"""Runs pages, in turn or side by side in processes of their own.

Not in ``__main__``, because a process that is spawned does not load that of a package.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context

from nightjar.experiments.frame import Request, ResultRow, run_page
from nightjar.wire.errors import ConfigError, UnavailableError


@dataclass(frozen=True, slots=True)
class Ended:
    """A page has ended, with an error or without, after so many seconds of the clock and of processors."""

    name: str
    fault: ConfigError | None
    wall_s: float
    processor_s: float


def run_pages(requests: Mapping[str, Request], jobs: int) -> Iterator[ResultRow | Ended]:
    """The rows of pages, each page followed by its end; with several jobs a page's rows come at its end.

    Args:
        requests: name of a page -> what to run.
        jobs: pages side by side, which begin in the given order.

    Raises:
        UnavailableError: a page's process was killed.
    """
    if jobs == 1:
        for name, request in requests.items():
            yield from _page(name, request)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        for done in as_completed([pool.submit(_whole_page, *each) for each in requests.items()]):
            try:
                yield from done.result()
            except BrokenProcessPool as error:
                msg = "a page's process was killed, by the kernel if memory ran out; try with fewer --jobs"
                raise UnavailableError(msg) from error


def _page(name: str, request: Request) -> Iterator[ResultRow | Ended]:
    fault, began_s, spent_s = None, time.monotonic(), _processor_s()
    try:
        yield from run_page(name, import_module(f"nightjar.experiments.{name}").run, request)
    except ConfigError as error:
        fault = error
    yield Ended(name, fault, time.monotonic() - began_s, _processor_s() - spent_s)


def _whole_page(name: str, request: Request) -> list[ResultRow | Ended]:
    return list(_page(name, request))


def _processor_s() -> float:
    """Of this process and of those that it waited for: user and system."""
    return sum(os.times()[:4])
