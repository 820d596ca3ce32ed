"""The files that Debian packages take from a bundle: what its wheels install, and the keyboard's model. Pure.

A wheel is a zip file, and to install it is to unpack it; what it has for other places than the folder of modules
(scripts, headers) is left out, because the agent is started as a module.

Source: "Recorded installed projects" and "Binary distribution format" of packaging.python.org.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping
from pathlib import PurePosixPath

from nightjar.wire.errors import RemoteProtocolError

MODEL = "model/"
"""Where a bundle has the files of a keyboard's model."""
_WHEELS = "wheels/"
_NOT_INSTALLED = "pip-"  # it installs the others on a device without a packet manager
_DATA = re.compile(r"[^/]+\.data/(?P<kind>[^/]+)/(?P<rest>.+)")
_MODULES = ("purelib", "platlib")
_BEFORE_FINAL = re.compile(r"\.?(?P<kind>a|b|rc|dev)(?P<number>\d+)$")


def installed_files(bundle: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files in the folder of modules, by path, of all wheels in a bundle but pip.

    Raises:
        RemoteProtocolError: a wheel cannot be read, has a path outside of that folder, or overwrites another's file.
    """
    installed: dict[str, bytes] = {}
    for name, data in sorted(bundle.items()):
        if not name.startswith(_WHEELS) or name.startswith(f"{_WHEELS}{_NOT_INSTALLED}"):
            continue
        for path, content in _unpacked(name, data).items():
            if installed.setdefault(path, content) != content:
                msg = f"{name} brings another {path} than a wheel before it"
                raise RemoteProtocolError(msg, code="bundle")
    return installed


def model_files(bundle: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of the keyboard's model in a bundle, by name; empty if it has none."""
    return {name.removeprefix(MODEL): data for name, data in bundle.items() if name.startswith(MODEL)}


def debian_version(version: str) -> str:
    """A release's version in the order of dpkg, where a tilde sorts before the end.

    >>> debian_version("0.2.0"), debian_version("0.2.0rc1"), debian_version("0.2.0.dev3")
    ('0.2.0', '0.2.0~rc1', '0.2.0~dev3')
    """
    return _BEFORE_FINAL.sub(lambda found: f"~{found['kind']}{found['number']}", version)


def _unpacked(name: str, data: bytes) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as wheel:
            for entry in wheel.infolist():
                path = _place(entry.filename)
                if path and not entry.is_dir():
                    files[path] = wheel.read(entry)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        msg = f"{name} is no wheel: {error}"
        raise RemoteProtocolError(msg, code="bundle") from error
    return files


def _place(path: str) -> str:
    """Where a file of a wheel belongs below the folder of modules; empty if it belongs elsewhere."""
    moved = _DATA.fullmatch(path)
    if moved is not None:
        if moved["kind"] not in _MODULES:
            return ""
        path = moved["rest"]
    if path.startswith("/") or "\\" in path or ".." in PurePosixPath(path).parts:
        msg = f"expected a path inside of the folder of modules, got {path[:200]!r}"
        raise RemoteProtocolError(msg, code="bundle")
    return path
