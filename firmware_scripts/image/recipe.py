"""The recipe of an image: a board and its layers, read from YAML files. Pure.

A layer names Debian packages and the files that are laid over them. A board names its layers, its kernel, and how the
kernel is booted. Ours are in ``firmware_scripts/layers`` and ``firmware_scripts/boards``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal, TypeVar

import msgspec

from nightjar.wire.errors import ConfigError

Architecture = Literal["amd64", "arm64"]

_PACKAGE = re.compile(r"[a-z0-9][a-z0-9.+-]+")
_Document = TypeVar("_Document", bound="Layer | Board")


class Layer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One layer."""

    about: str
    packages: tuple[str, ...] = ()  # Debian packages; their dependencies are installed too
    files: dict[str, str] = {}  # the text of each file by path; executable if it begins with ``#!``
    copies: dict[str, str] = {}  # the source in ``firmware_scripts`` of each file by path
    links: dict[str, str] = {}  # the target of each symlink by path
    masked_units: tuple[str, ...] = ()  # systemd units that never start
    masked_generators: tuple[str, ...] = ()
    kernel_modules: tuple[str, ...] = ()  # C files of the kernel's source that Debian does not build as modules


class Board(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The board that an image runs on."""

    about: str
    architecture: Architecture
    layers: tuple[str, ...]  # their names, lowest first
    kernel: str  # Debian's kernel flavour, as in ``linux-image-FLAVOUR``
    early_modules: tuple[str, ...]  # kernel modules that are needed to reach the root file system
    command_line: str
    device_tree: str = ""  # a file of the kernel's package; empty if the machine describes itself
    drop: tuple[str, ...] = ()  # folders of kernel modules that are left out
    suite: Literal["bookworm", "trixie"] = "bookworm"  # Debian's name of the release


@dataclass(frozen=True, slots=True)
class Recipe:
    """A board with its layers merged."""

    name: str
    board: Board
    packages: tuple[str, ...]  # the packages of all layers, sorted
    files: Mapping[str, str]  # path → text; the highest layer wins
    copies: Mapping[str, str]  # path → source in ``firmware_scripts``
    links: Mapping[str, str]  # path → target
    kernel_modules: tuple[str, ...]  # C files of the kernel's source

    def rootfs_key(self, *others: str) -> str:
        """The cache key of the root file system of Debian's packages: a hash of its inputs and ``others``."""
        board = self.board
        of_board = (board.suite, board.architecture, board.kernel, *board.drop)
        parts = (*of_board, "", *self.packages, "", *self.kernel_modules)
        return hashlib.sha256("\n".join((*parts, *others)).encode()).hexdigest()[:16]


def read_recipe(name: str, read_board: Callable[[str], bytes], read_layer: Callable[[str], bytes]) -> Recipe:
    """Read the recipe of a board.

    ``read_board`` and ``read_layer`` return the YAML of a board or layer by name.

    Raises:
        ConfigError: a file is malformed, or two layers contradict each other.
    """
    board = _decode(read_board(name), f"board {name}", Board)
    layers = [(layer, _with_masks(_decode(read_layer(layer), f"layer {layer}", Layer))) for layer in board.layers]
    kinds: dict[str, str] = {}
    for layer_name, layer in layers:
        _check(layer_name, layer)
        for path, kind in ((p, k) for k in ("files", "copies", "links") for p in getattr(layer, k)):
            if kinds.setdefault(path, kind) != kind:
                msg = f"layer {layer_name}: {path} is among its {kind}, and among the {kinds[path]} of a layer below"
                raise ConfigError(msg)
    return Recipe(
        name=name,
        board=board,
        packages=tuple(sorted({package for _, layer in layers for package in layer.packages})),
        files={path: text for _, layer in layers for path, text in layer.files.items()},
        copies={path: source for _, layer in layers for path, source in layer.copies.items()},
        links={path: target for _, layer in layers for path, target in layer.links.items()},
        kernel_modules=tuple(sorted({source for _, layer in layers for source in layer.kernel_modules})),
    )


def _decode(data: bytes, what: str, kind: type[_Document]) -> _Document:
    try:
        return msgspec.yaml.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        msg = f"{what}: {error}"
        raise ConfigError(msg) from error


def _with_masks(layer: Layer) -> Layer:
    # systemd.unit(5), systemd.generator(7): a link to /dev/null masks a package's file.
    masks = {f"etc/systemd/system/{name}": "/dev/null" for name in layer.masked_units}
    masks |= {f"etc/systemd/system-generators/{name}": "/dev/null" for name in layer.masked_generators}
    return msgspec.structs.replace(layer, links={**layer.links, **masks})


def _check(name: str, layer: Layer) -> None:
    for package in layer.packages:
        if not _PACKAGE.fullmatch(package):
            msg = f"layer {name}: {package!r} is no name of a Debian package"
            raise ConfigError(msg)
    for path in (*layer.files, *layer.copies.values(), *layer.copies, *layer.links, *layer.kernel_modules):
        parts = PurePosixPath(path).parts
        if not parts or parts[0] == "/" or ".." in parts:
            msg = f"layer {name}: expected a path without a leading '/' and without '..', got {path!r}"
            raise ConfigError(msg)
