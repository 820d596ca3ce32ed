"""Shared by all tests: in CI a skipped test is a failure, because CI installs everything that a test may need."""

import os

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _skips_forbidden() and terminalreporter.stats.get("skipped"):
        terminalreporter.write_sep("!", "NIGHTJAR_NO_SKIPS is set and tests were skipped", red=True)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if _skips_forbidden() and exitstatus == 0 and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _skips_forbidden() -> bool:
    return os.environ.get("NIGHTJAR_NO_SKIPS") == "1"
