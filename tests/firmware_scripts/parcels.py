"""Bundles as small as bundles can be, with what really runs on a device in them."""

import ensurepip
import hashlib
import json
import shutil
import sys
from pathlib import Path

from nightjar.firmware_scripts.bundle.making import make_bundle
from nightjar.firmware_scripts.bundle.platforms import platform_named
from nightjar.firmware_scripts.bundle.signing import load_private_key, make_key
from nightjar.firmware_scripts.device_program import device_files
from tests.firmware_scripts.bundle.wheels import make_wheel

PROJECT = Path(__file__).parents[2]


def keys(folder, name="fleet"):
    private, public = folder / f"{name}.key", folder / f"{name}.pub"
    if not private.exists():
        make_key(private, public)
    return private, public


HERE = f"{'bookworm' if sys.version_info[:2] == (3, 11) else 'trixie'}-x86_64"


def pip_wheel():
    """The pip that comes with Python, or with Debian's python3-venv; None without."""
    places = [Path(ensurepip.__file__).parent / "_bundled", Path("/usr/share/python-wheels")]
    return next((wheel for place in places for wheel in sorted(place.glob("pip-*.whl"))), None)


def small_bundle(folder, platform="bookworm-aarch64", version="0.1.0", key="fleet", more=None, root=None):
    """A bundle of the agent's name with nothing behind it but pip, ``more`` files, a root; made once in each folder."""
    made = folder / f"nightjar-{version}-{platform}.tar"
    if made.exists():
        return made
    house = folder / f"house-{version}-{platform}"
    shutil.rmtree(house, ignore_errors=True)
    house.mkdir(parents=True)
    make_wheel(house, "nightjar-federated", version, more=more)
    if pip_wheel() is not None:
        shutil.copy(pip_wheel(), house)
    others = device_files() | ({} if root is None else {"root.json": root.read_bytes()})
    private, _ = keys(folder, key)
    return make_bundle(platform_named(platform), house, others, load_private_key(private), folder)


def claim(folder, name="claim.json"):
    path = folder / name
    said = {
        "claim": "njc_0123456789abcdef",
        "url": "https://home:8443",
        "authority_sha256": hashlib.sha256(b"ca").hexdigest(),
    }
    path.write_text(json.dumps(said))
    return path
