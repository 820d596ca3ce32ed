"""Installs Debian's packages into a configured root file system and caches it, since that takes minutes.

Packages of foreign architectures are configured under qemu-user, which must be registered with the kernel
(``binfmt_misc``); installing ``qemu-user-static`` does that on an ordinary system.
"""

from __future__ import annotations

import csv
import getpass
import os
import platform
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from nightjar.firmware_scripts.core.image_format import MACHINES
from nightjar.firmware_scripts.image.recipe import Recipe
from nightjar.firmware_scripts.image.tools import require, run
from nightjar.host.files import put_in_place
from nightjar.host.locks import take_lock
from nightjar.wire.errors import ConfigError, UnavailableError

_BINFMT = Path("/proc/sys/fs/binfmt_misc/qemu-aarch64")
_KERNEL_BUILD = Path("/usr/lib")
_SUBORDINATE = (Path("/etc/subuid"), Path("/etc/subgid"))
# Unused on a device, and a third of the image.
_LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/lintian/*")
_STATUS = "./var/lib/dpkg/status"


@dataclass(frozen=True, slots=True)
class Package:
    """One Debian package."""

    name: str
    version: str
    architecture: str


@dataclass(frozen=True, slots=True)
class RootFileSystem:
    """A root file system of Debian packages."""

    tar: Path
    packages: tuple[Package, ...]  # the installed packages by name, including the kernel's
    cached: bool  # whether it came from the cache


def root_file_system(recipe: Recipe, cache: Path, mirror: str, lock: tuple[Package, ...]) -> RootFileSystem:
    """The root file system for ``recipe``, from the cache or newly built, which takes minutes.

    ``mirror`` is the URL of a Debian mirror or snapshot; empty for mmdebstrap's default. An empty ``lock`` takes the
    newest versions.

    Raises:
        UnavailableError: a program is missing or fails, or the mirror does not answer.
        ConfigError: the mirror does not have the locked versions.
        OSError: the cache cannot be written.
    """
    tar = cache / cached_name(recipe, mirror, lock)
    tar.parent.mkdir(parents=True, exist_ok=True)
    with take_lock(tar.with_suffix(".lock"), waiting=True):
        cached = tar.exists()
        if not cached:
            partial = tar.with_name(f"{tar.stem}.part.tar")
            _make(recipe, partial, mirror, lock)
            put_in_place(partial, tar)
    packages = _installed(tar)
    if lock and (different := sorted({p.name for p in set(packages) ^ set(lock)})):
        msg = f"the mirror does not give what the lock asks for: {', '.join(different)}; a snapshot may"
        raise ConfigError(msg)
    return RootFileSystem(tar, packages, cached)


def cached_name(recipe: Recipe, mirror: str, lock: tuple[Package, ...]) -> Path:
    """The root file system's path in the cache, which depends on its contents and on how it is built."""
    return Path("rootfs") / f"{recipe.name}-{recipe.rootfs_key(mirror, format_packages(lock), _hook())}.tar"


def check_numbers(user: str, uid: int, tables: Mapping[str, str]) -> None:
    """Check that a user has subordinate ids, which the owners of Debian's files need; root needs none.

    ``tables`` are the texts of subuid(5) and subgid(5) by path.

    Raises:
        UnavailableError: the user has none; the message names the command that assigns them.

    >>> check_numbers("ada", 1000, {"/etc/subuid": "ada:100000:65536", "/etc/subgid": "1000:100000:65536"})
    """
    for path, text in tables.items():
        owners = {line.split(":")[0] for line in text.splitlines()}
        if uid != 0 and not owners & {user, str(uid)}:
            range_of_numbers = "100000-165535"
            msg = (
                f"{path} has no numbers for {user}, so Debian's packages cannot be unpacked without root's rights: "
                f"sudo usermod --add-subuids {range_of_numbers} --add-subgids {range_of_numbers} {user}"
            )
            raise UnavailableError(msg)


def format_packages(packages: tuple[Package, ...]) -> str:
    r"""One line per package, for people, for ``--lock``, and for the list of contents.

    >>> format_packages((Package("dash", "0.5.12-2", "arm64"),))
    'dash\t0.5.12-2\tarm64\n'
    """
    return "".join(f"{p.name}\t{p.version}\t{p.architecture}\n" for p in packages)


def parse_packages(text: str) -> tuple[Package, ...]:
    """Parse the output of :func:`format_packages`.

    Raises:
        ConfigError: a line is not name, version and architecture.
    """
    rows = [row for row in csv.reader(text.splitlines(), delimiter="\t") if row]
    if bad := [row for row in rows if len(row) != len(Package.__slots__)]:
        msg = f"expected a line of name, version and architecture with tabs between, got {bad[0]!r}"
        raise ConfigError(msg)
    return tuple(Package(*row) for row in rows)


def _make(recipe: Recipe, tar: Path, mirror: str, lock: tuple[Package, ...]) -> None:
    architecture = recipe.board.architecture
    foreign = platform.machine() != MACHINES[architecture]
    cross = "aarch64-linux-gnu-" if foreign and architecture == "arm64" else ""
    uid = os.geteuid()
    require(
        "mmdebstrap",
        *(["arch-test"] if foreign else []),  # mmdebstrap asks it whether the architecture's programs run here
        *(["newuidmap"] if uid else []),
        *(("make", f"{cross}gcc") if recipe.kernel_modules else ()),
    )
    tables = {str(path): path.read_text() if path.exists() else "" for path in _SUBORDINATE}
    check_numbers(getpass.getuser() if uid else "root", uid, tables)
    if recipe.kernel_modules and not any(_KERNEL_BUILD.glob("linux-kbuild-*")):
        msg = "the kernel's build programs are missing: apt install linux-kbuild-6.1 (Debian 12 has them)"
        raise UnavailableError(msg)
    if foreign and not _BINFMT.exists():
        msg = (
            f"this kernel does not know how to run programs for {architecture}: "
            "apt install qemu-user-static binfmt-support (for a container: on its host)"
        )
        raise UnavailableError(msg)
    variables = {
        "KERNEL": recipe.board.kernel,
        "KERNEL_DROP": " ".join(recipe.board.drop),
        "KERNEL_MODULES": " ".join(recipe.kernel_modules),
        "KERNEL_CC": f"{cross}gcc",
        "KERNEL_CROSS": cross,
    }
    if temporary := os.environ.get("TMPDIR"):
        variables["TMPDIR"] = temporary
    pins = "".join(f"Package: {p.name}\nPin: version {p.version}\nPin-Priority: 1001\n\n" for p in lock)
    command: list[str | Path] = [
        "mmdebstrap",
        "--quiet",
        "--variant=apt",
        f"--architectures={architecture}",
        f"--include={','.join(recipe.packages)}",
        '--aptopt=APT::Install-Recommends "false"',
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT),
        *(['--setup-hook=printf %s "$PINS" > "$1/etc/apt/preferences.d/nightjar-lock"'] if lock else []),
        f"--customize-hook={_hook()}",
        # Each device generates its own.
        '--customize-hook=cd "$1/etc" && rm -f machine-id hostname resolv.conf ../var/lib/dbus/machine-id',
        *(['--customize-hook=rm "$1/etc/apt/preferences.d/nightjar-lock"'] if lock else []),
        recipe.board.suite,
        tar,
        *([mirror] if mirror else []),
    ]
    run(command, variables | {"PINS": pins})


def _hook() -> str:
    return (resources.files("nightjar.firmware_scripts.image") / "kernel_hook.sh").read_text(encoding="utf-8")


def _installed(tar: Path) -> tuple[Package, ...]:
    with tarfile.open(tar) as archive:
        status = _text(archive, _STATUS)
        kernel = _text(archive, "./boot/kernel.tsv")
    found = list(parse_packages(kernel))
    for paragraph in status.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and line[0] != " ")
        if fields.get("Status", "").endswith(" installed"):
            found.append(Package(fields["Package"], fields["Version"], fields["Architecture"]))
    return tuple(sorted(found, key=lambda package: package.name))


def _text(archive: tarfile.TarFile, name: str) -> str:
    try:
        file = archive.extractfile(name)
    except KeyError:
        file = None
    if file is None:
        msg = f"the cached root file system has no {name}: delete it, so that it is made again"
        raise UnavailableError(msg)
    return file.read().decode()
