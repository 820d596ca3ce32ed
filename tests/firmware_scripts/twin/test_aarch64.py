"""What the bundles for ARM do on ARM: under qemu-user one learns as here; today's Debian trains with the other."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nightjar.firmware_scripts.twin.joining import join
from nightjar.firmware_scripts.twin.person import sentences
from nightjar.firmware_scripts.twin.running import powered
from tests.edge_agent.conftest import exported  # noqa: F401 - a fixture
from tests.firmware_scripts.twin.fleet import (
    PATIENCE_S,
    PLATFORMS,
    bundle_of_this_checkout,
    image_with,
    what_is_missing,
)
from tests.firmware_scripts.twin.stories import switch_off, twin_of

ROOT = Path(__file__).parents[3]
TOOLS = ("qemu-aarch64-static", "mmdebstrap", "arch-test")
TRIXIE = "virt-arm64-trixie"

pytestmark = [
    pytest.mark.twin,
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(
        any(shutil.which(tool) is None for tool in TOOLS),
        reason="apt install qemu-user-static mmdebstrap arch-test uidmap: not installed here",
    ),
]


def test_the_same_steps_have_the_same_losses_on_arm(exported):  # noqa: F811 - the fixture
    script = ROOT / "scripts" / "bundle_on_aarch64.sh"
    done = subprocess.run(
        [script, exported.model.program.parent],
        cwd=ROOT,
        env={
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": str(Path.home()),
            "PYTHON": sys.executable,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "largest difference of a loss" in done.stderr


@pytest.mark.skipif(bool(what_is_missing(TRIXIE)), reason=f"apt install {' '.join(what_is_missing(TRIXIE))}")
def test_debian_13_commits_a_round_with_litert(owner, fleet, folder):
    place = folder / "trixie"
    place.mkdir()
    bundle = bundle_of_this_checkout(place, owner.root, PLATFORMS[TRIXIE])
    twin = twin_of(image_with(bundle, place, TRIXIE), bundle, fleet, folder, "trixie-01")
    with powered(twin, fleet.ports()) as machine:
        found = join(machine, twin.guest, fleet.seen(), "", sentences(), print, 4 * PATIENCE_S, enrols=True)
        assert found.report_committed
        assert fleet.device("trixie-01")["runtime"].startswith("ai-edge-litert 2.")
        assert "VERSION_CODENAME=trixie" in twin.guest.shell("cat /etc/os-release")
        switch_off(twin, machine)
