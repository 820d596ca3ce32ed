"""A twin: a customised copy of an image that runs in QEMU."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nightjar.firmware_scripts.core.image_format import IMAGE_FILE
from nightjar.firmware_scripts.customising import Order, customise
from nightjar.firmware_scripts.image.making import COMMAND_LINE, DEVICE_TREE, EARLY, KERNEL
from nightjar.firmware_scripts.image.tools import run
from nightjar.firmware_scripts.shell.fat import boot_partition
from nightjar.firmware_scripts.twin.guest import Guest
from nightjar.firmware_scripts.twin.machines import machine_of, qemu_command
from nightjar.firmware_scripts.twin.process import Qemu
from nightjar.host.files import put_in_place
from nightjar.wire.errors import ConfigError, RemoteProtocolError

DISK, LOG, SOCKET = "disk.img", "console.log", "guest"
_LONGEST_SOCKET_BYTES = 107  # unix(7)


@dataclass(frozen=True, slots=True)
class Twin:
    """The files of one twin, in its own folder."""

    folder: Path  # the twin's folder; its disk keeps the device's state between starts
    board: str

    @property
    def guest(self) -> Guest:
        """The inside of the machine.

        Raises:
            ConfigError: the machine has no port for the guest agent.
        """
        if not machine_of(self.board).guest:
            msg = f"QEMU's {self.board} has no port for hands, so nobody types on it or plugs it in: leave --join away"
            raise ConfigError(msg)
        return Guest(self.folder / SOCKET)


def prepare(image: Path, folder: Path, order: Order | None) -> Twin:
    """Copy an image into a folder and customise the copy.

    ``image`` is one made by ``nightjar-firmware image``, customised or not; None for ``order`` leaves it unchanged. The
    disk of a twin that is in the folder is kept, and then ``order`` must be None.

    Raises:
        ConfigError: it is not our image, or ``order`` is given for an existing twin.
        UnavailableError: a program is missing, or the disk is full.
    """
    disk = folder / DISK
    if exists(folder):
        if order is not None:
            msg = f"{folder} holds a twin that is somebody's already: leave the options away, or take another folder"
            raise ConfigError(msg)
        return Twin(folder.absolute(), _board(disk))
    board = _board(image)
    machine_of(board)
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{DISK}.part"
    run(["cp", "--sparse=always", "--reflink=auto", image, partial])
    if order is not None:
        customise(partial, order, lambda _: None)
    put_in_place(partial, disk)
    return Twin(folder.absolute(), board)


@contextmanager
def powered(twin: Twin, ports: Sequence[int], on_line: Callable[[str], None] = lambda _: None) -> Iterator[Qemu]:
    """Power a twin on; its power is cut when the block ends.

    ``ports`` of the host's loopback interface are forwarded to the twin's own; ``on_line`` receives each line of the
    console.

    Raises:
        UnavailableError: QEMU is missing, or cannot be started.
    """
    disk, folder = twin.folder / DISK, twin.folder
    with boot_partition(disk) as fat:
        files = {name: fat.read(name) for name in (KERNEL, EARLY, COMMAND_LINE, DEVICE_TREE)}
    for name, data in files.items():
        if data is not None:
            (folder / name).write_bytes(data)
        elif name != DEVICE_TREE:
            msg = f"{disk} has no {name} on its boot partition"
            raise RemoteProtocolError(msg, code="image")
    line = (files[COMMAND_LINE] or b"").decode(errors="replace").strip()
    if ports:
        line += f" nightjar.forward={','.join(map(str, sorted(set(ports))))}"
    device_tree = folder / DEVICE_TREE if files[DEVICE_TREE] is not None else None
    socket = folder / SOCKET
    if len(os.fsencode(socket)) > _LONGEST_SOCKET_BYTES:
        msg = f"{folder} has too long a name for a socket in it: take a folder with a shorter one"
        raise ConfigError(msg)
    socket.unlink(missing_ok=True)
    command = qemu_command(
        machine_of(twin.board),
        disk,
        kernel=folder / KERNEL,
        early=folder / EARLY,
        command_line=line,
        device_tree=device_tree,
        guest_socket=socket,
    )
    with Qemu(command, folder / LOG, on_line) as machine:
        yield machine


def boot_file(twin: Twin, name: str) -> str | None:
    """The text of a file on the boot partition of a powered-off twin; None if the file does not exist."""
    with boot_partition(twin.folder / DISK) as fat:
        data = fat.read(name)
    return None if data is None else data.decode(errors="replace")


def exists(folder: Path) -> bool:
    """Whether a folder holds a twin."""
    return (folder / DISK).exists()


def _board(image: Path) -> str:
    if not os.access(image, os.R_OK):
        msg = f"there is no image {image}: make one with 'nightjar-firmware image'"
        raise ConfigError(msg)
    try:
        with boot_partition(image) as fat:
            data = fat.read(IMAGE_FILE)
        name = json.loads(data)["name"] if data else None
    except (ValueError, KeyError, TypeError, RemoteProtocolError) as error:
        msg = f"{image} says nothing sensible in {IMAGE_FILE}: {error}"
        raise ConfigError(msg) from error
    if not isinstance(name, str):
        msg = f"{image} is no image of 'nightjar-firmware image': it has no {IMAGE_FILE} on its boot partition"
        raise ConfigError(msg)
    return name
