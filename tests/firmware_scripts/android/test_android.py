"""A played phone on the real ``adb``, and Termux's installer in a played Termux."""

import hashlib
import io
import json
import os
import re
import shutil
import socket
import subprocess
import tarfile

import pytest

from nightjar.firmware_scripts.android.push import packed
from tests.edge_agent.emulator.adb_server import AdbServer, serving
from tests.firmware_scripts.command_line import firmware
from tests.firmware_scripts.parcels import PROJECT, claim, keys, small_bundle

INSTALLER = PROJECT / "firmware_scripts/android/termux-install.sh"
FOLDER = "/sdcard/Download/nightjar"


class PlayedPhone:
    """What a phone prints; ``bad`` is a file that its storage lost."""

    def __init__(self, abi="arm64-v8a"):
        self.abi, self.bad, self.asked = abi, None, []
        self.server = AdbServer("R58M123", self.shell)

    def shell(self, command):
        self.asked.append(command)
        if command.startswith("getprop"):
            return self.abi + "\n"
        if found := re.fullmatch(r"sha256sum (\S+)", command):
            data = self.server.files.get(found[1], b"")
            data = data[:-1] if found[1] == self.bad else data
            return f"{hashlib.sha256(data).hexdigest()}  {found[1]}\n"
        return ""


@pytest.fixture
def phone(monkeypatch):
    if shutil.which("adb") is None:
        pytest.skip("the real adb client is not installed: apt install adb")
    played = PlayedPhone()
    with serving(played.server) as server:
        monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(server.port))
        yield played


@pytest.fixture
def place(tmp_path):
    keys(tmp_path)
    (tmp_path / "agent.toml").write_text(
        f'coordinator_url = "https://192.0.2.1:8080"\ncoordinator_key = "{"ab" * 32}"\n'
    )
    return tmp_path


def push(place, *more, serial="R58M123", platform="trixie-aarch64"):
    return firmware(
        "android", "push", "--serial", serial, "--bundle", small_bundle(place, platform),
        "--public-key", place / "fleet.pub", "--config", place / "agent.toml", *more,
    )  # fmt: skip


def pushed(phone):
    """The files that a phone got, by name."""
    with tarfile.open(fileobj=io.BytesIO(phone.server.files[f"{FOLDER}/nightjar.tar"])) as archive:
        return {m.name.removeprefix("nightjar/"): archive.extractfile(m).read() for m in archive.getmembers()}


@pytest.mark.parametrize("changed", [False, True])
def test_what_another_app_changed_after_the_push_is_not_started(place, phone, tmp_path, changed):
    done = push(place, "--claim-file", claim(place))
    command = done.stdout.rpartition("\n  ")[2]
    home = tmp_path / "termux"
    shared = home / "storage/downloads/nightjar/nightjar.tar"
    shared.parent.mkdir(parents=True)
    shared.write_bytes(phone.server.files[f"{FOLDER}/nightjar.tar"])
    if changed:
        files = pushed(phone) | {"termux-install.sh": b"echo evil\n"}
        shared.write_bytes(packed(files))
    typed = command.replace("sh nightjar/termux-install.sh", "echo started; ls nightjar")
    said = subprocess.run(["sh", "-c", typed], env=os.environ | {"HOME": str(home)}, capture_output=True, text=True)
    assert ("started" in said.stdout) is not changed
    assert not shared.exists()  # the claim is out of the other apps' sight, too
    assert (home / "nightjar").exists() is not changed


def test_the_real_adb_pushes_the_agent_and_the_phone_hashes_every_file(place, phone):
    done = push(place, "--claim-file", claim(place))
    assert done.returncode == 0, done.stderr
    there = pushed(phone)
    assert sorted(there) == [
        "agent.toml", "bundle.pub", "bundle.tar", "claim.json", "install.sh", "nightjar-device.pyz",
        "termux-install.sh",
    ]  # fmt: skip
    assert there["bundle.tar"] == small_bundle(place, "trixie-aarch64").read_bytes()
    assert there["termux-install.sh"] == INSTALLER.read_bytes()
    assert sum("sha256sum" in command for command in phone.asked) == len(phone.server.files) == 1
    assert "7 files are in" in done.stdout
    assert "njc_" not in done.stdout + done.stderr


def test_without_a_claim_the_phone_is_called_by_its_serial_number(place, phone):
    assert push(place).returncode == 0
    assert b'device = "r58m123"' in pushed(phone)["agent.toml"]


def test_a_phone_that_holds_something_else_is_told(place, phone):
    phone.bad = f"{FOLDER}/nightjar.tar"
    done = push(place)
    assert done.returncode == 3
    assert "is not what was pushed" in done.stderr


def test_no_phone_is_chosen_for_you_and_a_wrong_one_gets_nothing(place, phone):
    assert firmware("android", "push", "--bundle", "x", "--public-key", "y").returncode == 2
    done = push(place, serial="R58M999")
    assert done.returncode == 2
    assert "there are: R58M123" in done.stderr
    assert push(place, serial="; rm -rf /").returncode == 2
    phone.abi = "armeabi-v7a"
    done = push(place)
    assert done.returncode == 2
    assert "is armv7l, the bundle is for aarch64" in done.stderr
    assert phone.server.files == {}


def test_phones_are_listed(phone):
    assert json.loads(firmware("android", "list", "--json").stdout) == [{"serial": "R58M123", "state": "device"}]
    assert firmware("android", "list").stdout == "R58M123  device\n"


def test_a_phone_that_does_not_let_us_in_says_what_to_do():
    from nightjar.firmware_scripts.android.push import ListedPhone, choose, phones
    from nightjar.wire.errors import ConfigError

    (found,) = phones(lambda *_: "List of devices attached\nR58M123\tunauthorized\n\n")
    assert found == ListedPhone("R58M123", "unauthorized")
    with pytest.raises(ConfigError, match="allow this computer"):
        choose((found,), "R58M123")


def test_without_adb_it_says_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    done = firmware("android", "list")
    assert done.returncode == 3
    assert "apt install adb" in done.stderr


# ---- Termux ----------------------------------------------------------------------------------------------------------

PROOT = """#!/bin/sh
echo "proot-distro $*" >>"$LOG"
[ "$1" != install ] || mkdir -p "$PREFIX/var/lib/proot-distro/installed-rootfs/$2"
"""


@pytest.fixture
def termux(tmp_path):
    """A Termux: its own folders, and its commands, which say what they were asked."""
    prefix = tmp_path / "data/data/com.termux/files/usr"
    (prefix / "bin").mkdir(parents=True)
    commands = {
        "pkg": '#!/bin/sh\necho "pkg $*" >>"$LOG"\n',
        "uname": "#!/bin/sh\necho ${MACHINE-aarch64}\n",
        "termux-battery-status": "#!/bin/sh\nexit ${BATTERY-0}\n",
        "proot-distro": PROOT,
    }
    for name, text in commands.items():
        (prefix / "bin" / name).write_text(text)
        (prefix / "bin" / name).chmod(0o700)
    folder = tmp_path / "nightjar"
    folder.mkdir()
    for name in ("bundle.tar", "bundle.pub", "install.sh", "nightjar-device.pyz", "agent.toml"):
        (folder / name).write_text("x")
    shutil.copy(INSTALLER, folder)
    (tmp_path / "home").mkdir()
    return tmp_path


def in_termux(place, *options, **environment):
    prefix = place / "data/data/com.termux/files/usr"
    known = {
        "PREFIX": str(prefix), "HOME": str(place / "home"), "LOG": str(place / "log"),
        "PATH": f"{prefix}/bin:{os.environ['PATH']}",
    }  # fmt: skip
    return subprocess.run(
        ["dash", str(place / "nightjar/termux-install.sh"), *options],
        capture_output=True, text=True, check=False, env={**known, **environment},
    )  # fmt: skip


def log(place):
    path = place / "log"
    return path.read_text() if path.exists() else ""


def test_it_puts_the_agent_into_a_debian_and_starts_it_with_the_phone(termux):
    (termux / "nightjar/claim.json").write_text("{}")
    done = in_termux(termux)
    assert done.returncode == 0, done.stderr
    said = log(termux)
    assert said.index("pkg install -y proot-distro termux-api") < said.index("proot-distro install debian")
    login = f"proot-distro login debian --bind {termux}/nightjar:/mnt/nightjar -- "
    assert f"{login}sh /mnt/nightjar/install.sh\n" in said
    assert f"{login}nightjar-agent enrol --config /etc/nightjar/agent.toml --claim /mnt/nightjar/claim.json\n" in said
    assert not (termux / "nightjar/claim.json").exists()
    boot = termux / "home/.termux/boot/nightjar"
    assert boot.stat().st_mode & 0o777 == 0o700
    assert "termux-wake-lock" in boot.read_text()
    assert subprocess.run(["dash", "-n", str(boot)], check=False).returncode == 0
    assert in_termux(termux).returncode == 0
    assert log(termux).count("proot-distro install debian") == 1


def test_it_can_be_tried_dry_and_taken_away_again(termux):
    done = in_termux(termux, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "would run: pkg install" in done.stdout
    assert log(termux) == ""
    in_termux(termux)
    assert in_termux(termux, "--uninstall", "--with-data").returncode == 0
    assert not (termux / "home/.termux/boot/nightjar").exists()
    assert "install.sh --uninstall --with-data" in log(termux)


@pytest.mark.parametrize(
    ("environment", "options", "status", "words"),
    [
        ({"PREFIX": "/usr"}, (), 2, "runs in Termux on a phone"),
        ({"MACHINE": "armv8l"}, (), 2, "aarch64 only"),
        ({"BATTERY": "1"}, (), 3, "Termux:API does not answer"),
        ({}, ("--fast",), 2, "unknown option"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_changed(termux, environment, options, status, words):
    done = in_termux(termux, *options, **environment)
    assert done.returncode == status
    assert words in done.stderr
    assert "install debian" not in log(termux)


def test_a_parcel_that_is_not_whole_is_told(termux):
    (termux / "nightjar/bundle.pub").unlink()
    done = in_termux(termux)
    assert (done.returncode, "bundle.pub is missing" in done.stderr) == (2, True)


def test_the_played_server_takes_pieces_and_tells_what_is_there():
    played = PlayedPhone()
    with serving(played.server) as server, socket.create_connection(("127.0.0.1", server.port), 10) as line:
        for request in (b"host:transport:R58M123", b"sync:"):
            line.sendall(f"{len(request):04x}".encode() + request)
            assert line.recv(4) == b"OKAY"
        name = b"/sdcard/x,33188"
        data = b"DATA" + (3).to_bytes(4, "little") + b"abc" + b"DATA" + (2).to_bytes(4, "little") + b"de"
        line.sendall(b"SEND" + len(name).to_bytes(4, "little") + name + data + b"DONE" + bytes(4))
        assert line.recv(8) == b"OKAY" + bytes(4)
        line.sendall(b"STAT" + (9).to_bytes(4, "little") + b"/sdcard/x")
        assert line.recv(16)[4:12] == (0o100644).to_bytes(4, "little") + (5).to_bytes(4, "little")
    assert played.server.files == {"/sdcard/x": b"abcde"}
