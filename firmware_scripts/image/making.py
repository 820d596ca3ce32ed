"""Builds a board's image: root file system, our own files, boot partition, and the files that describe the contents."""

from __future__ import annotations

import json
import re
import shlex
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from nightjar.firmware_scripts.bundle.platforms import platform_named
from nightjar.firmware_scripts.core.bmap import format_bmap
from nightjar.firmware_scripts.core.image_format import IMAGE_FILE, MACHINES, OWN_FORMAT
from nightjar.firmware_scripts.customising import BundleFiles
from nightjar.firmware_scripts.device_program import PROGRAM
from nightjar.firmware_scripts.image.debian import Package, RootFileSystem, format_packages, root_file_system
from nightjar.firmware_scripts.image.disk import Parts, make_disk
from nightjar.firmware_scripts.image.early import early_archive, modules_in_order
from nightjar.firmware_scripts.image.recipe import Recipe, read_recipe
from nightjar.firmware_scripts.ports import ProgressReport
from nightjar.firmware_scripts.sbom import image_sbom
from nightjar.firmware_scripts.shell.hashing import sha256_of
from nightjar.firmware_scripts.shell.sparse import map_of
from nightjar.host.files import put_in_place
from nightjar.wire.errors import ConfigError

KERNEL, EARLY, COMMAND_LINE, DEVICE_TREE = "vmlinuz", "initrd.gz", "cmdline.txt", "device-tree.dtb"
_KERNEL_NAME = re.compile(r"\./boot/vmlinuz-(.+)")


@dataclass(frozen=True, slots=True)
class Made:
    """An image and the files beside it."""

    image: Path  # the disk's file, which is sparse
    sha256: str
    packages: int  # how many of Debian's
    cached: bool  # whether the root file system came from the cache


def boards() -> dict[str, str]:
    """The description of every board, by name."""
    files = sorted(entry.name for entry in _folder("boards").iterdir() if entry.name.endswith(".yaml"))
    return {name.removesuffix(".yaml"): recipe_of(name.removesuffix(".yaml")).board.about for name in files}


def recipe_of(board: str) -> Recipe:
    """The recipe of one of our boards.

    Raises:
        ConfigError: there is no board of this name.
    """
    return read_recipe(board, lambda name: _read("boards", name), lambda name: _read("layers", name))


def make_image(
    recipe: Recipe,
    image: Path,
    cache: Path,
    mirror: str,
    lock: tuple[Package, ...],
    parcel: BundleFiles | None,
    report: ProgressReport,
) -> Made:
    """Write ``image``, with ``.bmap``, ``.sha256``, ``.packages`` and ``.cdx.json`` beside it.

    ``mirror``, ``lock`` and ``cache`` are as in :func:`~nightjar.firmware_scripts.image.debian.root_file_system`;
    ``parcel`` is the bundle to preinstall. ``report`` receives the progress of the final survey.

    Raises:
        UnavailableError: a program is missing or fails, or the mirror does not answer.
        ConfigError: the recipe and the packages do not match.
        OSError: a file cannot be written.
    """
    base = root_file_system(recipe, cache, mirror, lock)
    image.parent.mkdir(parents=True, exist_ok=True)
    files = {path: text.encode() for path, text in recipe.files.items()}
    files |= {
        path: (resources.files("nightjar.firmware_scripts") / source).read_bytes()
        for path, source in recipe.copies.items()
    }
    partial = image.with_name(f"{image.name}.part")
    with tempfile.TemporaryDirectory(prefix="nightjar-image-", dir=cache) as folder:
        work = Path(folder)
        finish = _preinstall_script(parcel, recipe.board.architecture, work) if parcel else ""
        parts = Parts(
            name=f"nightjar-{recipe.name}",
            root_tar=base.tar,
            files=files,
            links=recipe.links,
            boot=_boot_files(recipe, base),
            finish=finish,
        )
        make_disk(parts, partial, work)
    put_in_place(partial, image)
    sha256 = sha256_of(image)
    beside: dict[str, bytes] = {
        "bmap": format_bmap(map_of(image, report)),
        "sha256": f"{sha256}  {image.name}\n".encode(),
        "packages": format_packages(base.packages).encode(),
        "cdx.json": image_sbom(image.name, sha256, recipe.board.suite, recipe.board.architecture, base.packages),
    }
    for suffix, data in beside.items():
        image.with_name(f"{image.name}.{suffix}").write_bytes(data)
    return Made(image, sha256, len(base.packages), base.cached)


def _preinstall_script(parcel: BundleFiles, architecture: str, work: Path) -> str:
    """A shell script that installs a bundle in the folder ``root`` with the device's own installer, put into ``work``.

    The first boot then needs no pip, which would take a minute under emulation. The host unpacks the packages, and runs
    no program of the device.
    """
    platform = platform_named(str(parcel.facts.get("platform")))
    if platform.machine != MACHINES[architecture] or PROGRAM not in parcel.own:
        msg = f"the bundle is for {platform.name}, the image has the architecture {architecture}"
        raise ConfigError(msg)
    program, key = work / PROGRAM, work / "bundle.pub"
    program.write_bytes(parcel.own[PROGRAM])
    key.write_bytes(parcel.public_key)
    options = shlex.quote(" ".join(platform.pip_options()))
    lines = [
        f"install -D -m 0644 {shlex.quote(str(key))} root/etc/nightjar/bundle.pub",
        f"{shlex.quote(sys.executable)} -s {shlex.quote(str(program))} --root root install --no-start "
        f"--pip-options={options} {shlex.quote(str(parcel.path.absolute()))} > install.log 2>&1 "
        "|| { cat install.log >&2; exit 1; }",
        # The packages' commands would name the host's Python, and the device writes its own status file.
        "rm -rf root/opt/nightjar/releases/*/lib/bin root/boot/firmware/*",
    ]
    if platform.python == sys.version_info[:2]:
        # The agent may not write there, so without bytecode it would compile everything again at each start.
        lines.append(
            f"{shlex.quote(sys.executable)} -P -m compileall -q --invalidation-mode unchecked-hash -s root "
            "root/opt/nightjar/releases || true"
        )
    return "\n".join(lines)


def _boot_files(recipe: Recipe, base: RootFileSystem) -> dict[str, bytes]:
    board = recipe.board
    with tarfile.open(base.tar) as archive:
        read = _reader(archive)
        found = next((found for name in archive.getnames() if (found := _KERNEL_NAME.fullmatch(name))), None)
        if found is None:
            msg = f"there is no kernel in {base.tar}"
            raise ConfigError(msg)
        folder = f"./usr/lib/modules/{found[1]}"
        modules = modules_in_order(
            board.early_modules, read(f"{folder}/modules.dep").decode(), read(f"{folder}/modules.builtin").decode()
        )
        early = early_archive(read("./usr/bin/busybox"), modules, lambda path: read(f"{folder}/{path}"))
        about = {
            "format": OWN_FORMAT,
            "name": recipe.name,
            "architecture": board.architecture,
            "release": board.suite,
            "kernel": found[1],
        }
        files = {
            KERNEL: read(found[0]),
            EARLY: early,
            COMMAND_LINE: f"{board.command_line}\n".encode(),
            IMAGE_FILE: (json.dumps(about, indent=2) + "\n").encode(),
        }
        if board.device_tree:
            files[DEVICE_TREE] = read(f"./usr/lib/linux-image-{found[1]}/{board.device_tree}")
    return files


def _reader(archive: tarfile.TarFile) -> Callable[[str], bytes]:
    def read(name: str) -> bytes:
        try:
            file = archive.extractfile(name)
        except KeyError:
            file = None
        if file is None:
            msg = f"there is no {name} among the packages of this image"
            raise ConfigError(msg)
        return file.read()

    return read


def _folder(kind: str) -> resources.abc.Traversable:
    return resources.files("nightjar.firmware_scripts") / kind


def _read(kind: str, name: str) -> bytes:
    try:
        return (_folder(kind) / f"{name}.yaml").read_bytes()
    except OSError as error:
        there = ", ".join(sorted(entry.name.removesuffix(".yaml") for entry in _folder(kind).iterdir()))
        msg = f"there is no {name!r} among the {kind}: {there}"
        raise ConfigError(msg) from error
