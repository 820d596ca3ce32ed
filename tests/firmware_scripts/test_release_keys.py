"""The ceremony of the releases' keys, as the owner does it on the command line."""

import re

import pytest

from nightjar.firmware_scripts.__main__ import run
from nightjar.firmware_scripts.bundle.making import write_archive
from nightjar.firmware_scripts.bundle.signing import load_private_key, make_key
from nightjar.firmware_scripts.core.exit_status import ExitStatus


@pytest.fixture
def keys(tmp_path, capsys):
    def command(*words, status=0):
        assert run(["keys", words[0], str(tmp_path / "tuf"), *map(str, words[1:])]) == status
        said = "".join(capsys.readouterr())
        return re.sub(r", until \d{4}-\d\d-\d\d", "", said).splitlines()

    return command


def bundle(folder, version="0.2.0", files=("root.json",)):
    key = folder / "fleet.key"
    if not key.exists():
        make_key(key, folder / "fleet.pub")
    path = folder / f"{version}-{len(files)}.tar"
    facts = {"agent": version, "platform": "trixie-aarch64"}
    write_archive(path, facts, dict.fromkeys(files, b"x"), load_private_key(key))
    return path


def test_init_makes_separate_keys_and_overwrites_none(tmp_path, keys):
    assert keys("init", "--root", "2/3") == ["1.root.json: 3 of 2 signatures", "1.targets.json: 1 of 1 signatures"]
    private = sorted(path.name for path in (tmp_path / "tuf/keys").glob("*.key"))
    assert private == ["online-1a.key", "root-1a.key", "root-1b.key", "root-1c.key", "targets-1a.key"]
    assert all((tmp_path / "tuf/keys" / name).stat().st_mode & 0o077 == 0 for name in private)
    assert "none is ever overwritten" in keys("init", status=2)[0]


def test_a_threshold_that_cannot_be_met_is_refused(keys):
    assert "such as 2/3" in keys("init", "--root", "3/2", status=2)[0]


def test_too_few_keepers_are_told_so_and_the_others_sign_later(tmp_path, keys):
    keys("init")
    with_others = tmp_path / "others"
    with_others.mkdir()
    for name in ("root-1b.key", "root-1c.key"):
        (tmp_path / "tuf/keys" / name).rename(with_others / name)
    lacking = "2.root.json: 1 of 2 signatures; bring further keys and run 'keys cosign'"
    assert keys("renew", "root")[0] == lacking
    (with_others / "root-1b.key").rename(tmp_path / "tuf/keys/root-1b.key")
    (tmp_path / "tuf/keys/root-1a.key").rename(with_others / "root-1a.key")
    assert keys("cosign")[0] == "2.root.json: 2 of 2 signatures"


def test_rotated_root_keys_need_the_former_ones_too(tmp_path, keys):
    keys("init")
    for name in ("root-1a.key", "root-1b.key"):
        (tmp_path / "tuf/keys" / name).unlink()
    assert keys("rotate", "root")[0].startswith("2.root.json: 1 of 2 signatures")


@pytest.mark.parametrize("role", ["targets", "online"])
def test_rotating_another_role_renews_both_files(keys, role):
    keys("init")
    assert keys("rotate", role) == ["2.root.json: 3 of 2 signatures", "2.targets.json: 1 of 1 signatures"]


def test_a_bundle_is_listed_once_and_never_changes(tmp_path, keys):
    keys("init")
    assert keys("add", bundle(tmp_path))[0] == "listed: nightjar-0.2.0-trixie-aarch64.tar"
    assert keys("add", bundle(tmp_path))[0] == "listed: nightjar-0.2.0-trixie-aarch64.tar"
    other = bundle(tmp_path, files=("root.json", "more"))
    assert "a release never changes" in keys("add", other, status=2)[0]


def test_a_bundle_after_which_devices_would_follow_no_release_is_refused(tmp_path, keys):
    keys("init")
    assert "--include root.json=" in keys("add", bundle(tmp_path, files=("other",)), status=2)[0]


@pytest.mark.parametrize("path", ["/dev/null", "n" * 300])
def test_a_folder_that_cannot_be_is_told_in_words(capsys, path):
    """Proven before: it ended with a traceback, and as a bug."""
    assert run(["keys", "init", path]) == ExitStatus.USAGE
    assert f"nightjar-firmware: {path}" in capsys.readouterr().err
