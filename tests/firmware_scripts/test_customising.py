"""What ``customise`` said is what is there: images looked into by mtools, with nothing of ours between."""

import hashlib
import json
import shutil
import subprocess

import pytest

from nightjar.firmware_scripts import customising
from nightjar.firmware_scripts.core.host_settings import wifi_key
from nightjar.firmware_scripts.shell import fat as fat_module
from nightjar.firmware_scripts.shell.settings_check import check_agent_settings, cloud_init_schema
from nightjar.wire.errors import ConfigError
from tests.firmware_scripts.command_line import firmware
from tests.firmware_scripts.parcels import claim, keys, small_bundle
from tests.firmware_scripts.stock_images import BOOKWORM, OWN, TRIXIE, make_image, missing, names, read

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason=f"not installed: {', '.join(missing())} (mtools dosfstools fdisk)"),
]

SSH = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl ann@laptop"
HASH = "$y$j9T$0123456789abcdefghijk.$" + "x" * 43
PHRASE = "correct horse battery"
CONFIG = """\
device = "phone-01"
population = "home"
coordinator_url = "https://192.0.2.1:8080"
coordinator_key = "abababababababababababababababababababababababababababababababab"
[broker]
host = "192.0.2.1"
tls = true
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("NIGHTJAR_WIFI_PHRASE", PHRASE)
    (tmp_path / "id.pub").write_text(SSH + "\n")
    (tmp_path / "hash").write_text(HASH + "\n")
    (tmp_path / "agent.toml").write_text(CONFIG)
    keys(tmp_path)
    return tmp_path


def customise(place, image, *more, platform="trixie-aarch64"):
    bundle = small_bundle(place, platform)
    return firmware(
        "customise", image, "--hostname", "porch-01", "--user", "ann", "--ssh-key", place / "id.pub",
        "--wifi", "home net", "--wifi-country", "GB", "--bundle", bundle, "--public-key", place / "fleet.pub",
        "--config", place / "agent.toml", *more,
    )  # fmt: skip


def texts(path):
    return {name: read(path, name).decode() for name in names(path) if not name.endswith("nightjar")}


def test_trixie_gets_the_files_of_cloud_init_and_every_byte_is_there(place):
    image = make_image(place / "pi.img", TRIXIE)
    done = customise(place, image)
    assert done.returncode == 0, done.stderr
    user = read(image, "user-data").decode()
    assert user.startswith("#cloud-config\n")
    data = json.loads(user.partition("\n")[2])
    assert data["hostname"] == "porch-01"
    assert data["users"][0]["ssh_authorized_keys"] == [SSH]
    assert data["users"][0]["lock_passwd"]
    assert data["runcmd"][-1] == ["sh", "/boot/firmware/nightjar/install.sh"]
    network = json.loads(read(image, "network-config"))["network"]
    point = network["wifis"]["wlan0"]["access-points"]["home net"]
    assert point == {"password": wifi_key("home net", PHRASE)}
    meta = json.loads(read(image, "meta-data"))
    assert meta["local-hostname"] == "porch-01"
    line = read(image, "cmdline.txt").decode()
    assert f"ds=nocloud;i={meta['instance-id']} " in line
    assert line.count("\n") == 1
    parcel = ["agent.toml", "bundle.pub", "bundle.tar", "install.sh", "nightjar-device.pyz"]
    assert names(image, "nightjar/") == [f"nightjar/{name}" for name in parcel]
    assert read(image, "nightjar/bundle.tar") == small_bundle(place, "trixie-aarch64").read_bytes()
    assert read(image, "nightjar/agent.toml").decode() == CONFIG.replace("phone-01", "porch-01")


def test_bookworm_gets_a_script_that_its_command_line_runs_once(place):
    image = make_image(place / "pi.img", BOOKWORM)
    done = customise(place, image, platform="bookworm-aarch64")
    assert done.returncode == 0, done.stderr
    line = read(image, "cmdline.txt").decode()
    assert line.startswith(BOOKWORM["cmdline.txt"].strip())
    assert line.endswith(
        " cfg80211.ieee80211_regdom=GB systemd.run=/boot/firmware/firstrun.sh systemd.run_success_action=reboot "
        "systemd.unit=kernel-command-line.target\n"
    )
    script = read(image, "firstrun.sh").decode()
    assert subprocess.run(["dash", "-n"], input=script, text=True, check=False).returncode == 0
    assert SSH in script
    assert f"psk={wifi_key('home net', PHRASE)}" in script
    assert "user-data" not in names(image)
    assert customise(place, image, platform="bookworm-aarch64").returncode == 0
    assert read(image, "cmdline.txt").decode() == line


def test_an_image_of_our_own_gets_the_script_and_keeps_its_command_line(place):
    image = make_image(place / "own.img", OWN)
    done = customise(place, image, platform="bookworm-aarch64")
    assert done.returncode == 0, done.stderr
    assert "firstrun.sh" in names(image)
    assert "cmdline.txt" not in names(image)
    assert "nightjar: nightjar/image.json says nightjar-1" in done.stdout


def test_a_card_that_is_customised_again_is_another_new_device(place):
    image = make_image(place / "pi.img", TRIXIE)
    ids = []
    for _ in range(2):
        assert customise(place, image).returncode == 0
        ids.append(json.loads(read(image, "meta-data"))["instance-id"])
    assert ids[0] != ids[1]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"config.txt": ""}, "it cannot be told how this image takes its settings"),
        ({"issue.txt": BOOKWORM["issue.txt"]}, "it cannot be told"),
        ({"cmdline.txt": "quiet\n"}, "it cannot be told"),
        ({**BOOKWORM, "issue.txt": "Raspberry Pi reference 2022-01-28\n"}, "before bookworm"),
        ({**BOOKWORM, "issue.txt": "Raspberry Pi reference 2026-01-28\n"}, "write the card again"),
        ({"nightjar/image.json": '{"format": "nightjar-9"}'}, "nightjar-9"),
        ({"nightjar/image.json": "[]"}, "knows 'nightjar-1'"),
    ],
)
def test_an_image_that_does_not_say_its_format_is_refused_and_left_as_it_is(place, files, words):
    image = make_image(place / "odd.img", files)
    before = image.read_bytes()
    done = customise(place, image)
    assert done.returncode == 2
    assert words in done.stderr
    assert image.read_bytes() == before


def test_a_bundle_for_another_kind_of_device_is_refused(place):
    image = make_image(place / "pi.img", TRIXIE)
    done = customise(place, image, platform="bookworm-aarch64")
    assert done.returncode == 2
    assert "the bundle is for bookworm-aarch64, the image is trixie-aarch64" in done.stderr


def test_a_dry_run_says_all_of_it_and_writes_nothing(place):
    image = make_image(place / "pi.img", TRIXIE)
    before = image.read_bytes()
    done = customise(place, image, "--dry-run", "--json", "--claim-file", claim(place))
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["format"], said["written"], said["hostname"]) == ("cloud-init", False, "porch-01")
    assert {"path": "nightjar/claim.json", "size_bytes": claim(place).stat().st_size} in said["files"]
    assert any("enrols with the claim" in line for line in said["first_start"])
    assert image.read_bytes() == before


@pytest.mark.parametrize("files", [TRIXIE, BOOKWORM], ids=["trixie", "bookworm"])
def test_no_secret_is_printed_and_only_the_claim_lies_on_the_card(place, files):
    image = make_image(place / "pi.img", files)
    platform = "trixie-aarch64" if files is TRIXIE else "bookworm-aarch64"
    more = ("--password-hash", place / "hash", "--claim-file", claim(place))
    for extra in (("--json", "--dry-run"), ("--dry-run",), ()):
        done = customise(place, image, *more, *extra, platform=platform)
        assert done.returncode == 0, done.stderr
        for secret in (PHRASE, wifi_key("home net", PHRASE), HASH, "njc_"):
            assert secret not in done.stdout + done.stderr
    whole = image.read_bytes()
    assert PHRASE.encode() not in whole
    assert whole.count(b"njc_0123456789abcdef") == 1
    # With a claim the coordinator says who the device is.
    assert b"device =" not in read(image, "nightjar/agent.toml")


def test_a_claim_alone_is_enough_for_an_agent(place):
    image = make_image(place / "pi.img", TRIXIE)
    bundle = small_bundle(place, "trixie-aarch64")
    parcel = ("--bundle", bundle, "--public-key", place / "fleet.pub")
    without = firmware("customise", image, "--hostname", "porch-01", *parcel)
    assert without.returncode == 2
    assert "would not know its coordinator" in without.stderr
    assert firmware("customise", image, "--hostname", "porch-01", *parcel, "--claim-file", claim(place)).returncode == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--hostname", "Porch 01"), "is no host name"),
        (("--hostname", "a", "--user", "root"), "is no name for a user"),
        (("--hostname", "a", "--user", "ann"), "nobody could log in as ann"),
        (("--hostname", "a", "--user", "ann", "--ssh-key", "id"), "PRIVATE key"),
        (("--hostname", "a", "--user", "ann", "--ssh-key", "short"), "cut short"),
        (("--hostname", "a", "--user", "ann", "--password-hash", "plain"), "is no hash of yescrypt"),
        (("--hostname", "a", "--wifi", "net"), "Wi-Fi needs the country"),
        (("--hostname", "a", "--wifi-country", "GB"), "needs --wifi"),
        (("--user", "ann"), "give at least --hostname"),
        (("--hostname", "a", "--claim-file", "plain"), "the claim file is none"),
        (("--hostname", "a", "--config", "plain"), "of no use without the agent"),
        (("--hostname", "a", "--bundle", "plain"), "need each other"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_looked_at(place, options, words):
    (place / "id").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    (place / "short").write_text(SSH[:30])
    (place / "plain").write_text("hunter2")
    given = [str(place / o) if o in {"id", "short", "plain"} else o for o in options]
    image = place / "pi.img"
    image.write_bytes(b"never read")
    done = firmware("customise", image, *given)
    assert done.returncode == 2
    assert words in done.stderr
    assert "hunter2" not in done.stderr


def test_a_bundle_that_another_key_signed_or_that_was_changed_goes_onto_no_card(place):
    image = make_image(place / "pi.img", TRIXIE)
    keys(place, "other")
    bundle = small_bundle(place, "trixie-aarch64")
    done = firmware(
        "customise", image, "--hostname", "a", "--bundle", bundle, "--public-key", place / "other.pub",
        "--config", place / "agent.toml",
    )  # fmt: skip
    assert done.returncode != 0
    assert "not signed by this key" in done.stderr
    assert "nightjar" not in names(image)


def test_a_byte_that_reads_back_wrong_is_a_bad_card(place, monkeypatch):
    image = make_image(place / "pi.img", TRIXIE)
    honest = fat_module.Fat.read

    def lies(self, name):
        data = honest(self, name)
        return data[:-1] + b"?" if data and name == "nightjar/bundle.pub" else data

    monkeypatch.setattr(fat_module.Fat, "read", lies)
    done = customise(place, image)
    assert done.returncode == 8
    assert "reads back other than it was written" in done.stderr


def test_a_boot_partition_without_room_is_told_and_left_as_it_is(place):
    image = make_image(place / "pi.img", TRIXIE)
    room = 64 * 2**20 - 1_600_000
    with (place / "filler").open("wb") as file:
        file.truncate(room)
    subprocess.run(["mcopy", "-i", f"{image}@@{4 * 2**20}", str(place / "filler"), "::/kernel8.img"], check=True)
    before = hashlib.sha256(image.read_bytes()).digest()
    done = customise(place, image)
    assert done.returncode == 3
    assert "has room for" in done.stderr
    assert hashlib.sha256(image.read_bytes()).digest() == before


def test_the_trigger_is_written_last_so_that_a_cut_card_starts_as_it_was(place, monkeypatch):
    image = make_image(place / "pi.img", TRIXIE)
    honest = fat_module.Fat.write

    def pulled_out(self, name, data):
        if name == "meta-data":
            raise customising.UnavailableError("pulled out")
        honest(self, name, data)

    monkeypatch.setattr(fat_module.Fat, "write", pulled_out)
    assert customise(place, image).returncode == 3
    assert read(image, "meta-data").decode() == TRIXIE["meta-data"]


def test_files_that_are_no_images_and_packed_ones_are_told_apart(place):
    nothing = place / "nothing.img"
    nothing.write_bytes(bytes(2**20))
    done = customise(place, nothing)
    assert done.returncode == 6
    assert "no partition table" in done.stderr
    packed = place / "pi.img.gz"
    packed.write_bytes(bytes.fromhex("1f8b08000000000000000300"))
    assert "is packed" in customise(place, packed).stderr
    assert customise(place, place / "absent.img").returncode == 2


def test_missing_tools_say_what_to_install(place, monkeypatch):
    image = make_image(place / "pi.img", TRIXIE)
    monkeypatch.setattr(fat_module, "find_program", lambda name: None)
    done = customise(place, image)
    assert done.returncode == 3
    assert "apt install fdisk" in done.stderr


def test_cloud_inits_own_check_accepts_ours_and_refuses_nonsense(place):
    if shutil.which("cloud-init") is None:
        pytest.skip("cloud-init is not installed: apt install cloud-init")
    image = make_image(place / "pi.img", TRIXIE)
    assert customise(place, image, "--password-hash", place / "hash").returncode == 0
    assert cloud_init_schema(read(image, "user-data").decode()) == ""
    assert cloud_init_schema('#cloud-config\n{"runcmd": 7}\n') != ""
    assert cloud_init_schema('#cloud-config\n{"users": {"name": []}, "package_update": "perhaps"}\n') != ""


# ---- flash, customise, a card for each host --------------------------------------------------------------------------


def test_a_list_of_cards_becomes_a_card_for_each_host(place):
    image = make_image(place / "pi.img", TRIXIE)
    claim(place, "b.json")
    (place / "cards.csv").write_text(
        f"target,hostname,claim\n{place}/a.card,porch-01,\n{place}/b.card,porch-02,b.json\n"
    )
    bundle = small_bundle(place, "trixie-aarch64")
    done = firmware(
        "flash", image, "--cards", place / "cards.csv", "--yes", "--json", "--user", "ann",
        "--ssh-key", place / "id.pub",
        "--bundle", bundle, "--public-key", place / "fleet.pub", "--config", place / "agent.toml",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    metas = [json.loads(read(place / f"{card}.card", "meta-data")) for card in "ab"]
    assert [meta["local-hostname"] for meta in metas] == ["porch-01", "porch-02"]
    assert metas[0]["instance-id"] != metas[1]["instance-id"]
    assert "nightjar/claim.json" not in names(place / "a.card", "nightjar/")
    assert "nightjar/claim.json" in names(place / "b.card", "nightjar/")
    assert b'device = "porch-01"' in read(place / "a.card", "nightjar/agent.toml")


def test_a_card_that_cannot_be_customised_does_not_start(place):
    image = make_image(place / "odd.img", {"config.txt": ""})
    done = firmware("flash", image, place / "card", "--yes", "--hostname", "porch-01")
    assert done.returncode == 9
    assert (place / "card").read_bytes()[:512] == bytes(512)
    assert "it cannot be told" in done.stdout + done.stderr


def test_one_name_is_not_for_two_cards_and_bad_settings_end_before_any_is_written(place):
    image = make_image(place / "pi.img", TRIXIE)
    done = firmware("flash", image, place / "a", place / "b", "--yes", "--hostname", "x")
    assert done.returncode == 2
    done = firmware("flash", image, place / "a", "--yes", "--hostname", "x", "--user", "ann")
    assert done.returncode == 2
    assert not (place / "a").exists()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ('colour = "red"', "colour: there is no such setting"),
        ('coordinator_url = "http://192.0.2.1:8080"', "coordinator_url: plain text stays on 127.0.0.1"),
        ('population = "no such name!"', "population"),
    ],
)
def test_settings_that_the_agent_would_not_take_are_refused_before_anything_is_written(place, wrong, said):
    image = make_image(place / "pi.img", TRIXIE)
    before = image.read_bytes()
    line = wrong.split(" = ")[0]
    kept = [each for each in CONFIG.splitlines() if not each.startswith(line)]
    (place / "agent.toml").write_text("\n".join([wrong, *kept, ""]))
    done = customise(place, image, "--yes")
    assert done.returncode == 2, done
    assert said in done.stderr
    assert image.read_bytes() == before


def test_settings_of_a_device_that_enrols_need_no_name_and_no_addresses(tmp_path):
    check_agent_settings('population = "home"\n', has_claim=True)
    with pytest.raises(ConfigError, match="device: is missing"):
        check_agent_settings('population = "home"\n', has_claim=False)
