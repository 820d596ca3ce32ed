"""firstrun.sh, run by dash in a folder instead of /, with the programs that change users played."""

import os
import re
import subprocess

import pytest

from nightjar.firmware_scripts.core import firstrun
from nightjar.firmware_scripts.core.host_settings import HostSettings, Wifi, check_settings
from tests.firmware_scripts.stock_images import BOOKWORM

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl ann@laptop"
SETTINGS = HostSettings("porch-01", "ann", (KEY,), None, Wifi("home net", "a" * 64, "GB"))
PLAYED = ("usermod", "groupmod", "useradd", "systemctl", "chown", "hostname", "cancel-rename", "sync")
FOLDERS = (
    "etc/NetworkManager",
    "etc/ssh",
    "etc/sudoers.d",
    "boot/firmware/nightjar",
    "var/lib/systemd/rfkill",
    "home/ann",
)


@pytest.fixture
def board(tmp_path):
    root = tmp_path / "root"
    for folder in FOLDERS:
        (root / folder).mkdir(parents=True)
    (root / "etc/hosts").write_text("127.0.0.1\tlocalhost\n127.0.1.1\traspberrypi\n")
    (root / "var/lib/systemd/rfkill/platform-soc:wlan").write_text("1\n")
    (root / "boot/firmware/cmdline.txt").write_text(firstrun.command_line(BOOKWORM["cmdline.txt"], "GB") + "\n")
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in PLAYED:
        (commands / name).write_text(f'#!/bin/sh\necho "{name} $*" >>"$LOG"\nexit ${{FAILS-0}}\n')
    (commands / "id").write_text('#!/bin/sh\n[ -n "${THERE-}" ]\n')
    (commands / "getent").write_text(
        '#!/bin/sh\ncase "$2" in 1000) [ -z "${FIRST-}" ] || echo "$FIRST:x:1000:1000::/home/$FIRST:/bin/bash" ;;\n'
        f'ann) echo "ann:x:1000:1000::{root}/home/ann:/bin/bash" ;; sudo|video) echo "$2:x:27:" ;; *) exit 2 ;; esac\n'
    )
    for path in commands.iterdir():
        path.chmod(0o700)
    return tmp_path


def run(board, settings=SETTINGS, *, install=False, **environment):
    check_settings(settings)
    root = board / "root"
    script = root / "boot/firmware/firstrun.sh"
    text = firstrun.firstrun_script(settings, install=install)
    script.write_text(re.sub(r"(?<![\w./:~$}])/(etc|var|boot|home)\b", rf"{root}/\1", text))
    known = {"PATH": f"{board}/bin:{os.environ['PATH']}", "LOG": str(board / "log")}
    return subprocess.run(
        ["dash", str(script)], capture_output=True, text=True, check=False, env={**known, **environment}
    )


def log(board):
    path = board / "log"
    return path.read_text() if path.exists() else ""


def test_everything_is_set_up_and_the_script_is_gone(board):
    done = run(board, FIRST="pi")
    assert (done.returncode, done.stderr) == (0, "")
    root = board / "root"
    assert (root / "etc/hostname").read_text() == "porch-01\n"
    assert (root / "etc/hosts").read_text() == "127.0.0.1\tlocalhost\n127.0.1.1\tporch-01\n"
    said = log(board)
    assert "usermod --login ann pi\n" in said
    assert "usermod --append --groups sudo ann\n" in said
    assert "--groups netdev" not in said  # no such group in this image
    assert "usermod --password * ann\n" in said
    assert "cancel-rename ann\n" in said
    assert "systemctl enable ssh\n" in said
    sudo = root / "etc/sudoers.d/010_nightjar"
    assert (sudo.read_text(), sudo.stat().st_mode & 0o777) == ("ann ALL=(ALL) NOPASSWD:ALL\n", 0o440)
    keys = root / "home/ann/.ssh/authorized_keys"
    assert (keys.read_text(), keys.stat().st_mode & 0o777) == (KEY + "\n", 0o600)
    network = root / "etc/NetworkManager/system-connections/nightjar-wifi.nmconnection"
    assert network.stat().st_mode & 0o777 == 0o600
    assert "ssid=home net\n" in network.read_text()
    assert f"psk={'a' * 64}\n" in network.read_text()
    assert (root / "var/lib/systemd/rfkill/platform-soc:wlan").read_text() == "0\n"
    assert not (root / "boot/firmware/firstrun.sh").exists()
    line = (root / "boot/firmware/cmdline.txt").read_text()
    assert "systemd." not in line
    assert line.startswith(BOOKWORM["cmdline.txt"].strip())
    assert "cfg80211.ieee80211_regdom=GB" in line
    assert "first run done" in (root / "boot/firmware/nightjar-status.txt").read_text()


def test_an_image_without_a_first_user_gets_one_and_a_second_run_changes_nothing(board):
    assert run(board).returncode == 0
    assert "useradd --create-home --shell /bin/bash ann\n" in log(board)
    (board / "log").unlink()
    assert run(board, THERE="yes").returncode == 0
    assert "useradd" not in log(board)
    assert "usermod --login" not in log(board)
    hosts = (board / "root/etc/hosts").read_text()
    assert hosts.count("127.0.1.1") == 1


def test_whatever_fails_is_written_to_the_card_and_the_device_still_starts(board):
    done = run(board, FAILS="7")
    assert done.returncode == 0
    told = (board / "root/boot/firmware/nightjar-status.txt").read_text()
    assert "failed with status 7: useradd" in told
    assert "failed with status 7: systemctl enable" in told
    assert not (board / "root/boot/firmware/firstrun.sh").exists()


@pytest.mark.parametrize(
    ("installer", "told"),
    [
        ("echo fine\n", "the agent is in place"),
        ("echo step one\necho no room left\nexit 3\n", "could not be put in place (3): no room left"),
    ],
)
def test_the_outcome_of_the_installer_is_told(board, installer, told):
    (board / "root/boot/firmware/nightjar/install.sh").write_text(installer)
    assert run(board, HostSettings("porch-01"), install=True).returncode == 0
    assert told in (board / "root/boot/firmware/nightjar-status.txt").read_text()


def test_without_networkmanager_the_wifi_is_not_set_up_and_that_is_told(board):
    (board / "root/etc/NetworkManager").rmdir()
    assert run(board, FIRST="pi").returncode == 0
    assert "no NetworkManager here" in (board / "root/boot/firmware/nightjar-status.txt").read_text()


@pytest.mark.parametrize(
    ("ssid", "written"),
    [("home-2.4", "home-2.4"), ("caf\u00e9", "99;97;102;195;169;"), ("a;b", "97;59;98;"), (" x", "32;120;")],
)
def test_odd_names_of_networks_are_written_as_bytes(board, ssid, written):
    settings = HostSettings("porch-01", None, (), None, Wifi(ssid, "a" * 64, "GB"))
    assert run(board, settings).returncode == 0
    connection = board / "root/etc/NetworkManager/system-connections/nightjar-wifi.nmconnection"
    assert f"ssid={written}\n" in connection.read_text()
