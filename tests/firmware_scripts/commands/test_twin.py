import pytest

from nightjar.firmware_scripts.__main__ import run
from nightjar.firmware_scripts.core.exit_status import ExitStatus
from nightjar.firmware_scripts.image.tools import require
from nightjar.wire.errors import UnavailableError


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NIGHTJAR_CACHE", str(tmp_path / "cache"))


def test_boards_are_listed(capsys):
    assert run(["image", "--boards"]) == ExitStatus.DONE
    assert "virt-arm64" in capsys.readouterr().out


def test_a_bundle_goes_into_an_image_only_with_the_key_that_signed_it(capsys):
    assert run(["image", "--bundle", "x.tar"]) == ExitStatus.USAGE
    assert "--public-key" in capsys.readouterr().err


def test_a_lock_that_cannot_be_read_ends_before_anything_is_made(tmp_path, capsys):
    assert run(["image", "--lock", str(tmp_path / "none"), "-o", str(tmp_path / "a.img")]) == ExitStatus.USAGE
    assert not list(tmp_path.glob("a.img*"))


def test_a_twin_of_nothing_says_what_to_name(capsys):
    assert run(["twin"]) == ExitStatus.USAGE
    assert "nightjar-firmware image" in capsys.readouterr().err


def test_a_twin_of_a_file_that_is_not_there_says_so(tmp_path, capsys):
    assert run(["twin", str(tmp_path / "none.img")]) == ExitStatus.USAGE
    assert "there is no image" in capsys.readouterr().err
    assert not list((tmp_path / "cache").iterdir())


def test_the_plug_is_one_of_a_twin_that_runs(tmp_path, capsys):
    assert run(["twin", "--plug", "out"]) == ExitStatus.USAGE
    assert run(["twin", "--plug", "out", "--folder", str(tmp_path)]) == ExitStatus.UNAVAILABLE
    assert "does not answer" in capsys.readouterr().err


def test_a_missing_qemu_says_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(UnavailableError, match="apt install qemu-system-x86"):
        require("qemu-system-x86_64")
