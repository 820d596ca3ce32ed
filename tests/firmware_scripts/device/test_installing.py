"""install.sh and nightjar-device for real, into a folder; and with a systemd that is played."""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from nightjar.firmware_scripts.bundle.making import make_bundle
from nightjar.firmware_scripts.bundle.platforms import platform_named
from nightjar.firmware_scripts.bundle.signing import load_private_key
from nightjar.firmware_scripts.device_program import device_files
from tests.firmware_scripts.bad_releases import spoiled_bundle
from tests.firmware_scripts.command_line import firmware
from tests.firmware_scripts.parcels import HERE, PROJECT, keys, pip_wheel, small_bundle

SYSTEM_PYTHON = Path("/usr/bin/python3")
NEEDED = [
    name
    for name, there in {
        "openssl": shutil.which("openssl"),
        "Debian's own python3 3.11 or later": SYSTEM_PYTHON.exists(),
        "pip's wheel (python3-venv)": pip_wheel(),
    }.items()
    if not there
]
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(NEEDED), reason=f"missing: {', '.join(NEEDED)}")]


@pytest.fixture
def parcel(tmp_path):
    """What ``customise`` puts into the folder ``nightjar`` of a card."""
    folder = tmp_path / "card" / "nightjar"
    folder.mkdir(parents=True)
    _, public = keys(tmp_path)
    shutil.copy(public, folder / "bundle.pub")
    for name, data in device_files().items():
        if "/units/" not in name:
            (folder / Path(name).name).write_bytes(data)
    (folder / "agent.toml").write_text('device = "porch-01"\n')
    bring(tmp_path, "0.1.0")
    return folder


def bring(tmp_path, version, platform=HERE):
    shutil.copy(small_bundle(tmp_path, platform, version), tmp_path / "card" / "nightjar" / "bundle.tar")


def install(parcel, root, *more):
    (root / "boot" / "firmware").mkdir(parents=True, exist_ok=True)
    command = ["sh", str(parcel / "install.sh"), "--root", str(root), *more]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def device(root, *command):
    program = root / "opt/nightjar/nightjar-device.pyz"
    return subprocess.run(
        [str(SYSTEM_PYTHON), "-s", str(program), "--root", str(root), *command],
        capture_output=True,
        text=True,
        check=False,
    )


def tree(root):
    """Every path with what it is; times do not count."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if "__pycache__" in name or name.split("/")[0] == "boot":
            continue
        found[name] = str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else None
    return found


def test_it_installs_everything_and_a_second_time_changes_nothing(tmp_path, parcel):
    root = tmp_path / "root"
    for path in parcel.iterdir():
        path.chmod(0o700)  # as on a boot partition that is mounted for root alone
    done = install(parcel, root)
    assert done.returncode == 0, done.stderr
    for name, mode in (("etc/nightjar/agent.toml", 0o600), ("var/lib/nightjar/agent.toml.brought", 0o600)):
        assert (root / name).stat().st_mode & 0o777 == mode  # a broker's password may stand in it
    assert (root / "etc/nightjar/bundle.pub").stat().st_mode & 0o777 == 0o644
    assert str((root / "opt/nightjar/current").readlink()) == "releases/0.1.0"
    assert (root / "opt/nightjar/current/lib/nightjar_federated/__init__.py").is_file()
    assert not (root / "opt/nightjar/current/lib/pip").exists()
    assert not (root / "opt/nightjar/current/wheels").exists()
    wants = root / "etc/systemd/system/multi-user.target.wants"
    # The agent starts by itself only once its release counted; until then the trial starts it.
    assert [path.name for path in wants.iterdir()] == ["nightjar-firstboot.service"]
    assert str((wants / "nightjar-firstboot.service").readlink()) == "/etc/systemd/system/nightjar-firstboot.service"
    assert (root / "etc/nightjar/agent.toml").read_text() == 'device = "porch-01"\n'
    assert os.access(root / "usr/local/bin/nightjar-agent", os.X_OK)
    assert "release 0.1.0 is tried" in (root / "boot/firmware/nightjar-status.txt").read_text()
    before = tree(root)
    again = install(parcel, root)
    assert again.returncode == 0, again.stderr
    assert tree(root) == before


def test_a_dry_run_says_what_it_would_do_and_does_nothing(tmp_path, parcel):
    root = tmp_path / "root"
    done = install(parcel, root, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "would run: install -m 0644" in done.stdout
    assert f"holds release 0.1.0 for this device, signed by the key in {parcel / 'bundle.pub'}" in done.stdout
    assert done.stdout.endswith("nothing was changed\n")
    assert tree(root) == {}
    assert install(parcel, root).returncode == 0
    checked = install(parcel, root, "--dry-run")
    assert f"signed by the key in {root / 'etc/nightjar/bundle.pub'}" in checked.stdout


def test_a_dry_run_refuses_what_installing_would_refuse(tmp_path, parcel):
    bundle = parcel / "bundle.tar"
    data = bytearray(bundle.read_bytes())
    data[len(data) // 2] ^= 1
    bundle.write_bytes(data)
    done = install(parcel, tmp_path / "root", "--dry-run")
    assert done.returncode == 2, done.stderr
    assert "nothing was changed" not in done.stdout


def test_it_says_how_it_is_called(tmp_path, parcel):
    said = install(parcel, tmp_path / "root", "--help")
    assert said.returncode == 0
    assert "sh install.sh --uninstall [--with-data]" in said.stdout


def test_it_takes_everything_away_again_but_what_is_the_owners(tmp_path, parcel):
    root = tmp_path / "root"
    install(parcel, root)
    data = root / "var/lib/nightjar-agent"
    data.mkdir(parents=True)
    (data / "agent.db").write_text("typed")
    assert install(parcel, root, "--uninstall", "--dry-run").returncode == 0
    assert (root / "opt/nightjar/current").exists()
    assert install(parcel, root, "--uninstall").returncode == 0
    left = [name for name, what in tree(root).items() if what is not None]
    assert left == ["etc/nightjar/agent.toml", "etc/nightjar/bundle.pub", "var/lib/nightjar-agent/agent.db"]
    assert install(parcel, root, "--uninstall", "--with-data").returncode == 0
    assert [name for name, what in tree(root).items() if what is not None] == []


def test_settings_changed_on_the_device_stay_until_the_card_brings_others(tmp_path, parcel):
    root = tmp_path / "root"
    install(parcel, root)
    settings = root / "etc/nightjar/agent.toml"
    settings.write_text('device = "changed"\n')
    install(parcel, root)
    assert "changed" in settings.read_text()
    (parcel / "agent.toml").write_text('device = "newer"\n')
    install(parcel, root)
    assert "newer" in settings.read_text()


def test_a_card_of_another_owner_changes_nothing(tmp_path, parcel):
    root = tmp_path / "root"
    install(parcel, root)
    before = tree(root)
    _, other = keys(tmp_path, "other")
    shutil.copy(other, parcel / "bundle.pub")
    strangers = tmp_path / "strangers"
    strangers.mkdir()
    shutil.copy(tmp_path / "other.key", strangers / "fleet.key")
    shutil.copy(other, strangers / "fleet.pub")
    shutil.copy(small_bundle(strangers, HERE, "0.2.0"), parcel / "bundle.tar")
    done = install(parcel, root)
    assert done.returncode == 2
    assert "not signed by the key of this device" in (root / "boot/firmware/nightjar-status.txt").read_text()
    assert tree(root) == before


def test_a_bundle_with_a_flipped_byte_or_cut_short_is_not_unpacked(tmp_path, parcel):
    good = (parcel / "bundle.tar").read_bytes()
    with tarfile.open(parcel / "bundle.tar") as archive:
        wheel = next(member for member in archive if member.name.endswith(".whl"))
    damaged = bytearray(good)
    damaged[wheel.offset_data + 100] ^= 1
    for data in (bytes(damaged), good[: len(good) // 2], b"", b"not a tar" * 200):
        (parcel / "bundle.tar").write_bytes(data)
        root = tmp_path / "root"
        done = install(parcel, root)
        assert done.returncode != 0
        assert not (root / "opt/nightjar/current").exists()
        assert not list((root / "opt").rglob("*.py")) if (root / "opt").exists() else True


def test_a_bundle_for_another_machine_says_so(tmp_path, parcel):
    bring(tmp_path, "0.1.0", "bookworm-aarch64")
    done = install(parcel, tmp_path / "root")
    assert done.returncode != 0
    assert "the bundle is for machine aarch64, this device has x86_64" in done.stdout + done.stderr


def test_an_image_of_another_machine_can_be_given_a_release(tmp_path, parcel):
    root = tmp_path / "root"
    (root / "etc/nightjar").mkdir(parents=True)
    shutil.copy(parcel / "bundle.pub", root / "etc/nightjar")
    bundle = small_bundle(tmp_path, "bookworm-aarch64")
    command = [sys.executable, str(parcel / "nightjar-device.pyz"), "--root", str(root), "install", str(bundle)]
    options = "--only-binary=:all: --platform manylinux2014_aarch64 --python-version 311 --implementation cp"
    done = subprocess.run([*command, "--pip-options", options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (root / "opt/nightjar/current/lib/nightjar_federated").is_dir()


def test_missing_parts_are_named(tmp_path, parcel):
    (parcel / "bundle.pub").unlink()
    done = install(parcel, tmp_path / "root")
    assert (done.returncode, "bundle.pub is missing" in done.stderr) == (3, True)
    assert install(parcel, tmp_path / "root", "--fast").returncode == 2
    assert install(parcel, tmp_path / "nowhere", "--root").returncode == 2


def test_a_disk_without_room_leaves_the_device_as_it_was(tmp_path, parcel):
    root = tmp_path / "root"
    releases = root / "opt/nightjar/releases"
    releases.parent.mkdir(parents=True)
    releases.write_text("in the way")  # as good as a full disk: nothing can be put there
    done = install(parcel, root)
    assert done.returncode == 3
    assert "could not be put in place" in (root / "boot/firmware/nightjar-status.txt").read_text()
    assert json.loads(device_status(parcel, root))["state"] == "empty"


def device_status(parcel, root):
    command = [str(SYSTEM_PYTHON), str(parcel / "nightjar-device.pyz"), "--root", str(root), "status"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_program_on_the_device_tells_its_releases_and_what_is_wrong(tmp_path, parcel):
    root = tmp_path / "root"
    install(parcel, root)
    assert json.loads(device(root, "status").stdout) == {
        "format": 1, "state": "trying", "version": "0.1.0", "previous": None, "starts": 1, "refused": {},
    }  # fmt: skip
    found = json.loads(device(root, "doctor", "--json").stdout)
    assert {row["category"] for row in found} == {"release", "agent", "updates", "configuration", "disk"}
    assert all(row["remedy"] for row in found if row["level"] == "fault")


def test_installer_and_firstrun_are_free_of_what_shellcheck_finds():
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed: apt install shellcheck")
    scripts = [PROJECT / "firmware_scripts/device/install.sh", *(PROJECT / "firmware_scripts/android").glob("*.sh")]
    done = subprocess.run(["shellcheck", *map(str, scripts)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_units_are_what_systemd_understands(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: apt install systemd")
    for name, data in device_files().items():
        if not name.endswith(".service"):
            continue
        path = tmp_path / Path(name).name
        # The commands are not on this machine; that they are there is another test's business.
        path.write_bytes(re.sub(rb"^ExecStart=\S+", b"ExecStart=/bin/true", data, flags=re.MULTILINE))
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", str(path)], capture_output=True, text=True, check=False
        )
        complaints = [line for line in done.stderr.splitlines() if path.name in line]
        assert (done.returncode, complaints) == (0, []), done.stderr


def test_the_program_packed_twice_is_the_same_and_needs_nothing_but_python(tmp_path):
    files = device_files()
    assert files == device_files()
    program = tmp_path / "nightjar-device.pyz"
    program.write_bytes(files["device/nightjar-device.pyz"])
    command = [str(SYSTEM_PYTHON), "-I", "-S", str(program), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_the_real_bundle_installs_with_no_network_and_its_agent_runs(tmp_path, parcel):
    if subprocess.run([str(SYSTEM_PYTHON), "-c", "import sys; sys.exit(sys.version_info[:2] != (3, 11))"]).returncode:
        pytest.skip("the bundle for bookworm needs Python 3.11 in /usr/bin")
    done = firmware("bundle", "--platform", "bookworm-x86_64", "--key", tmp_path / "fleet.key", "--output", tmp_path)
    if done.returncode == 3:
        pytest.skip(f"the package index cannot be reached: {done.stderr[:200]}")
    assert done.returncode == 0, done.stderr
    (bundle,) = tmp_path.glob("nightjar-0.1.0-*.tar")
    shutil.copy(bundle, parcel / "bundle.tar")
    root = tmp_path / "root"
    (root / "boot/firmware").mkdir(parents=True)
    # Without a network: no route leads anywhere.
    command = ["unshare", "--net", "--map-root-user", "sh", str(parcel / "install.sh"), "--root", str(root)]
    if subprocess.run(["unshare", "--net", "--map-root-user", "true"], capture_output=True, check=False).returncode:
        command = command[3:]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (root / "agent.toml").write_text(f'device = "d"\ndata_dir = "{root}/data"\n')
    agent = [
        str(SYSTEM_PYTHON),
        "-s",
        "-P",
        "-m",
        "nightjar.edge_agent",
        "self-test",
        "--config",
        str(root / "agent.toml"),
    ]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(root / "opt/nightjar/current/lib")}
    done = subprocess.run(agent, capture_output=True, text=True, check=False, cwd="/", env=environment)
    assert done.returncode == 0, done.stderr
    assert "passed with ai-edge-litert" in done.stdout


@pytest.mark.slow
def test_a_spoiled_bundle_is_a_whole_one_of_another_version(tmp_path, parcel):
    shutil.copytree(
        PROJECT / "edge_agent", tmp_path / "agent/nightjar/edge_agent", ignore=shutil.ignore_patterns("__pycache__")
    )
    good = small_bundle(tmp_path, HERE)
    with tarfile.open(good) as archive:
        archive.extractall(tmp_path / "good", filter="data")
    (wheel,) = (tmp_path / "good").glob("*/wheels/nightjar_federated-*.whl")
    with zipfile.ZipFile(wheel, "a") as archive:
        for path in (tmp_path / "agent").rglob("*.py"):
            archive.write(path, path.relative_to(tmp_path / "agent"))
    house = wheel.parent
    key = load_private_key(tmp_path / "fleet.key")
    good = make_bundle(platform_named(HERE), house, own_files(house.parent), key, tmp_path)
    bad = spoiled_bundle(good, tmp_path / "bad", "crashes", "0.2.0", tmp_path / "fleet.key", HERE)
    shutil.copy(bad, parcel / "bundle.tar")
    root = tmp_path / "root"
    done = install(parcel, root)
    assert done.returncode == 0, done.stderr
    lib = root / "opt/nightjar/current/lib/nightjar/edge_agent"
    assert '__version__ = "0.2.0"' in (lib / "__init__.py").read_text()
    assert "broken on purpose" in (lib / "__main__.py").read_text()


def own_files(content):
    paths = [path for path in (content / "device").rglob("*") if path.is_file()]
    return {str(path.relative_to(content)): path.read_bytes() for path in paths}


def test_two_at_once_do_not_get_into_each_others_way(tmp_path, parcel):
    root = tmp_path / "root"
    kept = root / "var/lib/nightjar"
    kept.mkdir(parents=True)
    with (kept / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = install(parcel, root)
    assert done.returncode == 3
    assert "another nightjar-device is at work" in (root / "boot/firmware/nightjar-status.txt").read_text()
    assert not (root / "opt/nightjar/current").exists()
    assert install(parcel, root).returncode == 0
