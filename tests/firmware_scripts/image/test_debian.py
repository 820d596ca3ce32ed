import io
import tarfile

import pytest

from nightjar.firmware_scripts.image import debian
from nightjar.firmware_scripts.image.debian import (
    Package,
    cached_name,
    check_numbers,
    format_packages,
    parse_packages,
    root_file_system,
)
from nightjar.firmware_scripts.image.making import recipe_of
from nightjar.firmware_scripts.image.tools import cache_folder, require
from nightjar.firmware_scripts.sbom import image_sbom
from nightjar.host import programs
from nightjar.wire.errors import ConfigError, UnavailableError

STATUS = b"""Package: dash
Status: install ok installed
Architecture: amd64
Version: 0.5.12-2
Description: shell
 more: of it

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1
"""
KERNEL = b"linux-image-6.1\t6.1-1\tamd64\n"
PACKAGES = (Package("dash", "0.5.12-2", "amd64"), Package("linux-image-6.1", "6.1-1", "amd64"))


def cached(folder, lock=()):
    recipe = recipe_of("virt-amd64")
    tar = folder / cached_name(recipe, "", lock)
    tar.parent.mkdir()
    with tarfile.open(tar, "w") as archive:
        for name, data in (
            ("./var/lib/dpkg/status", STATUS),
            ("./boot/kernel.tsv", b"linux-image-6.1\t6.1-1\tamd64\n"),
        ):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return recipe


def test_a_root_file_system_from_the_cache_says_what_is_installed(tmp_path):
    found = root_file_system(cached(tmp_path), tmp_path, "", ())
    assert found.cached
    assert found.packages == PACKAGES


def test_a_lock_that_was_not_met_is_refused_by_name(tmp_path):
    lock = (Package("dash", "0.5.12-3", "amd64"), PACKAGES[1])
    with pytest.raises(ConfigError, match="dash"):
        root_file_system(cached(tmp_path, lock), tmp_path, "", lock)


def test_a_kernel_that_cannot_run_the_architecture_is_said_with_its_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(debian, "_BINFMT", tmp_path / "nothing")
    monkeypatch.setattr(debian.platform, "machine", lambda: "riscv64")
    monkeypatch.setattr(debian, "require", lambda *_: None)
    (tmp_path / "linux-kbuild-6.1").mkdir()
    monkeypatch.setattr(debian, "_KERNEL_BUILD", tmp_path)
    with pytest.raises(UnavailableError, match="qemu-user-static"):
        root_file_system(recipe_of("virt-arm64"), tmp_path, "", ())


def test_another_architecture_needs_what_tells_that_its_programs_run_here(tmp_path, monkeypatch):
    monkeypatch.setattr(debian.platform, "machine", lambda: "riscv64")
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(programs, "ADMINISTRATORS", "/nonexistent")
    with pytest.raises(UnavailableError, match=r"apt install arch-test .*mmdebstrap"):
        root_file_system(recipe_of("virt-arm64"), tmp_path, "", ())


def test_missing_build_programs_of_the_kernel_are_said_with_their_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(debian, "require", lambda *_: None)
    monkeypatch.setattr(debian, "_KERNEL_BUILD", tmp_path)
    with pytest.raises(UnavailableError, match=r"apt install linux-kbuild-6\.1"):
        root_file_system(recipe_of("virt-amd64"), tmp_path, "", ())


def test_lists_of_packages_are_read_as_they_were_written():
    assert parse_packages(format_packages(PACKAGES)) == PACKAGES
    with pytest.raises(ConfigError, match="tabs"):
        parse_packages("dash 0.5\n")


def test_the_list_of_contents_names_every_package_and_is_the_same_twice():
    made = image_sbom("nightjar.img", "ab" * 32, "bookworm", "amd64", PACKAGES)
    assert made == image_sbom("nightjar.img", "ab" * 32, "bookworm", "amd64", PACKAGES)
    assert b"pkg:deb/debian/dash@0.5.12-2?arch=amd64&distro=bookworm" in made


def test_programs_that_are_missing_are_named_with_their_packages(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(UnavailableError, match=r"apt install .*qemu-system-arm"):
        require("qemu-system-aarch64")


def test_the_cache_is_where_people_say(tmp_path):
    assert cache_folder({"NIGHTJAR_CACHE": str(tmp_path)}) == tmp_path


def test_a_user_without_numbers_to_lend_is_told_the_command_that_gives_them():
    tables = {"/etc/subuid": "ada:100000:65536\n", "/etc/subgid": "ada:100000:65536\n"}
    check_numbers("ada", 1000, tables)
    check_numbers("root", 0, {"/etc/subuid": "", "/etc/subgid": ""})
    with pytest.raises(UnavailableError, match=r"sudo usermod --add-subuids 100000-165535 .* bob"):
        check_numbers("bob", 1001, tables)
    with pytest.raises(UnavailableError, match="/etc/subgid has no numbers for ada"):
        check_numbers("ada", 1000, tables | {"/etc/subgid": ""})
