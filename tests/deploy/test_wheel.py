"""The wheel of everything: what it holds, what it says of itself, and that an agent works from it."""

import email.parser
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest

from nightjar import coordinator, edge_agent, firmware_scripts
from tests.deploy.installed import ROOT, copy_tracked, make_environment, make_wheel, tracked
from tests.firmware_scripts.parcels import HERE

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SHIPPED = {"wire", "host", "models", "edge_agent", "coordinator", "firmware_scripts", "simulation", "requirements"}
PYTHON_AND_DATA = {".py", ".html", ".css", ".js", ".toml", ".mako", ".conf", ".service", ".yaml", ".sh", ".svg", ".txt"}
EXTRAS = {"agent", "coordinator", "firmware", "simulation", "all", "images", "jax", "ray", "s3", "dev"}

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return copy_tracked(tmp_path_factory.mktemp("wheel") / "source")


@pytest.fixture(scope="module")
def wheel(source):
    return make_wheel(source, source.parent / "dist")


@pytest.fixture(scope="module")
def installed(wheel):
    """The wheel in an environment of its own; the function runs a command there, in an empty folder."""
    environment, empty = wheel.parents[1] / "environment", wheel.parents[1] / "empty"
    empty.mkdir()
    packages = make_environment(environment, wheel)

    def run(*command, without=()):
        for name in without:  # as if it was not installed
            (packages / name).mkdir(parents=True)
            (packages / name / "__init__.py").write_text(
                f"raise ModuleNotFoundError('No module named {name}', name={name!r})"
            )
        try:
            return subprocess.run(
                [environment / "bin" / "python", *command],
                cwd=empty,
                env={"PATH": os.environ["PATH"], "HOME": str(empty)},
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            for name in without:
                shutil.rmtree(packages / name)

    run.packages, run.programs = packages, environment / "bin"
    run.folder = empty
    return run


def test_the_versions_agree():
    versions = {coordinator.__version__, edge_agent.__version__, firmware_scripts.__version__, PROJECT["version"]}
    assert len(versions) == 1


def test_it_holds_each_package_with_its_data_under_one_name_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {f"nightjar/{name}" for name in tracked(*SHIPPED) if Path(name).suffix in PYTHON_AND_DATA}
    assert {name.split("/")[0] for name in names} == {"nightjar"}
    assert {name.split("/")[1] for name in names if name.count("/") > 1} == SHIPPED
    assert expected <= names


def test_the_source_distribution_is_the_checkout(source):
    """So its own tests run; the links of nightjar/ are links there, too."""
    code = "import sys, setuptools.build_meta as build; print(build.build_sdist(sys.argv[1]))"
    dist = source.parent / "sdist"
    done = subprocess.run([sys.executable, "-c", code, dist], cwd=source, capture_output=True, text=True, check=True)
    with tarfile.open(dist / done.stdout.split()[-1]) as archive:
        held = {member.name.partition("/")[2]: member for member in archive.getmembers()}
    assert set(tracked()) - set(held) == set()
    assert {name for name in held if (ROOT / name).is_symlink()} == {
        name for name, each in held.items() if each.issym()
    }


def test_it_says_what_it_is(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        said = email.parser.Parser().parsestr(
            archive.read(next(name for name in names if name.endswith("/METADATA"))).decode()
        )
    assert wheel.name == f"nightjar_federated-{PROJECT['version']}-py3-none-any.whl"
    assert said["Name"] == "nightjar-federated"
    assert said["License-Expression"] == "Apache-2.0"
    assert set(said.get_all("Provides-Extra")) == EXTRAS
    assert any(
        "paho-mqtt" in line and "extra == 'agent'" in line.replace('"', "'") for line in said.get_all("Requires-Dist")
    )
    assert any(name.endswith("/LICENSE") for name in names)
    # The MIT license of the words of wallets stands beside them, and with the licenses.
    assert sum(name.endswith("/seed_words.LICENSE.txt") for name in names) == 2


@pytest.mark.tflite
def test_every_command_runs_from_it_in_an_empty_folder(installed):
    for command, module in (("nightjar-agent", "edge_agent"), ("nightjar-coordinator", "coordinator")):
        program = installed.programs / command
        assert installed(program, "--version").stdout.split()[-1] == PROJECT["version"]
        assert installed("-m", f"nightjar.{module}", "--version").stdout.split()[-1] == PROJECT["version"]
    where = installed("-c", "from nightjar import edge_agent; print(edge_agent.__file__)").stdout
    assert where.startswith(str(installed.packages))
    for command in (
        "simulation learn",
        "simulation demo",
        "simulation rounds",
        "models export",
        "firmware_scripts bundle",
    ):
        module, name = command.split()
        done = installed("-m", f"nightjar.{module}", name, "--help")
        assert done.returncode == 0, done.stderr
    example = (installed.packages / "nightjar" / "edge_agent" / "example.toml").read_text()
    (installed.folder / "agent.toml").write_text(example)
    conditions = installed(installed.programs / "nightjar-agent", "conditions", "--config", "agent.toml")
    assert "charging" in conditions.stdout, conditions.stderr


@pytest.mark.parametrize(
    ("command", "missing", "extra"),
    [
        ("nightjar-agent", "click", "agent"),
        ("nightjar-coordinator", "click", "coordinator"),
        ("nightjar-firmware", "rich", "firmware"),
    ],
)
def test_a_package_that_is_missing_is_told_with_its_extra(installed, command, missing, extra):
    done = installed(installed.programs / command, "--help", without=[missing])
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"nightjar-federated[{extra}]" in done.stderr
    assert missing in done.stderr


def test_a_laboratory_without_its_extra_is_told(installed):
    done = installed("-m", "nightjar.simulation", "learn", "--help", without=["matplotlib"])
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "nightjar-federated[simulation]" in done.stderr


def test_a_bundle_is_made_from_it(installed, tmp_path):
    """Locks, units and sources are in the package; the packages of others are left out here."""
    firmware = installed.programs / "nightjar-firmware"
    made = installed(firmware, "bundle-key", "key")
    assert made.returncode == 0, made.stderr
    (tmp_path / "wheels").mkdir()
    options = ("--platform", HERE, "--key", "key.key", "--wheels", str(tmp_path / "wheels"), "--output", str(tmp_path))
    done = installed(firmware, "bundle", *options)
    assert done.returncode == 0, done.stderr
    (bundle,) = tmp_path.glob("*.tar")
    with tarfile.open(bundle) as archive:
        names = archive.getnames()
    assert any(name.endswith("/device/nightjar-device.pyz") for name in names)
    assert any(fnmatch(name, "*/wheels/nightjar_federated-*.whl") for name in names)
