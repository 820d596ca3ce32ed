"""A coordinator that asks for certificates, with a model that can be trained, and images of devices that join it."""

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nightjar.coordinator.config_file import load_config
from nightjar.coordinator.mqtt.free_ports import free_ports
from nightjar.coordinator.tls.contexts import AUTHORITIES, FOLDER
from nightjar.firmware_scripts.core.host_settings import HostSettings
from nightjar.firmware_scripts.customising import Order
from nightjar.firmware_scripts.image.debian import root_file_system
from nightjar.firmware_scripts.image.making import make_image, recipe_of
from nightjar.firmware_scripts.image.tools import PACKAGES, cache_folder, environment
from nightjar.firmware_scripts.shell.given_files import load_parcel
from nightjar.firmware_scripts.twin.coordinator import Coordinator
from nightjar.firmware_scripts.twin.machines import machine_of
from tests.enrolment.world import World
from tests.firmware_scripts.parcels import keys
from tests.firmware_scripts.twin.over_the_air import FILES, LINKS

ROOT = Path(__file__).parents[3]
# The one of a PC needs no emulation while its packages are configured, and starts in a third of the time.
BOARD = os.environ.get("NIGHTJAR_TWIN_BOARD", "virt-amd64")
PLATFORMS = {
    "virt-amd64": "bookworm-x86_64",
    "virt-arm64": "bookworm-aarch64",
    "virt-arm64-trixie": "trixie-aarch64",
}
PLATFORM = PLATFORMS[BOARD]
# Emulated, on a machine that may be busy with other things.
PATIENCE_S = float(os.environ.get("NIGHTJAR_TWIN_PATIENCE_S", "900"))

# Whom the first run makes, from inside its sandbox.
PERSON = "ada"
SSH_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ8nZ0mQ1zq0v2c8b1T6xwW3pJr4k5L6m7N8o9P0q1R2 ada@desk"
SETTINGS = """\
data_dir = "/var/lib/nightjar-agent"
[conditions]
hysteresis_s = 2.0
idle_after_s = 1.0
poll_s = 0.5
ignored = ["idle", "memory-free", "cool"]
[keyboard]
enabled = true
[limits]
cohort = 1
"""


def what_is_missing(board):
    path = environment()["PATH"]
    needed = [
        "mmdebstrap",
        "fakeroot",
        "mkfs.vfat",
        "mcopy",
        "mke2fs",
        "sfdisk",
        "make",
        "gcc",
        machine_of(board).program,
    ]
    return sorted({PACKAGES[name] for name in needed if shutil.which(name, path=path) is None})


MISSING = what_is_missing(BOARD)
MARKS = [
    pytest.mark.twin,
    pytest.mark.slow,
    pytest.mark.timeout(4 * PATIENCE_S),  # the longest story waits four times
    pytest.mark.skipif(bool(MISSING), reason=f"twins need what is not installed here: apt install {' '.join(MISSING)}"),
]


class Fleet(World):
    """A coordinator with one round after the other, each of one device; ``more`` goes into its task."""

    def __init__(self, folder, model, more=""):
        self.folder = folder
        port, self.broker_port = free_ports(2)
        self.path = folder / "coordinator.toml"
        self.path.write_text(
            f"""
            port = {port}
            data_dir = "data"
            transport = "tls"
            [broker]
            kind = "mosquitto"
            port = {self.broker_port}
            [task]
            model = "{model}"
            goal = 1
            minimum = 1
            over_selection = 1.0
            selection_window_s = 0.2
            selection_deadline_s = 3600.0
            report_deadline_s = 600.0
            retry_after_s = 1.0
            {more}
            [task.plan]
            max_steps = 4
            [limits]
            cohort = 1
            [rollout]
            devices = 1
            """
        )
        self.config = load_config(self.path, {})
        self.process = None

    def ports(self):
        """What a twin has to reach."""
        return [self.config.port, self.broker_port]

    def seen(self):
        """What ``twin --join`` looks at."""
        return Coordinator(self.config.url, (self.config.data_dir / FOLDER / AUTHORITIES).read_text(), "")

    def device(self, name):
        try:
            return self.ask("GET", f"/devices/{name}")
        except Exception:
            return {"state": "", "reason": ""}


def bundle_of_this_checkout(folder, root, platform=PLATFORM):
    """The whole agent with the packages that it needs, fetched from the index; its device trusts this root."""
    private, _ = keys(folder)
    command = [
        sys.executable,
        "-m",
        "nightjar.firmware_scripts",
        "bundle",
        "--platform",
        platform,
        "--key",
        str(private),
    ]
    command += ["--include", f"root.json={root}", "--output", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 3:
        pytest.skip(f"packages cannot be fetched: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stderr
    return next(folder.glob("nightjar-*.tar"))


def image_with(bundle, folder, board=BOARD):
    """An image with the agent in it; the root file system below it is kept in the user's cache."""
    cache = cache_folder(os.environ)
    cache.mkdir(parents=True, exist_ok=True)
    recipe = recipe_of(board)
    recipe = dataclasses.replace(recipe, files={**recipe.files, **FILES}, links={**recipe.links, **LINKS})
    root_file_system(recipe, cache, "", ())
    parcel = load_parcel(bundle, keys(bundle.parent)[1])
    return make_image(recipe, folder / "device.img", cache, "", (), parcel, lambda *_: None).image


def order(bundle, hostname, claim):
    parcel = load_parcel(bundle, keys(bundle.parent)[1])
    settings = HostSettings(hostname, PERSON, (SSH_KEY,), None, None)
    return Order(settings, parcel, SETTINGS, claim.read_bytes(), f"test-{hostname}")
