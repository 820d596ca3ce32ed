"""Every unit that we ship leaves little exposed, and the page of sandboxes explains what."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from nightjar.firmware_scripts.device_program import device_files
from tests.deploy.sandboxes import MOST_EXPOSURE, OF_A_COORDINATOR, ON_A_DESK

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "sandboxes.md").read_text()
DESK = ROOT / "firmware_scripts" / "debian" / "nightjar-agent.service"
BARS = MOST_EXPOSURE | OF_A_COORDINATOR


def shipped():
    """The text of each unit of the system's systemd, by its name."""
    coordinator = ROOT / "deploy" / "nightjar-coordinator.service"
    made = {Path(name).stem: data.decode() for name, data in device_files().items() if name.endswith(".service")}
    return made | {coordinator.stem: coordinator.read_text()}


def test_every_unit_file_has_a_bar():
    files = [path for part in ("deploy", "edge_agent", "firmware_scripts") for path in (ROOT / part).rglob("*.service")]
    assert {path.stem for path in files if path != DESK} <= BARS.keys()
    assert shipped().keys() == BARS.keys()


def analyzed(*arguments, **environment):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: apt install systemd")
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", *arguments],
        capture_output=True, text=True, check=False, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin", **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", sorted(BARS))
def test_a_unit_leaves_little_exposed_and_the_page_says_how_much_at_most(name, tmp_path):
    unit = tmp_path / f"{name}.service"
    unit.write_text(shipped()[name])
    found = re.search(r"exposure level for \S+: ([\d.]+)", analyzed(str(unit)))
    assert float(found[1]) <= BARS[name]
    assert re.search(rf"^\|.*`{name}\.service`.*\|{BARS[name]:g}\|$", PAGE, re.MULTILINE)


def test_the_page_explains_each_exposure_that_remains_and_no_other(tmp_path):
    remaining = set()
    for name, text in shipped().items():
        unit = tmp_path / f"{name}.service"
        unit.write_text(text)
        rows = json.loads(analyzed("--json=short", str(unit)))
        remaining |= {row["name"] for row in rows if float(row.get("exposure") or 0) > 0}
    explained = re.findall(r"^\|`(\S+=\S*)`\|.+\|.+\|$", PAGE, re.MULTILINE)
    assert sorted(remaining) == sorted(name.replace("\\|", "|") for name in explained)


def test_a_persons_own_unit_has_what_their_systemd_can_do(tmp_path):
    said = analyzed("--user", str(DESK), XDG_RUNTIME_DIR=str(tmp_path))
    found = re.search(r"exposure level for \S+: ([\d.]+)", said)
    assert float(found[1]) <= ON_A_DESK
    assert f"It scores at most {ON_A_DESK:g}." in PAGE
