import os
import shutil
import zipfile

import pytest

from nightjar.firmware_scripts.bundle.wheelhouse import build_agent_wheel
from nightjar.firmware_scripts.device_program import PACKAGE
from nightjar.wire.errors import ConfigError


@pytest.fixture
def project(tmp_path):
    """A copy of the sources, so that nobody changes them between two builds."""
    copy = tmp_path / "project"
    shutil.copytree(PACKAGE, copy)  # follows the links
    return copy


@pytest.mark.slow
def test_the_agent_built_twice_is_the_same_file_and_holds_only_what_a_device_needs(tmp_path, project):
    built = []
    for name, umask in (("first", 0o022), ("second", 0o077)):
        folder = tmp_path / name
        folder.mkdir()
        own = os.umask(umask)
        try:
            build_agent_wheel(folder, project)
        finally:
            os.umask(own)
        (wheel,) = folder.iterdir()
        built.append(wheel)
        # Another time, another mode and mask: none may show.
        (project / "wire" / "errors.py").touch()
        (project / "wire" / "errors.py").chmod(0o600)
    assert built[0].read_bytes() == built[1].read_bytes()
    with zipfile.ZipFile(built[0]) as archive:
        names = archive.namelist()
        commands = archive.read(next(n for n in names if n.endswith("entry_points.txt"))).decode()
    assert {name.split("/")[0] for name in names if "dist-info" not in name} == {"nightjar", "edge_agent"}
    assert "nightjar/edge_agent/keyboard/static/icon.svg" in names
    assert sum(name.endswith("/seed_words.LICENSE.txt") for name in names) == 2  # beside the words, with the licenses
    assert "nightjar-agent" in commands
    assert "coordinator" not in commands
    assert {name for name in names if name.startswith("edge_agent/")} == {
        "edge_agent/__init__.py",
        "edge_agent/__main__.py",
    }
    others = ("nightjar/coordinator", "nightjar/firmware_scripts", "nightjar/models/pretrain")
    assert not {name for name in names if name.startswith(others)}


def test_a_folder_that_lacks_parts_is_told(tmp_path):
    with pytest.raises(ConfigError, match="no whole Nightjar"):
        build_agent_wheel(tmp_path, tmp_path)
