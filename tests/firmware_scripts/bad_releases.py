"""Releases of the agent that are bad on purpose, each in its own way, and one that is only newer.

``spoil`` changes an unpacked agent; ``spoiled_bundle`` makes a whole, properly signed bundle of one, as an owner would
who did not test it.
"""

import re
import shutil
import tarfile
import tempfile
import zipfile
from pathlib import Path

from nightjar.firmware_scripts.bundle.making import make_bundle
from nightjar.firmware_scripts.bundle.platforms import platform_named
from nightjar.firmware_scripts.bundle.signing import load_private_key
from nightjar.firmware_scripts.bundle.wheelhouse import AGENT_WHEELS

_TOP = "from __future__ import annotations\n"
_BORROWS = "\nimport sys\n\nsys.path.append('/opt/nightjar/releases/0.1.0/lib')\n"
KINDS = {
    # file, what is put in, and where: at its top or at its end
    "good": None,
    # whole, but for its packages, which are those of the first release: pip would take minutes in a twin
    "borrows": ("nightjar/edge_agent/__init__.py", _BORROWS, "end"),
    "crashes": ("nightjar/edge_agent/__main__.py", 'raise SystemExit("broken on purpose")\n', "top"),
    "hangs": (
        "nightjar/edge_agent/assembly.py",
        "\n\ndef run_agent(*_):\n    import time\n\n    time.sleep(10**6)\n",
        "end",
    ),
    "cannot connect": ("nightjar/edge_agent/shell/mqtt.py", "\nMqttTransport.start = lambda self: None\n", "end"),
    "cannot train": (
        "nightjar/edge_agent/commands/self_test.py",
        '\n\ndef self_test(config):\n    return Tested(False, "broken on purpose", "none")\n',
        "end",
    ),
}


def spoil(tree, kind, version):
    """Give an agent another version, and a fault."""
    init = tree / "nightjar/edge_agent/__init__.py"
    init.write_text(re.sub(r'__version__ = "[^"]+"', f'__version__ = "{version}"', init.read_text()))
    if KINDS[kind] is None:
        return
    name, text, where = KINDS[kind]
    path = tree / name
    source = path.read_text()
    path.write_text(source + text if where == "end" else source.replace(_TOP, _TOP + text, 1))


def spoiled_bundle(bundle, folder, kind, version, key, platform, packages="*"):
    """A bundle with such an agent, beside the packages of a good ``bundle``; returns its path in ``folder``.

    Only those of its other packages are kept whose files match ``packages``.
    """
    with tempfile.TemporaryDirectory(prefix="nightjar-") as name:
        work = Path(name)
        with tarfile.open(bundle) as archive:
            archive.extractall(work / "bundle", filter="data")
        (content,) = (work / "bundle").iterdir()
        (wheel,) = (content / "wheels").glob(AGENT_WHEELS)
        for package in set((content / "wheels").iterdir()) - {wheel, *(content / "wheels").glob(packages)}:
            package.unlink()
        _respun(wheel, work / "tree", kind, version)
        files = {str(path.relative_to(content)): path for path in content.rglob("*") if path.is_file()}
        others = {
            name: path.read_bytes() for name, path in files.items() if name == "root.json" or name.startswith("device/")
        }
        private = load_private_key(key)
        return make_bundle(platform_named(platform), content / "wheels", others, private, folder)


def _respun(wheel, tree, kind, version):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tree)
    spoil(tree, kind, version)
    (info,) = tree.glob("nightjar_federated-*.dist-info")
    newer = info.with_name(f"nightjar_federated-{version}.dist-info")
    info.rename(newer)
    metadata = newer / "METADATA"
    metadata.write_text(re.sub(r"^Version: .*$", f"Version: {version}", metadata.read_text(), flags=re.MULTILINE))
    # An empty record of hashes is allowed: what counts is the bundle's own manifest.
    files = sorted(path for path in tree.rglob("*") if path.is_file())
    (newer / "RECORD").write_text("".join(f"{path.relative_to(tree)},,\n" for path in files))
    wheel.unlink()
    with zipfile.ZipFile(wheel.with_name(f"nightjar_federated-{version}-py3-none-any.whl"), "w") as archive:
        for path in files:
            archive.write(path, path.relative_to(tree))
    shutil.rmtree(tree)
