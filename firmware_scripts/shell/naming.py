"""Resolves a path that a user typed to a target: a disk that lsblk knows, or a file."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from nightjar.firmware_scripts.core.devices import StorageDevice
from nightjar.firmware_scripts.core.rules import Reason, Rule
from nightjar.firmware_scripts.core.targets import MachineState


@dataclass(frozen=True, slots=True)
class DiskTarget:
    """A block device; all symlinks in ``path`` are resolved."""

    path: Path
    device: StorageDevice


@dataclass(frozen=True, slots=True)
class FileTarget:
    """An ordinary file; ``size_bytes`` is None if it has to be created."""

    path: Path
    size_bytes: int | None


Target = DiskTarget | FileTarget


def find_target(machine: MachineState, argument: Path, image: Path) -> Target | Reason:
    """Resolve ``argument`` on ``machine``; returns a reason if it cannot be a target."""
    try:
        path = argument.resolve()
        status = path.stat()
    except FileNotFoundError:
        return _new_file(argument)
    except (OSError, RuntimeError) as error:
        return Reason(Rule.NOT_A_TARGET, f"{argument} cannot be looked at: {error}")
    if stat.S_ISBLK(status.st_mode):
        number = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
        device = machine.devices.numbered(number)
        if device is None:
            return Reason(Rule.NOT_LISTED, f"lsblk does not list {path} ({number}): plug it in again")
        return DiskTarget(path, device)
    if not stat.S_ISREG(status.st_mode):
        return Reason(Rule.NOT_A_TARGET, f"{path} is neither a disk nor an ordinary file")
    if _is_the_kernels(path):
        return Reason(Rule.NOT_A_TARGET, f"{path} is no file for images: it lies among the devices, or is the kernel's")
    if path.samefile(image):
        return Reason(Rule.NOT_A_TARGET, f"{path} is the image itself")
    if str(path) in {swap.path for swap in machine.swaps}:
        return Reason(Rule.SWAP, f"{path} is used as swap: swapoff {path}")
    return FileTarget(path, status.st_size)


def _new_file(argument: Path) -> Target | Reason:
    path = argument.resolve()
    if _is_the_kernels(path):
        # dd would create a file in memory there and report success.
        return Reason(Rule.NOT_LISTED, f"there is no {path}: look at 'nightjar-firmware targets'")
    if argument.is_symlink() or not path.parent.is_dir():
        return Reason(Rule.NOT_A_TARGET, f"{argument} cannot be made: its folder, or what it links to, is not there")
    return FileTarget(path, None)


def _is_the_kernels(path: Path) -> bool:
    in_memory = path.is_relative_to("/dev/shm")  # noqa: S108 - a world-writable folder; no file is created in it here
    return not in_memory and any(path.is_relative_to(folder) for folder in ("/dev", "/proc", "/sys"))
