from dataclasses import dataclass, field

import pytest

from nightjar.firmware_scripts.core.checks import Level, check_desktop, check_listing, check_permission, findings


@dataclass
class FakeHost:
    commands: set = field(default_factory=set)
    outputs: dict = field(default_factory=dict)
    modules: set = field(default_factory=set)
    root: bool = False
    in_groups: frozenset = frozenset()

    def has_command(self, name):
        return name in self.commands

    def output(self, *command):
        return self.outputs.get(command[0], "")

    def has_module(self, name):
        return name in self.modules

    def is_root(self):
        return self.root

    def groups(self):
        return self.in_groups


def test_on_a_bare_machine_everything_that_is_missing_has_a_remedy():
    found = findings(FakeHost())
    assert {finding.category for finding in found} == {
        "flashing",
        "desktop",
        "images",
        "customising",
        "android",
        "twin",
    }
    assert all(finding.remedy for finding in found if finding.level is not Level.GOOD)
    assert sum(finding.level is Level.FAULT for finding in found) == 4  # lsblk, xz, gz, zst


def test_a_machine_with_everything_has_no_fault():
    everything = FakeHost(
        commands={
            *(
                "mcopy",
                "mkfs.vfat",
                "mke2fs",
                "sfdisk",
                "qemu-system-aarch64",
                "qemu-aarch64-static",
                "mmdebstrap",
                "arch-test",
            ),
            *("cloud-init", "mkpasswd", "ssh-keygen", "adb", "fakeroot", "qemu-system-x86_64"),
        },
        outputs={"lsblk": "lsblk from util-linux 2.38.1"},
        modules={"lzma", "zlib", "backports.zstd"},
        root=True,
    )
    assert {finding.level for finding in findings(everything)} == {Level.GOOD}


@pytest.mark.parametrize(
    ("version", "level"), [("2.30.2", Level.FAULT), ("2.31", Level.GOOD), ("2.41", Level.GOOD), ("3.0", Level.GOOD)]
)
def test_an_lsblk_that_is_too_old_is_a_fault(version, level):
    (finding,) = check_listing(FakeHost(outputs={"lsblk": f"lsblk from util-linux {version}"}))
    assert finding.level is level


def test_the_group_disk_cannot_read_past_the_cache():
    (finding,) = check_permission(FakeHost(in_groups=frozenset({"disk"})))
    assert finding.level is Level.NOTE
    assert "sudo" in finding.remedy


def test_a_desktop_that_mounts_by_itself_is_named():
    (finding,) = check_desktop(FakeHost(outputs={"gsettings": "true\n"}))
    assert "automount false" in finding.remedy
    (finding,) = check_desktop(FakeHost(outputs={"gsettings": "false\n", "systemctl": "active\n"}))
    assert finding.level is Level.NOTE
