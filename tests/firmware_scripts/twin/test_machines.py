from pathlib import Path

import pytest

from nightjar.firmware_scripts.image.making import boards
from nightjar.firmware_scripts.twin.machines import MACHINES, machine_of, qemu_command
from nightjar.wire.errors import ConfigError


def command(board, disk="disk.img", device_tree=None):
    return qemu_command(
        machine_of(board),
        Path(disk),
        kernel=Path("vmlinuz"),
        early=Path("initrd.gz"),
        command_line="root=/dev/vda2 ro",
        device_tree=device_tree,
        guest_socket=Path("guest"),
    )


def test_every_board_has_a_machine():
    assert set(boards()) == set(MACHINES)


def test_an_emulated_processor_is_spared_guards_that_only_a_real_one_needs():
    words = command("virt-amd64")
    line = words[words.index("-append") + 1]
    assert line.startswith("root=/dev/vda2 ro ")
    assert "mitigations=off" in line


def test_a_name_with_a_comma_stays_one_name():
    assert any("file=a,,b.img," in word for word in command("virt-amd64", "a,b.img"))


def test_a_raspberry_pi_starts_from_its_card_slot_with_its_device_tree():
    words = command("raspi3b", device_tree=Path("pi.dtb"))
    assert words[words.index("-dtb") + 1] == "pi.dtb"
    assert any(word.startswith("if=sd,") for word in words)
    # The first serial port is not its console.
    assert words[words.index("-serial") + 1] == "null"


def test_a_board_that_no_machine_plays_is_refused():
    with pytest.raises(ConfigError, match="raspi3b"):
        machine_of("toaster")
