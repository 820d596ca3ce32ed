"""docs/from-nothing-to-a-card.md, word for word in an empty folder, as far as a machine without a board goes.

Part of ``make verify``. The card is a file, and the image is laid out as Raspberry Pi OS is, but small.
"""

import lzma
import os
import re
import subprocess
import time

import pytest

from tests.deploy.installed import ROOT, copy_tracked, make_environment, make_wheel
from tests.deploy.terminal import Terminal
from tests.firmware_scripts.stock_images import TRIXIE, make_image, missing

PAGE = (ROOT / "docs" / "from-nothing-to-a-card.md").read_text()
ANSWERS = "\n2\n127.0.0.1\n\n\nhome net\nGB\n"
"""Name, devices, address, board, SSH key, Wi-Fi and its country."""
TRIES = 60
CAUGHT = {"capture_output": True, "text": True, "check": False}

pytestmark = [
    pytest.mark.verify,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(missing()), reason="not installed: apt install mtools dosfstools fdisk"),
]


def test_the_page_leads_to_a_card_that_is_verified(tmp_path):
    make_environment(
        tmp_path / "environment", make_wheel(copy_tracked(tmp_path / "source"), tmp_path / "dist"), pip=True
    )
    path = f"{tmp_path / 'environment' / 'bin'}:{os.environ['PATH']}"
    rest = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment = rest | {"PATH": path, "NIGHTJAR_WIFI_PHRASE": "correct horse battery"}
    folder = tmp_path / "empty"
    folder.mkdir()
    make, follow = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    serve, targets, flash = (line.partition("#")[0].strip() for line in follow.splitlines())
    (verify,) = re.findall(r"`(nightjar-firmware verify [^`]+)`", PAGE)

    def typed(command, given=""):
        done = subprocess.run(["bash", "-e", "-c", command], cwd=folder, env=environment, input=given, **CAUGHT)
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    typed(make, ANSWERS)
    image = make_image(tmp_path / "pi.img", {**TRIXIE, "kernel8.img": "K" * 5000}, fat_mb=128)
    (folder / "pi.img.xz").write_bytes(lzma.compress(image.read_bytes()))
    with Terminal(folder, serve, environment) as server:
        typed(targets)
        flashed = typed(flash.replace("sudo ", "").replace("/dev/sdb", "card.img"))
        assert "home-01" in flashed
        assert "home net" in flashed
        assert "correct horse" not in flashed
        typed(verify.replace("/dev/sdb", "card.img"))
        for _ in range(TRIES):
            devices = subprocess.run(
                ["nightjar-coordinator", "device", "list", "--config", "home/coordinator.toml"],
                cwd=folder,
                env=environment,
                **CAUGHT,
            )
            if devices.returncode == 0:
                break
            time.sleep(1)
        assert server.process.poll() is None, server.log.read_text()
    assert devices.returncode == 0, devices.stderr
