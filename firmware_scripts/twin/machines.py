"""Builds QEMU's command line for each board. Pure.

Source: QEMU 7.2, docs/system (invocation, target-arm, target-i386).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nightjar.wire.errors import ConfigError

# For the kernel: mitigations for flaws that an emulated processor does not have cost a third of the speed.
_EMULATED = "mitigations=off init_on_alloc=0 audit=0 nowatchdog rcupdate.rcu_expedited=1"


@dataclass(frozen=True, slots=True)
class Machine:
    """How QEMU emulates a board."""

    program: str
    options: tuple[str, ...]  # the options for machine, processor and memory
    disk: tuple[str, ...]  # that the image is attached as
    network: str  # the network device
    guest: tuple[str, ...]  # the guest agent's port; empty if the machine has none


_VIRTIO_DISK = ("-device", "virtio-blk-pci,drive=disk")
_VIRTIO_PORT = ("-device", "virtio-serial-pci", "-device", "virtserialport,chardev=guest,name=org.qemu.guest_agent.0")
_VIRTIO_NETWORK = "virtio-net-pci,netdev=net,romfile="
_ARM64 = Machine(
    "qemu-system-aarch64",
    ("-machine", "virt", "-cpu", "cortex-a72", "-smp", "2", "-m", "768"),
    _VIRTIO_DISK,
    _VIRTIO_NETWORK,
    _VIRTIO_PORT,
)
MACHINES = {
    "virt-arm64": _ARM64,
    "virt-arm64-trixie": _ARM64,
    "virt-amd64": Machine(
        "qemu-system-x86_64",
        ("-machine", "q35,sata=off,smbus=off,vmport=off", "-cpu", "max", "-smp", "2", "-m", "768"),
        _VIRTIO_DISK,
        _VIRTIO_NETWORK,
        _VIRTIO_PORT,
    ),
    # The board uses its first serial port for Bluetooth; the console is the second.
    "raspi3b": Machine("qemu-system-aarch64", ("-machine", "raspi3b", "-usb"), (), "usb-net,netdev=net", ()),
}


def machine_of(board: str) -> Machine:
    """The machine that emulates a board.

    Raises:
        ConfigError: QEMU has no machine for this board.
    """
    if board not in MACHINES:
        msg = f"no machine of QEMU plays the board {board!r}; there are {', '.join(MACHINES)}"
        raise ConfigError(msg)
    return MACHINES[board]


def qemu_command(
    machine: Machine,
    disk: Path,
    *,
    kernel: Path,
    early: Path,
    command_line: str,
    device_tree: Path | None,
    guest_socket: Path,
) -> list[str]:
    """Build the whole command line; the console is standard output.

    Kernel, ``early`` (the initial file system) and device tree are files from the disk's boot partition; a machine
    that describes itself has no device tree. QEMU accepts clients of the guest agent on ``guest_socket``.

    Uses TCG, which runs everywhere alike. KVM is never used: nested KVM, or hosts that only appear to offer it, hang
    before the first instruction.
    """
    interface = "none" if machine.disk else "sd"
    # Each write is passed to the host's kernel at once, so killing QEMU acts as a power cut. There is no need to wait
    # for the host's disk ("unsafe": a power cut of the host may destroy the twin).
    drive = f"if={interface},id=disk,format=raw,file={_escaped(disk)},cache=unsafe"
    serial = ["-serial", "stdio"] if machine.disk else ["-serial", "null", "-serial", "stdio"]
    command = [machine.program, *machine.options, "-nodefaults", "-accel", "tcg,thread=multi"]
    line = f"{command_line} {_EMULATED}"
    command += ["-kernel", str(kernel), "-initrd", str(early), "-append", line]
    if device_tree:
        command += ["-dtb", str(device_tree)]
    command += ["-drive", drive, *machine.disk, "-netdev", "user,id=net", "-device", machine.network]
    if machine.guest:
        socket = f"socket,id=guest,path={_escaped(guest_socket)},server=on,wait=off"
        command += ["-device", "virtio-rng-pci", "-chardev", socket, *machine.guest]
    return [*command, "-display", "none", "-monitor", "none", *serial, "-no-reboot"]


def _escaped(path: Path) -> str:
    return str(path).replace(",", ",,")
