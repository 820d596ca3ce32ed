"""Shared by all tests: in CI a skipped test is a failure, because CI installs everything that a test may need.

What it cannot install are recorded data that may not be copied into the project, and rights that the machine does not
give; a test of those says so and skips.
"""

import os

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes is the machine's matter, and no fault of the code.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

RECORDED = "recorded data lie beside the checkout, not in it"
NOT_ALLOWED = "this machine or user may not"
"""In the reasons of skips that are allowed everywhere."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _skips_forbidden() and _skipped(terminalreporter):
        terminalreporter.write_sep("!", "NIGHTJAR_NO_SKIPS is set and tests were skipped", red=True)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if _skips_forbidden() and exitstatus == 0 and reporter is not None and _skipped(reporter):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _skipped(reporter: pytest.TerminalReporter) -> bool:
    skipped = [str(report.longrepr) for report in reporter.stats.get("skipped", [])]
    return any(RECORDED not in reason and NOT_ALLOWED not in reason for reason in skipped)


def _skips_forbidden() -> bool:
    return os.environ.get("NIGHTJAR_NO_SKIPS") == "1"
