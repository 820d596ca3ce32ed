"""What is installed has a hash that the repository knows, wherever it is installed."""

import itertools
import re
import subprocess
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / "requirements"
NAMES = sorted(path.name for path in REQUIREMENTS.glob("*.txt"))
MACHINES = [
    {"python_version": python, "python_full_version": f"{python}.7", "platform_machine": machine, "extra": ""}
    for python, machine in itertools.product(("3.11", "3.12", "3.13"), ("x86_64", "aarch64"))
]
TOGETHER = [name for name in NAMES if name not in ("agent-tflite-runtime.txt", "tensorflow-gpu.txt")]


def requirements(name):
    lines = (line.partition("#")[0].strip() for line in (REQUIREMENTS / name).read_text().splitlines())
    return [Requirement(line) for line in lines if line]


def locked(name):
    """(requirement, hashes) of each package in a lock."""
    lines = (REQUIREMENTS / "locks" / name).read_text().replace("\\\n", " ").splitlines()
    parts = [re.split(r"\s+--hash=", line.strip()) for line in lines if not line.startswith("#")]
    return [(Requirement(wanted), hashes) for wanted, *hashes in parts]


def pins(name, machine):
    """The version of each package that a lock installs on a machine."""
    return {
        canonicalize_name(wanted.name): str(wanted.specifier).removeprefix("==")
        for wanted, _ in locked(name)
        if wanted.marker is None or wanted.marker.evaluate(machine)
    }


def machines_of(name):
    """tflite-runtime has wheels for Python 3.11 and earlier."""
    return [m for m in MACHINES if name != "agent-tflite-runtime.txt" or m["python_version"] == "3.11"]


@pytest.mark.parametrize("name", NAMES)
def test_every_requirement_is_met_by_its_lock_on_every_machine(name):
    for machine in machines_of(name):
        held = pins(name, machine)
        for wanted in requirements(name):
            if wanted.marker is None or wanted.marker.evaluate(machine):
                version = held.get(canonicalize_name(wanted.name))
                assert version in wanted.specifier if version else False, f"{wanted}: run 'make lock'"


@pytest.mark.parametrize("name", NAMES)
def test_every_line_of_a_lock_is_one_version_with_hashes_and_names_no_index(name):
    for wanted, hashes in locked(name):
        assert re.fullmatch(r"==[^*,]+", str(wanted.specifier)), wanted
        assert wanted.url is None
        assert hashes, wanted
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each.strip()) for each in hashes), wanted
    text = (REQUIREMENTS / "locks" / name).read_text()
    assert not re.search(r"://|--(extra-)?index|--find-links|--trusted-host", text)


def test_every_lock_has_its_requirements():
    assert sorted(path.name for path in (REQUIREMENTS / "locks").iterdir()) == NAMES


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: f"{m['platform_machine']}-{m['python_version']}")
def test_locks_that_are_installed_together_agree(machine):
    found = {}
    for name in TOGETHER:
        for package, version in pins(name, machine).items():
            assert found.setdefault(package, version) == version, f"{package} in {name}"


def commands_of_pip():
    """Each line of a script, and of the container's file, that has pip install or fetch something."""
    names = ["scripts/*.sh", ".ci/run", "deploy/Containerfile"]
    tracked = subprocess.run(["git", "ls-files", *names], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in tracked.stdout.split():
        for line in (ROOT / name).read_text().replace("\\\n", " ").splitlines():
            if re.search(r"\bpip\"? .*\b(install|download)\b", line) and not re.match(r"\s*(#|echo)", line):
                yield line


def test_whatever_pip_fetches_has_a_hash():
    found = list(commands_of_pip())
    assert len(found) >= 6
    for line in found:
        nothing_fetched = "--no-index" in line or "--no-build-isolation" in line
        assert nothing_fetched or "--require-hashes" in line or '"${locks[@]}"' in line, line
