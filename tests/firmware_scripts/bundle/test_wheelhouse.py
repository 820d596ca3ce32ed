import shutil
import zipfile

import pytest

from firmware_scripts.bundle.wheelhouse import build_agent_wheel
from firmware_scripts.commands.bundle import PROJECT
from wire.errors import ConfigError


@pytest.fixture
def project(tmp_path):
    """A copy of the sources, so that nobody changes them between two builds."""
    copy = tmp_path / "project"
    copy.mkdir()
    for name in ("wire", "host", "models", "edge_agent", "requirements"):
        shutil.copytree(PROJECT / name, copy / name)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, copy)
    return copy


@pytest.mark.slow
def test_the_agent_built_twice_is_the_same_file_and_holds_only_what_a_device_needs(tmp_path, project):
    built = []
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        build_agent_wheel(project, folder)
        (wheel,) = folder.iterdir()
        built.append(wheel)
        # Another time, another mode: neither may show.
        (project / "wire" / "errors.py").touch()
        (project / "wire" / "errors.py").chmod(0o600)
    assert built[0].read_bytes() == built[1].read_bytes()
    with zipfile.ZipFile(built[0]) as archive:
        names = archive.namelist()
        commands = archive.read(next(n for n in names if n.endswith("entry_points.txt"))).decode()
    assert {name.split("/")[0] for name in names if "dist-info" not in name} == {"wire", "host", "models", "edge_agent"}
    assert "edge_agent/keyboard/static/icon.svg" in names
    assert "nightjar-agent" in commands
    assert "coordinator" not in commands


def test_a_folder_that_is_no_checkout_is_told(tmp_path):
    with pytest.raises(ConfigError, match="no checkout"):
        build_agent_wheel(tmp_path, tmp_path)
