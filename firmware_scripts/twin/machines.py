"""QEMU's command line for each board. Pure.

Source: QEMU 7.2, docs/system (invocation, target-arm, target-i386).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from wire.errors import ConfigError

# For the kernel: guards against what an emulated processor does not do cost it a third of its speed.
_EMULATED = "mitigations=off init_on_alloc=0 audit=0 nowatchdog rcupdate.rcu_expedited=1"


@dataclass(frozen=True, slots=True)
class Started:
    """Files that QEMU is started with.

    Attributes:
        disk: the image.
        kernel: of its boot partition.
        early: initial file system, likewise.
        command_line: of the kernel.
        device_tree: None where the machine describes itself.
        guest_socket: where QEMU listens for those who talk to the agent inside.
        keep: what the machine writes stays in the disk's file, also after a power cut; else it is forgotten.
    """

    disk: Path
    kernel: Path
    early: Path
    command_line: str
    device_tree: Path | None
    guest_socket: Path
    keep: bool


@dataclass(frozen=True, slots=True)
class Machine:
    """How a board is played.

    Attributes:
        program: of QEMU.
        options: machine, processor, memory.
        disk: the device that the image is.
        network: the device that the network is.
        guest: the port of the agent inside; empty where the machine has none for it.
    """

    program: str
    options: tuple[str, ...]
    disk: tuple[str, ...]
    network: str
    guest: tuple[str, ...]


_VIRTIO_DISK = ("-device", "virtio-blk-pci,drive=disk")
_VIRTIO_PORT = ("-device", "virtio-serial-pci", "-device", "virtserialport,chardev=guest,name=org.qemu.guest_agent.0")
_VIRTIO_NETWORK = "virtio-net-pci,netdev=net,romfile="
MACHINES = {
    "virt-arm64": Machine(
        "qemu-system-aarch64",
        ("-machine", "virt", "-cpu", "cortex-a72", "-smp", "2", "-m", "768"),
        _VIRTIO_DISK,
        _VIRTIO_NETWORK,
        _VIRTIO_PORT,
    ),
    "virt-amd64": Machine(
        "qemu-system-x86_64",
        ("-machine", "q35,sata=off,smbus=off,vmport=off", "-cpu", "max", "-smp", "2", "-m", "768"),
        _VIRTIO_DISK,
        _VIRTIO_NETWORK,
        _VIRTIO_PORT,
    ),
    # Its first serial port is the one that the board gives to Bluetooth; the console is the second.
    "raspi3b": Machine("qemu-system-aarch64", ("-machine", "raspi3b", "-usb"), (), "usb-net,netdev=net", ()),
}


def machine_of(board: str) -> Machine:
    """The machine that plays a board.

    Raises:
        ConfigError: QEMU has none for it.
    """
    if board not in MACHINES:
        msg = f"no machine of QEMU plays the board {board!r}; there are {', '.join(MACHINES)}"
        raise ConfigError(msg)
    return MACHINES[board]


def qemu_command(machine: Machine, started: Started) -> list[str]:
    """The whole command line; the console is standard output.

    TCG runs everywhere alike. Machines that lend their processor (KVM) are not asked for it: what is nested, or only
    looks like it, hangs before the first instruction.
    """
    interface = "none" if machine.disk else "sd"
    drive = f"if={interface},id=disk,format=raw,file={_escaped(started.disk)}"
    # Each write is handed to our kernel as it comes, so a killed QEMU is a power cut, and our own disk need not be
    # waited for ("unsafe": a power cut of this machine may cost the twin).
    drive += ",cache=unsafe" + ("" if started.keep else ",snapshot=on")
    serial = ["-serial", "stdio"] if machine.disk else ["-serial", "null", "-serial", "stdio"]
    command = [machine.program, *machine.options, "-nodefaults", "-accel", "tcg,thread=multi"]
    line = f"{started.command_line} {_EMULATED}"
    command += ["-kernel", str(started.kernel), "-initrd", str(started.early), "-append", line]
    if started.device_tree:
        command += ["-dtb", str(started.device_tree)]
    command += ["-drive", drive, *machine.disk, "-netdev", "user,id=net", "-device", machine.network]
    if machine.guest:
        socket = f"socket,id=guest,path={_escaped(started.guest_socket)},server=on,wait=off"
        command += ["-device", "virtio-rng-pci", "-chardev", socket, *machine.guest]
    return [*command, "-display", "none", "-monitor", "none", *serial, "-no-reboot"]


def _escaped(path: Path) -> str:
    return str(path).replace(",", ",,")
