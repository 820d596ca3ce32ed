"""What the bundle for ARM does on ARM, under qemu-user: it installs, imports, and learns as here."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.edge_agent.conftest import exported  # noqa: F401 - a fixture

ROOT = Path(__file__).parents[3]
TOOLS = ("qemu-aarch64-static", "mmdebstrap")

pytestmark = [
    pytest.mark.twin,
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(
        any(shutil.which(tool) is None for tool in TOOLS),
        reason="apt install qemu-user-static mmdebstrap uidmap: not installed here",
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
