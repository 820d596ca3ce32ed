"""Shared by all tests: in CI a skipped test is a failure, because CI installs everything that a test may need.

The exceptions are listed by name in tests/skips.py, and counted at the end of each run.
"""

import nightjar.host.one_thread  # noqa: F401, I001 - before numpy, as in an agent; the same sums in every process

import gc
import os
import re
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.notify_socket import line  # noqa: F401 - a fixture of all
from tests.side_by_side import in_good_order
from tests.skips import Skips, skipped_names, sort_skips

# How long an example takes is the machine's matter, and no fault of the code.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
IN_CI = os.environ.get("CI") == "true" or os.environ.get("NIGHTJAR_NO_SKIPS") == "1"
# In CI the same examples come each time: a red run is the fault of the change, and can be repeated.
settings.register_profile("ci", settings.get_profile("any machine"), derandomize=True)
settings.load_profile("ci" if IN_CI else "any machine")

SKIPPED = Path(os.environ["NIGHTJAR_SKIPPED"]).absolute() if "NIGHTJAR_SKIPPED" in os.environ else None
"""Gets the names of the tests that were skipped, for another run."""
ONLY = Path(os.environ["NIGHTJAR_ONLY"]).absolute() if "NIGHTJAR_ONLY" in os.environ else None
"""Names of the only tests to run, in their usual order: some tests of a module go on where others ended."""

# A shell's background job (`make test &`) and nohup ignore SIGINT, and so would every child that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_make_parametrize_id(val: object) -> str | None:
    """A length in place of a long parameter: a name of megabytes would go between processes several times a test."""
    return f"{len(val)} {type(val).__name__}" if isinstance(val, bytes | str) and len(val) > 60 else None


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if ONLY is not None:
        wanted = set(ONLY.read_text().splitlines())
        items[:] = [item for item in items if wanted & {item.nodeid, item.nodeid.partition("::")[0]}]
    items[:] = in_good_order(items)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Without garbage collection: what is made here stays, and a quarter of the time went into looking at it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the ends of the logs that a failed test's processes left: on another machine they are all there is."""
    report = yield
    folder = getattr(item, "funcargs", {}).get("tmp_path")
    if report.failed and folder is not None:
        for log in sorted(each for each in folder.rglob("*.log") if each.is_file()):
            report.sections.append((f"{log.relative_to(folder)} at its end", log.read_text(errors="replace")[-3000:]))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skips = _skips(terminalreporter)
    if skips.allowed:
        terminalreporter.write_sep("-", f"{len(skips.allowed)} skipped that may be (tests/skips.py)")
        terminalreporter.write_line("\n".join(skips.allowed))
    if _skips_forbidden() and skips.forbidden:
        terminalreporter.write_sep("!", f"NIGHTJAR_NO_SKIPS is set, and {len(skips.forbidden)} were skipped", red=True)
        terminalreporter.write_line("\n".join(f"{name}: {reason}" for name, reason in skips.forbidden))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    # With pytest-xdist only the process that has the reporter sees all tests; its workers have none.
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if SKIPPED is not None and reporter is not None:
        SKIPPED.write_text("".join(f"{name}\n" for name in skipped_names(reporter.stats.get("skipped", []))))
    if _skips_forbidden() and exitstatus == 0 and reporter is not None and _skips(reporter).forbidden:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _skips(reporter: pytest.TerminalReporter) -> Skips:
    skipped = reporter.stats.get("skipped", [])
    return sort_skips(
        (
            re.split(r"[\[@]", report.nodeid)[0],  # without parameters, and the group that pytest-xdist adds
            report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr),
        )
        for report in skipped
    )


def _skips_forbidden() -> bool:
    return os.environ.get("NIGHTJAR_NO_SKIPS") == "1"
