"""The wheel of everything: what it holds, what it says of itself, and that an agent works from it."""

import email.parser
import os
import shutil
import site
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import coordinator
import edge_agent
import firmware_scripts

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SHIPPED = {"wire", "host", "models", "edge_agent", "coordinator", "firmware_scripts", "simulation"}
PYTHON_AND_DATA = {".py", ".html", ".css", ".js", ".toml", ".mako", ".conf", ".service", ".yaml", ".sh", ".svg", ".txt"}

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy of what is tracked, as somebody builds it who has just cloned the project."""
    folder = tmp_path_factory.mktemp("wheel")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, tracked.split("\0")):
        if name.split("/")[0] not in {"tests", "docs"} and (ROOT / name).is_file():
            (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / "source" / name)
    build = ["wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", folder / "dist"]
    subprocess.run([sys.executable, "-m", "pip", *build, folder / "source"], check=True)
    (made,) = (folder / "dist").iterdir()
    return made


def test_the_versions_agree():
    versions = {coordinator.__version__, edge_agent.__version__, firmware_scripts.__version__, PROJECT["version"]}
    assert len(versions) == 1


def test_it_holds_each_package_with_its_data_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    tracked = subprocess.run(["git", "ls-files", *SHIPPED], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    expected = {name for name in tracked.splitlines() if Path(name).suffix in PYTHON_AND_DATA}
    assert {name.split("/")[0] for name in names} == SHIPPED
    assert expected <= names


def test_it_says_what_it_is(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        said = email.parser.Parser().parsestr(
            archive.read(next(name for name in names if name.endswith("/METADATA"))).decode()
        )
    assert wheel.name == f"nightjar_federated-{PROJECT['version']}-py3-none-any.whl"
    assert said["Name"] == "nightjar-federated"
    assert said["License-Expression"] == "Apache-2.0"
    assert set(said.get_all("Provides-Extra")) == {
        "agent",
        "coordinator",
        "firmware",
        "images",
        "jax",
        "ray",
        "s3",
        "dev",
    }
    assert any(
        "paho-mqtt" in line and "extra == 'agent'" in line.replace('"', "'") for line in said.get_all("Requires-Dist")
    )
    assert any(name.endswith("/LICENSE") for name in names)


@pytest.mark.tflite
def test_an_agent_that_is_installed_from_it_works(wheel, tmp_path):
    """In an environment of its own, which sees the packages of this one but no checkout."""
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False)
    packages = next((environment / "lib").glob("python3*/site-packages"))
    install = ["install", "--quiet", "--no-deps", "--no-index", "--target", packages, wheel]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True)
    (packages / "others.pth").write_text("\n".join(site.getsitepackages()))

    def run(*arguments: str, command: str = "edge_agent") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [environment / "bin" / "python", "-I", "-m", command, *arguments],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )

    where = subprocess.run(
        [environment / "bin" / "python", "-I", "-c", "import edge_agent; print(edge_agent.__file__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert where.startswith(str(packages))
    assert run("--version").stdout.split()[-1] == PROJECT["version"]
    configuration = packages / "edge_agent" / "example.toml"
    (tmp_path / "agent.toml").write_text(configuration.read_text())
    conditions = run("conditions", "--config", "agent.toml")
    assert "charging" in conditions.stdout, conditions.stderr
    assert (packages / "bin" / "nightjar-agent").is_file()
    assert run("--version", command="coordinator").stdout.split()[-1] == PROJECT["version"]
