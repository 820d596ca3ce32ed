"""Hosts as network namespaces of this machine; a test without the right to make them is skipped."""

import contextlib
from collections.abc import Iterator

import pytest

from nightjar.experiments.silos.hosts import Namespace as Host
from nightjar.experiments.silos.hosts import namespaces
from nightjar.wire.errors import UnavailableError
from tests.skips import NOT_ALLOWED


@contextlib.contextmanager
def hosts(count: int) -> Iterator[list[Host]]:
    with contextlib.ExitStack() as stack:
        try:
            made = stack.enter_context(namespaces(count))
        except UnavailableError as error:
            pytest.skip(f"{NOT_ALLOWED} make network namespaces: {error}")
        yield made
