"""A run without a test that should have run is no green run: with pytest itself, alone and with workers."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.skips import MAY_BE_SKIPPED, NOT_ALLOWED, sort_skips

ROOT = Path(__file__).parents[1]
NAME = "tests/edge_agent/shell/test_folder.py::test_somebody_elses_folder_is_refused"
PROJECT = {
    "tests/edge_agent/shell/test_folder.py": f"""
import pytest

pytestmark = pytest.mark.slow
@pytest.fixture(scope="module")
def shared():
    pass
def test_somebody_elses_folder_is_refused(shared):
    pytest.skip("{NOT_ALLOWED} chown")
def test_other():
    pass
""",
    "tests/test_more.py": """
import pytest
def test_that_needs_a_program():
    pytest.skip("no adb")
""",
}


def test_each_name_on_the_list_is_a_test():
    for name in MAY_BE_SKIPPED:
        path, test = name.split("::")
        assert f"def {test}(" in (ROOT / path).read_text(), name


def test_a_listed_test_may_not_be_skipped_for_another_reason():
    assert sort_skips([(NAME, "Skipped: no adb")]).forbidden == ((NAME, "Skipped: no adb"),)
    assert sort_skips([(NAME, f"Skipped: {NOT_ALLOWED} chown")]).allowed == (NAME,)


def run(folder, files, *arguments, **environment):
    (folder / "tests").mkdir()
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    for path in (ROOT / "tests").glob("*.py"):
        if not path.name.startswith("test_"):
            (folder / "tests" / path.name).write_text(path.read_text())
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(PROJECT[name])
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", folder, *arguments, "tests"]
    rest = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    for name in ("NIGHTJAR_SKIPPED", "NIGHTJAR_ONLY"):
        rest.pop(name, None)
    rest |= {"PYTHONPATH": str(folder), "NIGHTJAR_NO_SKIPS": "1", **environment}
    return subprocess.run(command, cwd=folder, env=rest, capture_output=True, text=True, check=False)


WORKERS = pytest.param(
    ("-n", "2", "--dist", "loadgroup"),
    id="workers",
    marks=pytest.mark.skipif(importlib.util.find_spec("xdist") is None, reason="pytest-xdist is not installed"),
)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [pytest.param((), id="alone"), WORKERS])
def test_a_skip_that_is_not_listed_fails_the_run_and_both_kinds_are_named(tmp_path, arguments):
    done = run(tmp_path, PROJECT, *arguments)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "NIGHTJAR_NO_SKIPS is set, and 1 were skipped" in done.stdout
    assert "test_that_needs_a_program: Skipped: no adb" in done.stdout
    assert "1 skipped that may be" in done.stdout
    assert f"\n{NAME}\n" in done.stdout


@pytest.mark.slow
def test_with_listed_skips_only_the_run_is_green(tmp_path):
    done = run(tmp_path, list(PROJECT)[:1])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 skipped that may be" in done.stdout
