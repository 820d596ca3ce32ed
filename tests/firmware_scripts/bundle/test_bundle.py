import io
import json
import random
import subprocess
import sys
import tarfile
from functools import partial

import pytest

from nightjar.firmware_scripts.bundle.making import make_bundle
from nightjar.firmware_scripts.bundle.platforms import PLATFORMS, platform_named
from nightjar.firmware_scripts.bundle.reading import MANIFEST, SIGNATURE, read_archive
from nightjar.firmware_scripts.bundle.signing import check_signature, load_private_key, load_public_key, make_key
from nightjar.firmware_scripts.bundle.wheelhouse import AGENT
from nightjar.wire.errors import ConfigError, RemoteProtocolError
from tests.firmware_scripts.bundle.wheels import make_wheel
from tests.firmware_scripts.command_line import firmware

PLATFORM = platform_named("bookworm-aarch64")
OTHERS = {"device/install.sh": b"#!/bin/sh\n"}


@pytest.fixture
def keys(tmp_path):
    make_key(tmp_path / "k.key", tmp_path / "k.pub")
    return tmp_path / "k.key", tmp_path / "k.pub"


@pytest.fixture
def house(tmp_path):
    folder = tmp_path / "house"
    folder.mkdir()
    make_wheel(folder, AGENT, "0.1.0")
    make_wheel(folder, "numpy", "1.26.4", "cp311-cp311-manylinux_2_17_aarch64.manylinux2014_aarch64")
    make_wheel(folder, "tflite_runtime", "2.14.0", "cp311-cp311-manylinux_2_34_aarch64", "License: Apache 2.0")
    return folder


@pytest.fixture
def bundle(tmp_path, keys, house):
    return make_bundle(PLATFORM, house, OTHERS, load_private_key(keys[0]), tmp_path / "out")


def check_archive(path, key):
    return read_archive(path, partial(check_signature, key)).files


def members(path):
    with tarfile.open(path) as archive:
        return [(member, archive.extractfile(member).read()) for member in archive.getmembers()]


def rebuilt(path, changed):
    """An archive of these members, as an attacker would lay it out again."""
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for member, data in changed:
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def test_the_same_wheels_give_the_same_bytes(tmp_path, keys, house, bundle):
    again = make_bundle(PLATFORM, house, OTHERS, load_private_key(keys[0]), tmp_path / "again")
    assert again.read_bytes() == bundle.read_bytes()
    assert bundle.name == "nightjar-0.1.0-bookworm-aarch64.tar"


def test_a_whole_bundle_is_accepted_and_lists_what_it_holds(keys, bundle):
    listed = check_archive(bundle, load_public_key(keys[1]))
    assert [file.path.split("-")[0] for file in listed] == [
        "device/install.sh", "requirements.lock", "sbom.cdx.json", "wheels/nightjar_federated", "wheels/numpy",
        "wheels/tflite_runtime",
    ]  # fmt: skip
    assert firmware("verify", bundle, "--public-key", keys[1]).returncode == 0


def test_every_flipped_byte_that_tar_would_unpack_is_refused(tmp_path, keys, bundle):
    good = bundle.read_bytes()
    key = load_public_key(keys[1])
    unpacked = [(member.name, data) for member, data in members(bundle)]
    damaged_path = tmp_path / "damaged.tar"
    for position in random.Random(4).sample(range(len(good)), 600):
        damaged = bytearray(good)
        damaged[position] ^= 1 << (position % 8)
        damaged_path.write_bytes(damaged)
        try:
            check_archive(damaged_path, key)
        except RemoteProtocolError:
            continue
        # Only padding may pass, and what makes no difference to what is unpacked.
        assert [(member.name, data) for member, data in members(damaged_path)] == unpacked


def test_every_truncation_of_what_matters_is_refused(tmp_path, keys, bundle):
    good = bundle.read_bytes()
    last, data = members(bundle)[-1]
    end = last.offset_data + len(data)
    for length in [0, 1, 511, 512, 600, 1500, *range(2000, end, 997), end - 1]:
        (tmp_path / "short.tar").write_bytes(good[:length])
        with pytest.raises(RemoteProtocolError):
            check_archive(tmp_path / "short.tar", load_public_key(keys[1]))


def test_another_key_is_refused(tmp_path, bundle):
    make_key(tmp_path / "o.key", tmp_path / "o.pub")
    done = firmware("verify", bundle, "--public-key", tmp_path / "o.pub")
    assert done.returncode == 8
    assert "not signed by this key" in done.stdout


@pytest.mark.parametrize("attack", ["more", "less", "order", "other bytes", "folder above", "a link", "manifest"])
def test_an_archive_that_was_laid_out_again_is_refused(tmp_path, keys, bundle, attack):
    found = members(bundle)
    match attack:
        case "more":
            extra = tarfile.TarInfo("nightjar-0.1.0-bookworm-aarch64/wheels/evil.whl")
            found.append((extra, b"evil"))
        case "less":
            del found[3]
        case "order":
            found[3], found[4] = found[4], found[3]
        case "other bytes":
            found[-1] = (found[-1][0], found[-1][1] + b"x")
        case "folder above":
            for member, _ in found:
                member.name = "../" + member.name.partition("/")[2]
        case "a link":
            found[-1][0].type = tarfile.SYMTYPE
            found[-1][0].linkname = "/etc/passwd"
            found[-1] = (found[-1][0], b"")
        case "manifest":
            manifest = json.loads(found[0][1])
            manifest["platform"] = "trixie-aarch64"
            found[0] = (found[0][0], json.dumps(manifest).encode())
    rebuilt(tmp_path / "evil.tar", found)
    with pytest.raises(RemoteProtocolError):
        check_archive(tmp_path / "evil.tar", load_public_key(keys[1]))


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_SPARSE, tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.REGTYPE])
def test_a_member_that_says_it_is_huge_is_refused_before_it_is_read(tmp_path, keys, bundle, kind):
    (manifest, said), (signature, signed), (first, _), *_ = members(bundle)
    first.type, first.size, first.pax_headers = kind, 2**62, {}
    huge = first.tobuf(tarfile.GNU_FORMAT)
    if kind == tarfile.GNUTYPE_SPARSE:  # one byte in the archive, 4 EiB in the file
        sparse = bytearray(tarfile.TarInfo(first.name).tobuf(tarfile.GNU_FORMAT))
        sparse[124:136], sparse[156:157] = b"00000000001\0", kind
        sparse[386:410] = tarfile.itn(0, 12, tarfile.GNU_FORMAT) + tarfile.itn(1, 12, tarfile.GNU_FORMAT)
        sparse[483:495] = tarfile.itn(2**62, 12, tarfile.GNU_FORMAT)
        sparse[148:156] = b" " * 8
        sparse[148:156] = b"%06o\0 " % sum(sparse)
        huge = bytes(sparse) + b"x".ljust(512, b"\0")
    rebuilt(tmp_path / "start.tar", [(manifest, said), (signature, signed)])
    start = (tmp_path / "start.tar").read_bytes().rstrip(b"\0")
    start += bytes(-len(start) % 512)
    (tmp_path / "huge.tar").write_bytes(start + huge + bytes(1024))
    with pytest.raises(RemoteProtocolError):
        check_archive(tmp_path / "huge.tar", load_public_key(keys[1]))


def test_what_is_no_bundle_is_refused(tmp_path, keys):
    for data in (b"", b"hello", bytes(10_000)):
        (tmp_path / "x.tar").write_bytes(data)
        assert firmware("verify", tmp_path / "x.tar", "--public-key", keys[1]).returncode == 8


def test_manifest_and_signature_come_first(bundle):
    names = [member.name.partition("/")[2] for member, _ in members(bundle)]
    assert names[:2] == [MANIFEST, SIGNATURE]
    assert all((m.mtime, m.uid, m.gid, m.mode) == (315_532_800, 0, 0, 0o644) for m, _ in members(bundle))


def test_the_list_of_contents_is_cyclonedx_with_a_hash_for_each_wheel(bundle):
    sbom = json.loads(next(data for member, data in members(bundle) if member.name.endswith("sbom.cdx.json")))
    assert (sbom["bomFormat"], sbom["specVersion"]) == ("CycloneDX", "1.6")
    assert sbom["metadata"]["component"]["name"] == AGENT
    assert {c["purl"] for c in sbom["components"]} == {"pkg:pypi/numpy@1.26.4", "pkg:pypi/tflite-runtime@2.14.0"}
    assert all(len(c["hashes"][0]["content"]) == 64 and c["licenses"] for c in sbom["components"])


@pytest.mark.slow
def test_it_installs_with_no_index_and_exactly_what_is_locked(tmp_path, keys, bundle):
    house = tmp_path / "pure"
    house.mkdir()
    make_wheel(house, AGENT, "0.1.0")
    make_wheel(house, "leaf", "2.0")
    made = make_bundle(PLATFORM, house, {}, load_private_key(keys[0]), tmp_path / "pure-out")
    with tarfile.open(made) as archive:
        archive.extractall(tmp_path, filter="data")
    folder = tmp_path / made.stem

    def install(target):
        arguments = ["--no-index", "--find-links", "wheels", "--require-hashes", "-r", "requirements.lock"]
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", target, *arguments]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)

    done = install(tmp_path / "installed")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "installed" / "leaf" / "__init__.py").exists()
    wheel = next((folder / "wheels").glob("leaf-*"))
    wheel.write_bytes(wheel.read_bytes() + b"x")
    assert install(tmp_path / "other").returncode != 0


def test_a_house_without_the_agent_or_with_two_of_a_kind_makes_no_bundle(tmp_path, keys, house):
    key = load_private_key(keys[0])
    make_wheel(house, "numpy", "1.25.0")
    with pytest.raises(ConfigError):
        make_bundle(PLATFORM, house, {}, key, tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError):
        make_bundle(PLATFORM, tmp_path / "empty", {}, key, tmp_path / "out")
    (tmp_path / "empty" / "nightjar_federated-0.1.0-py3-none-any.whl").write_bytes(b"no zip")
    with pytest.raises(RemoteProtocolError):
        make_bundle(PLATFORM, tmp_path / "empty", {}, key, tmp_path / "out")


def test_the_command_makes_a_bundle_of_a_folder_of_wheels(tmp_path, keys, house):
    command = [
        "bundle", "--platform", "bookworm-aarch64", "--key", keys[0], "--wheels", house, "--output", tmp_path / "made",
        "--include", f"extra/README={keys[1]}",
    ]  # fmt: skip
    done = firmware(*command)
    assert done.returncode == 2
    assert "the lock has no hash of numpy-1.26.4" in done.stderr  # one that somebody made, under that name
    assert not (tmp_path / "made").exists()
    done = firmware(*command, "--unlocked")
    assert done.returncode == 0, done.stderr
    (made,) = (tmp_path / "made").iterdir()
    assert firmware("verify", made, "--public-key", keys[1]).returncode == 0


@pytest.mark.parametrize("include", ["x", "=x", "/x=y", "../x=y", "wheels/x.whl=y", "device/install.sh=y"])
def test_a_file_cannot_be_included_outside_of_its_place(keys, house, include):
    done = firmware(
        "bundle", "--platform", "bookworm-aarch64", "--key", keys[0], "--wheels", house, "--include", include
    )
    assert done.returncode == 2


# ---- keys ------------------------------------------------------------------------------------------------------------


def test_a_private_key_is_for_its_owner_alone_and_never_overwritten(tmp_path, keys):
    assert keys[0].stat().st_mode & 0o777 == 0o600
    before = keys[0].read_bytes()
    assert firmware("bundle-key", tmp_path / "k").returncode == 2
    assert keys[0].read_bytes() == before
    keys[0].chmod(0o644)
    with pytest.raises(ConfigError, match="others may read"):
        load_private_key(keys[0])


def test_what_is_no_ed25519_key_is_refused(tmp_path, keys):
    with pytest.raises(ConfigError):
        load_private_key(keys[1])
    with pytest.raises(ConfigError):
        load_public_key(keys[0])
    (tmp_path / "x").write_bytes(b"x")
    with pytest.raises(ConfigError):
        load_public_key(tmp_path / "x")
    with pytest.raises(ConfigError):
        load_private_key(tmp_path / "none")


# ---- platforms -------------------------------------------------------------------------------------------------------


def test_every_tag_that_the_c_library_runs_is_named():
    tags = platform_named("bookworm-aarch64").tags()
    # tflite-runtime 2.14 has this tag and no other.
    assert "manylinux_2_34_aarch64" in tags
    assert "manylinux2014_aarch64" in tags
    assert "manylinux_2_37_aarch64" not in tags


def test_32_bit_arm_is_said_to_be_impossible_and_why():
    done = firmware("bundle", "--platform", "bookworm-armv7l", "--key", "none")
    assert done.returncode == 2
    assert "PyPI has no wheels" in done.stderr


def test_an_unknown_platform_is_told_which_there_are():
    with pytest.raises(ConfigError, match="trixie-aarch64"):
        platform_named("windows")


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda platform: platform.name)
def test_the_requirements_of_every_platform_are_there(platform):
    from nightjar.firmware_scripts.device_program import PACKAGE

    assert (PACKAGE / "requirements" / platform.requirements).is_file()
