"""The packages of a small bundle: made, unpacked, and what dpkg would run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from nightjar.firmware_scripts.bundle.making import make_bundle
from nightjar.firmware_scripts.bundle.platforms import platform_named
from nightjar.firmware_scripts.bundle.signing import load_private_key
from nightjar.firmware_scripts.commands.bundle import model_of_bundle
from nightjar.firmware_scripts.device_program import device_files
from nightjar.wire.errors import ConfigError
from tests.edge_agent.fakes import write_model
from tests.firmware_scripts.bundle.wheels import make_wheel
from tests.firmware_scripts.parcels import PROJECT, keys

pytestmark = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is not installed: apt install dpkg")
MODEL = {"model/manifest.json": b"{}", "model/weights.bin": b"weights"}


def bundle(folder, model=MODEL, engine=True):
    house = folder / "house"
    house.mkdir(parents=True)
    sources = [PROJECT / "nightjar/__init__.py", PROJECT / "nightjar/edge_agent/__init__.py"]
    sources += sorted((PROJECT / "edge_agent/desktop").glob("*.py")) if engine else []
    names = {path: path.relative_to(PROJECT).as_posix().removeprefix("nightjar/") for path in sources}
    more = {f"nightjar/{name}": path.read_text() for path, name in names.items()}
    make_wheel(house, "nightjar-federated", "0.1.0", more=more)
    private, _ = keys(folder)
    platform, files = platform_named("trixie-aarch64"), device_files() | model
    return make_bundle(platform, house, files, load_private_key(private), folder)


def deb(made, output, status=0):
    command = [sys.executable, "-m", "nightjar.firmware_scripts", "deb", str(made), "--public-key"]
    key = made.parent / "fleet.pub"
    done = subprocess.run(
        [*command, str(key), "--output", str(output)], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


def told(path, *arguments):
    done = subprocess.run(["dpkg-deb", *arguments, str(path)], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packages")
    deb(bundle(folder / "a"), folder / "debs")
    return folder / "debs"


@pytest.fixture(scope="module")
def unpacked(made, tmp_path_factory):
    root = tmp_path_factory.mktemp("root")
    for path in made.iterdir():
        subprocess.run(["dpkg-deb", "-x", str(path), str(root)], check=True)
    return root


def test_both_packages_have_the_names_that_apt_is_given(made):
    names = sorted(path.name for path in made.iterdir())
    assert names == ["nightjar-agent_0.1.0_arm64.deb", "nightjar-ibus_0.1.0_all.deb"]
    fields = told(made / "nightjar-agent_0.1.0_arm64.deb", "--field")
    assert "Depends: python3 (>= 3.13), python3 (<< 3.14), libc6 (>= 2.41), libstdc++6" in fields
    fields = told(made / "nightjar-ibus_0.1.0_all.deb", "--field")
    assert "Depends: nightjar-agent (= 0.1.0), python3, python3-gi, gir1.2-ibus-1.0, ibus" in fields


def test_the_same_bundle_gives_the_same_bytes(made, tmp_path):
    deb(made.parent / "a/nightjar-0.1.0-trixie-aarch64.tar", tmp_path)
    for path in made.iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()


def test_files_are_roots_and_lie_only_where_packages_may_write(made):
    listed = [line.split() for path in made.iterdir() for line in told(path, "--contents").splitlines()]
    assert {line[1] for line in listed} == {"root/root"}
    files = [line[5].removeprefix("./") for line in listed if not line[5].endswith("/")]
    assert {"/".join(path.split("/")[:2]) for path in files} == {"usr/bin", "usr/lib", "usr/libexec", "usr/share"}
    assert "usr/share/nightjar/model/weights.bin" in files
    assert "usr/lib/nightjar/lib/nightjar/edge_agent/desktop/engine.py" in files


def test_ibus_is_told_of_an_engine_that_is_installed(unpacked):
    component = ElementTree.parse(unpacked / "usr/share/ibus/component/nightjar.xml").getroot()
    command, argument = component.findtext("exec").split()
    assert argument == "--ibus"
    assert os.access(unpacked / command.lstrip("/"), os.X_OK)
    assert component.findtext("engines/engine/name") == "nightjar"


def test_the_settings_are_those_of_an_agent_that_connects_to_nobody(unpacked, monkeypatch, tmp_path):
    from nightjar.edge_agent.config import load

    monkeypatch.setenv("HOME", str(tmp_path))
    config = load(unpacked / "usr/share/nightjar/desk.toml", {})
    assert not config.connects
    assert config.data_dir == tmp_path / ".local/share/nightjar"
    assert config.keyboard.model == Path("/usr/share/nightjar/model")


@pytest.mark.parametrize(
    ("environment", "settings", "data"),
    [
        ({}, "/usr/share/nightjar/desk.toml", ""),
        ({"XDG_DATA_HOME": "/d"}, "/usr/share/nightjar/desk.toml", "/d/nightjar"),
        ({"XDG_CONFIG_HOME": "HOME/own"}, "HOME/own/nightjar/agent.toml", ""),
        ({"NIGHTJAR_SETTINGS": "/else.toml"}, "/else.toml", ""),
    ],
)
def test_the_command_takes_the_persons_own_settings(unpacked, tmp_path, environment, settings, data):
    own = tmp_path / "own/nightjar"
    own.mkdir(parents=True)
    (own / "agent.toml").touch()
    # In the place of Python: what the command would be run with.
    shown = tmp_path / "env"
    shown.write_text('#!/bin/sh\necho "$1|$2|$3|${NIGHTJAR_AGENT_DATA_DIR:-}|$6 $7"\n')
    shown.chmod(0o755)
    given = {name: value.replace("HOME", str(tmp_path)) for name, value in environment.items()}
    done = subprocess.run(
        [unpacked / "usr/bin/nightjar-agent", "status"],
        env={"HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}", **given},
        capture_output=True,
        text=True,
        check=True,
    )
    expected = settings.replace("HOME", str(tmp_path))
    assert done.stdout.startswith(
        f"NIGHTJAR_SETTINGS={expected}|PYTHONPATH=/usr/lib/nightjar/lib|/usr/bin/python3|{data}|-m nightjar.edge_agent"
    )


def test_a_bundle_without_a_model_or_an_engine_is_refused_in_words(tmp_path):
    said = deb(bundle(tmp_path / "a", model={}), tmp_path / "debs", status=2)
    assert "no model" in said
    assert "--model FOLDER" in said
    said = deb(bundle(tmp_path / "b", engine=False), tmp_path / "debs", status=2)
    assert "no engine for IBus" in said
    assert not (tmp_path / "debs").exists(), "half of the packages is of no use"


def test_a_bundle_of_another_key_is_refused(tmp_path):
    made = bundle(tmp_path / "a")
    (tmp_path / "a/fleet.pub").write_bytes(keys(tmp_path, "other")[1].read_bytes())
    assert "not signed" in deb(made, tmp_path / "debs", status=1)
    assert not (tmp_path / "debs").exists()


def test_a_model_that_is_not_whole_does_not_get_into_a_bundle(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    with pytest.raises(ConfigError, match="export"):
        model_of_bundle(folder)
    found = write_model(folder)
    (folder / "manifest.json").write_bytes((folder / found.sha256).read_bytes())
    names = {path.name for path in (found.program, found.weights, found.vocabulary)}
    assert set(model_of_bundle(folder)) == {f"model/{name}" for name in {*names, "manifest.json"}}
    found.weights.write_bytes(b"another")
    with pytest.raises(ConfigError, match="1 of the files"):
        model_of_bundle(folder)


def test_the_scripts_of_dpkg_are_sound(made, tmp_path):
    subprocess.run(["dpkg-deb", "-e", str(made / "nightjar-agent_0.1.0_arm64.deb"), str(tmp_path / "c")], check=True)
    for path in (tmp_path / "c").iterdir():
        if path.name != "control" and path.name != "md5sums":
            subprocess.run(["sh", "-n", str(path)], check=True)
            assert "set -e" in path.read_text()
    said = subprocess.run(["sh", tmp_path / "c/postrm", "remove"], capture_output=True, text=True, check=True).stdout
    assert ".local/share/nightjar" in said
