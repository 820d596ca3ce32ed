import json
import sys

import pytest
import structlog

from nightjar.coordinator.__main__ import main
from tests.coordinator.commands.site import Site


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs the command line as a shell would: (exit status, stdout, stderr)."""

    def run_command(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["nightjar-coordinator", *map(str, arguments)])
        try:
            main()
            status = 0
        except SystemExit as error:
            status = error.code
        finally:
            structlog.reset_defaults()  # 'serve' logs to this test's standard error
        output = capsys.readouterr()
        return status, output.out, output.err

    return run_command


@pytest.fixture
def ask(run, site):
    """Runs a command on the site with --json; its document."""

    def ask_command(*arguments: object) -> object:
        status, out, err = run(*arguments, "--config", site.config, "--json")
        assert status == 0, err
        return json.loads(out)

    return ask_command
