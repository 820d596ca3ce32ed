"""The Debian packages of a desk: which files they have, and on what they depend.

``nightjar-agent`` has the agent with all its packages, the keyboard's first model, and a unit of the person's own
systemd. Modules are compiled when it is installed, and nothing else is written outside the person's own folder.
``nightjar-ibus`` has what IBus needs to start the engine, whose modules are in the agent's package.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nightjar.firmware_scripts.bundle.reading import Checked
from nightjar.firmware_scripts.core.manifest import ListedFile
from nightjar.firmware_scripts.debian.building import DebianPackage, File
from nightjar.firmware_scripts.debian.contents import debian_version, installed_files, model_files
from nightjar.wire.errors import ConfigError, RemoteProtocolError

AGENT, IBUS = "nightjar-agent", "nightjar-ibus"
ENGINE = "usr/libexec/nightjar-ibus"
"""What IBus starts."""
_HERE = Path(__file__).parent
_LIBRARY = "usr/lib/nightjar/lib"
_SHARED = "usr/share/nightjar"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_NOTHING_TO_LEARN_FROM = "make the bundle again with --model FOLDER, which 'python -m nightjar.models export' writes"


class BundleFiles:
    """Collects the files of a bundle while it is read (:func:`nightjar.firmware_scripts.bundle.reading.read_archive`).

    They are of use only once the whole bundle was read and found good.
    """

    def __init__(self) -> None:
        self._pieces: dict[str, list[bytes]] = {}

    def take(self, file: ListedFile, data: bytes) -> None:
        """Take a piece of a file."""
        self._pieces.setdefault(file.path, []).append(data)

    def whole(self) -> dict[str, bytes]:
        """The files by path."""
        return {path: b"".join(pieces) for path, pieces in self._pieces.items()}


def agent_package(checked: Checked, bundle: Mapping[str, bytes]) -> DebianPackage:
    """The package of the agent.

    Raises:
        ConfigError: the bundle has no model, or is for a machine that Debian has no name for.
        RemoteProtocolError: a wheel cannot be used.
    """
    facts = {name: str(checked.facts.get(name, "")) for name in ("agent", "machine", "python", "glibc")}
    architecture = _ARCHITECTURES.get(facts["machine"])
    if architecture is None:
        msg = f"there is no Debian architecture for {facts['machine']!r}; there are {', '.join(_ARCHITECTURES)}"
        raise ConfigError(msg)
    model = model_files(bundle)
    if not model:
        msg = f"the bundle has no model, which a desk starts with: {_NOTHING_TO_LEARN_FROM}"
        raise ConfigError(msg)
    modules = {f"{_LIBRARY}/{path}": File(data) for path, data in installed_files(bundle).items()}
    files = {
        **modules,
        **{f"{_SHARED}/model/{name}": File(data) for name, data in model.items()},
        f"{_SHARED}/desk.toml": File(_own("desk.toml")),
        "usr/bin/nightjar-agent": File(_own("nightjar-agent.sh"), 0o755),
        "usr/lib/systemd/user/nightjar-agent.service": File(_own("nightjar-agent.service")),
        f"usr/share/doc/{AGENT}/copyright": File(_own("copyright.txt")),
        f"usr/share/lintian/overrides/{AGENT}": File(_own("nightjar-agent.lintian-overrides.txt")),
        f"usr/share/doc/{AGENT}/sbom.cdx.json": File(bundle.get("sbom.cdx.json", b"")),
    }
    return DebianPackage(
        name=AGENT,
        version=debian_version(facts["agent"]),
        architecture=architecture,
        depends=f"python3 (>= {facts['python']}), python3 (<< {_next(facts['python'])}), "
        f"libc6 (>= {facts['glibc']}), libstdc++6",
        summary="foresees words in every program, and learns what you type on this computer",
        description=(
            "The agent holds a small language model that comes with it, and the words of\n"
            "the person who types. It answers programs of that person only, and connects\n"
            "to nobody unless the person enrols this computer for federated learning.\n"
            ".\n"
            "Install nightjar-ibus to type with it."
        ),
        files=files,
        scripts={name: _own(f"agent-{name}.sh") for name in ("postinst", "prerm", "postrm")},
        further={"Recommends": "nightjar-ibus"},
    )


def ibus_package(checked: Checked, component: str) -> DebianPackage:
    """The package of the input method; ``component`` is its file for IBus."""
    version = debian_version(str(checked.facts.get("agent", "")))
    return DebianPackage(
        name=IBUS,
        version=version,
        architecture="all",
        depends=f"{AGENT} (= {version}), python3, python3-gi, gir1.2-ibus-1.0, ibus",
        summary="next words, completion and correction in every program, through IBus",
        description=(
            "An engine for IBus that offers words while you type in programs of GTK, Qt\n"
            "and Chromium. It asks the agent of the same person, and inserts nothing that\n"
            "was not chosen. Password fields and terminals are left alone."
        ),
        files={
            ENGINE: File(_own("nightjar-ibus.sh"), 0o755),
            "usr/share/ibus/component/nightjar.xml": File(component.encode()),
            f"usr/share/doc/{IBUS}/copyright": File(_own("copyright.txt")),
        },
        scripts={},
        further={},
    )


def _own(name: str) -> bytes:
    """A file of this package.

    Raises:
        ConfigError: it is missing.
    """
    try:
        return (_HERE / name).read_bytes()
    except OSError as error:
        msg = f"{_HERE} is no whole Nightjar: {error}"
        raise ConfigError(msg) from error


def _next(python: str) -> str:
    """The minor version of Python after one: wheels with compiled code fit one version.

    >>> _next("3.11")
    '3.12'

    Raises:
        RemoteProtocolError: it is no version.
    """
    major, _, minor = python.partition(".")
    if not (major.isdecimal() and minor.isdecimal()):
        msg = f"expected a bundle for a Python such as 3.11, got {python[:40]!r}"
        raise RemoteProtocolError(msg, code="bundle")
    return f"{major}.{int(minor) + 1}"
