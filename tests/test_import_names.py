"""Each module has one name, and nothing of the current folder is run."""

import ast
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest

from nightjar.coordinator.mqtt.free_ports import free_ports
from tests.coordinator.model_folder import write_model
from tests.coordinator.service_files import write_service
from tests.processes import end

ROOT = Path(__file__).parents[1]
PRODUCT = (
    "wire",
    "host",
    "models",
    "edge_agent",
    "coordinator",
    "simulation",
    "experiments",
    "benchmarks",
    "firmware_scripts",
)
# Every process that ends writes the names and files of its modules, in the folder that the variable names.
NOTES = """
import atexit, json, os, sys, uuid

@atexit.register
def note():
    files = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}
    with open(os.path.join(os.environ["MODULES"], uuid.uuid4().hex), "w") as out:
        json.dump([sys.argv, {name: os.path.realpath(file) for name, file in files.items() if file}], out)
"""


@pytest.fixture
def noting(tmp_path, monkeypatch):
    """Environment whose Python processes note their modules, and the function that reads the notes."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(NOTES)
    (tmp_path / "modules").mkdir()
    before = filter(None, [os.environ.get("PYTHONPATH")])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "site"), *before]))
    monkeypatch.setenv("MODULES", str(tmp_path / "modules"))

    def notes():
        return [json.loads(path.read_text()) for path in (tmp_path / "modules").iterdir()]

    return notes


def doubled(modules, short=()):
    """Files of ours with several names, but for __main__ and the packages that a short form names."""
    names = defaultdict(set)
    for name, file in modules.items():
        path = Path(file)
        if path.is_relative_to(ROOT) and not path.is_relative_to(ROOT / ".venv"):
            names[path].add(name)
    allowed = {ROOT.joinpath(*package.split("."), "__init__.py") for package in short}
    return {
        str(file): found
        for file, found in names.items()
        if file not in allowed and len(found - {"__main__", "__mp_main__"}) > 1
    }


def run(*command, cwd=ROOT):
    done = subprocess.run([sys.executable, *command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


COMMANDS = [
    "nightjar.edge_agent",
    "nightjar.coordinator",
    "nightjar.firmware_scripts",
    "nightjar.simulation",
    "nightjar.models",
    "nightjar.benchmarks",
    "nightjar.experiments",
]
SHORT = ["simulation demo", "simulation learn", "simulation rounds", "models export", "benchmarks.codec", "experiments"]


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize("command", [*COMMANDS, *SHORT])
def test_a_command_loads_no_module_twice(noting, command):
    module, *arguments = command.split()
    run("-m", module, *arguments, "--help")
    ((_, modules),) = noting()
    assert any(name.startswith("nightjar.") for name in modules)
    short = () if module.startswith("nightjar.") else (module.split(".")[0],)
    assert not doubled(modules, short)
    assert not [name for name in modules if name.split(".")[0] in PRODUCT and name not in short]


@pytest.mark.slow
@pytest.mark.tensorflow
def test_all_processes_of_a_model_export_load_no_module_twice(noting, tmp_path):
    run(
        "-m",
        "models",
        "export",
        "--model",
        "tiny-gru",  # no program of it is packaged, so it is converted in a process of its own
        "--corpus",
        "personas",
        "--passes",
        "0",
        "--out",
        str(tmp_path / "m"),
    )
    assert len(noting()) > 1
    for _, modules in noting():
        assert not doubled(modules, ("models",))


@pytest.mark.slow
def test_tests_load_no_module_twice(noting):
    run(
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/wire",
        "tests/edge_agent",
        "tests/coordinator",
    )
    (modules,) = [modules for argv, modules in noting() if "--collect-only" in argv]
    assert len([name for name in modules if name.startswith("nightjar.")]) > 30
    assert not doubled(modules)


def test_every_python_child_is_started_by_one_function():
    """Which keeps the current folder off its path; a program for a device's own Python is given as a file instead."""
    for package in PRODUCT:
        for path in (ROOT / package).rglob("*.py"):
            source = path.read_text()
            if path == ROOT / "host" / "children.py" or "executable" not in source:
                continue
            for node in ast.walk(ast.parse(source)):
                if (
                    isinstance(node, ast.Attribute)
                    and node.attr == "executable"
                    and ast.unparse(node) == "sys.executable"
                ):
                    line = source.splitlines()[node.lineno - 1]
                    assert " -P " in line or " -s " in line or 'str(pip / "pip")' in line, f"{path}:{node.lineno}"


@pytest.fixture
def trapped(tmp_path):
    """A folder with files that a child would run if the current folder were on its path."""
    folder = tmp_path / "trap"
    folder.mkdir()
    trap = f"open({str(tmp_path / 'sprung')!r}, 'a').write(__name__ + ' ')\n"
    for name in (
        "host",
        "wire",
        "nightjar",
        "json",
        "signal",
        "click",
        "msgspec",
        "numpy",
        "pip",
        "tensorflow",
        "queue",
    ):
        (folder / f"{name}.py").write_text(trap)
    for name in ("coordinator", "models", "edge_agent"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(trap)
    return folder


def sprung(folder):
    path = folder.parent / "sprung"
    return path.read_text() if path.exists() else ""


PROGRAMS = Path(sys.executable).parent


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.tensorflow
def test_nothing_beside_a_configuration_is_run(trapped):
    """The service with its authority, broker and worker; then doctor and an agent; each with its children."""
    write_model(trapped / "model")
    port, broker_port = free_ports(2)
    lines = [f"port = {port}", 'data_dir = "data"', "[broker]", 'kind = "embedded"', f"port = {broker_port}"]
    write_service(trapped, lines)

    tracebacks = []

    def program(name, *arguments):
        done = subprocess.run([PROGRAMS / name, *arguments], cwd=trapped, capture_output=True, text=True, check=False)
        tracebacks.extend([done.stderr] if "Traceback" in done.stderr else [])

    log = trapped / "log"
    with log.open("wb") as out:
        command = [PROGRAMS / "nightjar-coordinator", "serve", "--config", "coordinator.toml"]
        service = subprocess.Popen(command, cwd=trapped, stdout=out, stderr=out)
    try:
        deadline_s = time.monotonic() + 100
        while "broker_connected" not in log.read_text() and service.poll() is None and time.monotonic() < deadline_s:
            time.sleep(0.1)
        connected = "broker_connected" in log.read_text()
        program("nightjar-coordinator", "enrol-token", "create", "d", "--config", "coordinator.toml", "--device", "d")
    finally:
        end(service, 30)
    program("nightjar-coordinator", "doctor", "--config", "coordinator.toml")
    (trapped / "agent.toml").write_text('device = "d"\ndata_dir = "agent"\n')
    program("nightjar-agent", "self-test", "--config", "agent.toml")
    program("nightjar-agent", "doctor", "--config", "agent.toml")
    program("nightjar-firmware", "targets")
    assert (sprung(trapped), connected, tracebacks) == ("", True, []), log.read_text()


def test_a_public_class_has_a_name_of_its_own_but_for_ports_and_what_both_sides_have():
    packages = defaultdict(set)
    for package in PRODUCT:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    packages[node.name].add(package)
    shared = {name for name, where in packages.items() if len(where) > 1}
    assert shared == {"Clock", "Database", "Driver", "Transport", "Worker"}
