import hashlib
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

from nightjar.edge_agent.keyboard.comparison import Comparison
from nightjar.edge_agent.shell.keyboard_model import compare_versions, load_predictor, read_lexicon_of
from nightjar.edge_agent.shell.model_files import ModelFiles
from nightjar.models.compact_ngram import compile_ngram
from nightjar.models.lexicon import write_lexicon
from nightjar.models.manifest import Artifact, Transfer
from nightjar.models.vocabulary import FIRST_WORD, Vocabulary
from nightjar.wire.codec.transfers import exact_transfer
from nightjar.wire.errors import RemoteProtocolError, UnavailableError
from nightjar.wire.parameters import weights_from_bytes, weights_to_bytes
from tests.edge_agent.fakes import VOCABULARY, WORDS, any_program, write_model


class FolderDownloader:
    """Takes artifacts from a folder; counts what was asked for, and how often the connection was closed."""

    def __init__(self, folder):
        self.folder = folder
        self.asked = []
        self.hung_up = 0

    def hang_up(self):
        self.hung_up += 1

    def fetch(self, sha256, partial, limit_bytes, should_stop):
        if should_stop():
            raise UnavailableError("stopped")
        self.asked.append(sha256)
        try:
            partial.write_bytes((self.folder / sha256).read_bytes())
        except FileNotFoundError as error:
            raise RemoteProtocolError("not there", code="no-artifact") from error


@pytest.fixture
def remote(tmp_path):
    folder = tmp_path / "remote"
    folder.mkdir()
    return folder


@pytest.fixture
def files(tmp_path, remote):
    return ModelFiles(tmp_path / "artifacts", FolderDownloader(remote), any_program)


def never():
    return False


def test_a_new_device_has_no_model(files):
    assert files.current() is None


def test_a_model_is_brought_and_found_again(files, remote, tmp_path):
    published = write_model(remote)
    model = files.fetch(published.sha256, never)
    assert model.manifest == published.manifest
    assert model.weights.read_bytes() == published.weights.read_bytes()
    again = ModelFiles(tmp_path / "artifacts", FolderDownloader(remote), any_program)
    assert again.current() == model


def test_only_what_is_missing_is_fetched(files, remote):
    first, second = write_model(remote, 0), write_model(remote, 1)
    files.fetch(first.sha256, never)
    files._downloader.asked.clear()
    files.fetch(second.sha256, never)
    assert files._downloader.asked == [second.sha256, second.manifest.weights.sha256]
    assert files._downloader.hung_up == 2
    files._downloader.asked.clear()
    files.fetch(second.sha256, never)
    assert files._downloader.asked == []


def test_files_that_no_model_needs_are_removed(files, remote, tmp_path):
    first, second = write_model(remote, 0), write_model(remote, 1)
    files.fetch(first.sha256, never)
    (tmp_path / "artifacts" / ("0" * 64 + ".part")).write_bytes(b"half")
    files.fetch(second.sha256, never)
    assert len(list((tmp_path / "artifacts").iterdir())) == 5
    assert files.current().manifest.version == 1


def test_only_a_keyboard_fetches_lexicons_and_keeps_them_over_versions(files, remote, tmp_path):
    german, english = (write_lexicon(language, {"haus": 0.1}) for language in ("de", "en"))
    first, second = (write_model(remote, version, {"de": german, "en": english}) for version in (0, 1))
    assert files.fetch(first.sha256, never).lexicons == {}
    keyboard = ModelFiles(tmp_path / "artifacts", FolderDownloader(remote), any_program, keyboard=True)
    model = keyboard.fetch(first.sha256, never)
    assert len(keyboard._downloader.asked) == 2
    assert read_lexicon_of(model, "de").text == b"haus\n"
    assert read_lexicon_of(model, "fr") is None
    assert keyboard.fetch(second.sha256, never).lexicons == model.lexicons == keyboard.current().lexicons
    assert len(keyboard._downloader.asked) == 4  # manifest and weights
    model.lexicons["de"].write_bytes(b"damaged")
    assert read_lexicon_of(model, "de") is None


def test_a_model_comes_without_the_lexicon_that_is_not_there(remote, tmp_path):
    published = write_model(remote, 0, {"en": write_lexicon("en", {"house": 0.1})})
    (remote / published.manifest.lexicons[0].file.sha256).unlink()
    keyboard = ModelFiles(tmp_path / "artifacts", FolderDownloader(remote), any_program, keyboard=True)
    assert keyboard.fetch(published.sha256, never).lexicons == {}
    assert keyboard.current() is not None


def test_only_a_keyboard_fetches_the_ngram_model_and_does_without_a_damaged_one(files, remote, tmp_path):
    ngram = compile_ngram([VOCABULARY.encode(WORDS[:2])] * 5, VOCABULARY.size)
    published = write_model(remote, 0, ngram=ngram)
    assert files.fetch(published.sha256, never).ngram is None
    keyboard = ModelFiles(tmp_path / "artifacts", FolderDownloader(remote), any_program, keyboard=True)
    model = keyboard.fetch(published.sha256, never)
    scores = load_predictor(model).scores(WORDS[:1])
    assert int(scores.argmax()) == VOCABULARY.id_of(WORDS[1])
    model.ngram.write_bytes(b"damaged")
    assert np.ptp(load_predictor(model).scores(WORDS[:1])[FIRST_WORD:]) == 0  # weights of zeros
    model.ngram.unlink()
    assert keyboard.current().ngram is None


def test_a_keyboard_keeps_the_first_version_of_a_vocabulary_for_comparison(files, remote, tmp_path):
    versions = [write_model(remote, number) for number in range(3)]
    keyboard = ModelFiles(tmp_path / "artifacts", FolderDownloader(remote), any_program, keyboard=True)
    assert keyboard.first() is None
    for version in versions:
        keyboard.adopt(keyboard.fetch(version.sha256, never))
        assert keyboard.first().manifest.version == 0
    assert not (tmp_path / "artifacts" / versions[1].sha256).exists()
    texts = [f"the {word} sat the {number}" for number in range(60) for word in WORDS]
    compared = compare_versions(keyboard.first(), keyboard.current(), texts)
    assert (compared.before, compared.now) == (0, 2)
    assert 0 < len(compared.places) <= 10
    assert all(len(place.before) == len(place.now) == 3 for place in compared.places)
    assert compare_versions(keyboard.current(), keyboard.current(), texts) == Comparison()
    assert compare_versions(None, keyboard.current(), texts) == Comparison()
    files.fetch(versions[2].sha256, never)  # without a keyboard
    assert files.first() is None


def test_the_first_version_of_another_vocabulary_begins_anew(remote, tmp_path):
    keyboard = ModelFiles(tmp_path / "artifacts", FolderDownloader(remote), any_program, keyboard=True)
    keyboard.adopt(keyboard.fetch(write_model(remote, 0).sha256, never))
    other = write_model(remote, 5, vocabulary=Vocabulary(tuple(reversed(WORDS))))
    keyboard.adopt(keyboard.fetch(other.sha256, never))
    assert keyboard.first() == keyboard.current()


def test_a_keyboard_keeps_the_announced_version_while_rounds_train_others(remote, tmp_path):
    versions = [write_model(remote, number) for number in range(4)]
    keyboard = ModelFiles(tmp_path / "artifacts", FolderDownloader(remote), any_program, keyboard=True)
    assert keyboard.announced() is None
    fetched = keyboard.fetch(versions[0].sha256, never)
    assert keyboard.announced() == fetched  # better than none
    keyboard.adopt(fetched)
    for number in (1, 2):
        keyboard.fetch(versions[number].sha256, never)
        assert (keyboard.announced().manifest.version, keyboard.current().manifest.version) == (0, number)
    assert not (tmp_path / "artifacts" / versions[1].sha256).exists()
    assert all(path.exists() for path in (fetched.weights, fetched.program, fetched.vocabulary))
    again = ModelFiles(tmp_path / "artifacts", FolderDownloader(remote), any_program, keyboard=True)
    assert (again.announced(), again.current()) == (keyboard.announced(), keyboard.current())
    personal = keyboard.current().weights.with_name(f"{versions[2].sha256}.personal")
    personal.write_bytes(b"of the version that is announced next")
    keyboard.fetch(versions[2].sha256, never)
    keyboard.adopt(keyboard.current())
    assert (keyboard.announced().manifest.version, personal.exists()) == (2, True)
    keyboard.adopt(keyboard.fetch(versions[3].sha256, never))
    assert not personal.exists()


def test_the_keyboard_of_an_agent_of_before_keeps_its_version(files, remote, tmp_path):
    before, trained = write_model(remote, 0), write_model(remote, 1)
    files.fetch(before.sha256, never)  # as such an agent did
    keyboard = ModelFiles(tmp_path / "artifacts", FolderDownloader(remote), any_program, keyboard=True)
    keyboard.fetch(trained.sha256, never)
    assert keyboard.announced().manifest.version == 0


def test_without_a_keyboard_the_newest_version_is_the_only_one(files, remote, tmp_path):
    files.adopt(files.fetch(write_model(remote, 0).sha256, never))
    newer = files.fetch(write_model(remote, 1).sha256, never)
    assert files.announced() == files.current() == newer
    assert len(list((tmp_path / "artifacts").iterdir())) == 5


def test_a_version_that_cannot_be_noted_leaves_the_keyboard_its_own(remote, tmp_path):
    keyboard = ModelFiles(tmp_path / "artifacts", FolderDownloader(remote), any_program, keyboard=True)
    keyboard.adopt(keyboard.fetch(write_model(remote, 0).sha256, never))
    newer = keyboard.fetch(write_model(remote, 1).sha256, never)
    (tmp_path / "artifacts" / "announced").unlink()
    (tmp_path / "artifacts" / "announced").mkdir()
    with pytest.raises(UnavailableError, match="could not be noted"):
        keyboard.adopt(newer)


def test_a_failed_fetch_leaves_the_last_good_model(files, remote):
    first, second = write_model(remote, 0), write_model(remote, 1)
    files.fetch(first.sha256, never)
    second.weights.unlink()
    with pytest.raises(RemoteProtocolError):
        files.fetch(second.sha256, never)
    model = files.current()
    assert model.manifest.version == 0
    assert all(path.exists() for path in (model.program, model.weights, model.vocabulary))


def test_a_stopped_fetch_is_unavailable(files, remote):
    with pytest.raises(UnavailableError):
        files.fetch(write_model(remote).sha256, lambda: True)


def test_a_model_that_needs_a_newer_agent_is_refused(tmp_path, remote):
    old = ModelFiles(tmp_path / "artifacts", FolderDownloader(remote), any_program, agent_version="0.0.9")
    with pytest.raises(RemoteProtocolError, match=r"needs agent 0\.1\.0 or newer, this is 0\.0\.9") as fault:
        old.fetch(write_model(remote).sha256, never)
    assert fault.value.code == "outdated-agent"


def test_a_manifest_that_is_none_is_refused(files, remote):
    name = hashlib.sha256(b"{}").hexdigest()
    (remote / name).write_bytes(b"{}")
    with pytest.raises(RemoteProtocolError):
        files.fetch(name, never)


@pytest.mark.parametrize("damage", ["missing", "cut", "pointer"])
def test_files_that_somebody_touched_count_as_no_model(files, remote, tmp_path, damage):
    model = files.fetch(write_model(remote).sha256, never)
    match damage:
        case "missing":
            model.vocabulary.unlink()
        case "cut":
            model.weights.write_bytes(model.weights.read_bytes()[:-1])
        case "pointer":
            (tmp_path / "artifacts" / "current").write_text("../../etc/passwd")
    assert files.current() is None


@pytest.mark.parametrize("part", ["weights", "program", "vocabulary"])
def test_a_damaged_file_of_the_announced_version_is_fetched_again(remote, tmp_path, part):
    keyboard = ModelFiles(tmp_path / "artifacts", FolderDownloader(remote), any_program, keyboard=True)
    published = write_model(remote)
    model = keyboard.adopt(keyboard.fetch(published.sha256, never))
    whole = getattr(model, part).read_bytes()
    getattr(model, part).write_bytes(whole[:-1])
    again = ModelFiles(tmp_path / "artifacts", FolderDownloader(remote), any_program, keyboard=True)
    assert again.announced() is None
    assert again.adopt(again.fetch(published.sha256, never)) == again.announced() == model
    assert getattr(model, part).read_bytes() == whole


def offer(remote, base, seed=1):
    """The next version of a model, with a transfer from the one before."""
    layout = base.manifest.layout
    held = weights_from_bytes(base.weights.read_bytes(), layout)
    weights = held.copy()
    weights[seed] += 1
    data = exact_transfer(held, weights, layout)
    whole = weights_to_bytes(weights)
    transfer = Transfer(Artifact.of(data), base.manifest.weights.sha256)
    manifest = msgspec.structs.replace(
        base.manifest, version=base.manifest.version + 1, weights=Artifact.of(whole), transfers=(transfer,)
    )
    for content in (data, whole, manifest.encode()):
        (remote / hashlib.sha256(content).hexdigest()).write_bytes(content)
    return manifest, whole


def test_a_device_that_holds_the_base_fetches_only_what_changed(files, remote, tmp_path):
    first = write_model(remote)
    manifest, whole = offer(remote, first)
    files.fetch(first.sha256, never)
    files._downloader.asked.clear()
    model = files.fetch(manifest.sha256, never)
    assert files._downloader.asked == [manifest.sha256, manifest.transfers[0].file.sha256]
    assert model.weights.read_bytes() == whole
    assert len(list((tmp_path / "artifacts").iterdir())) == 5, "the transfer itself is not kept"


def test_a_device_without_the_base_fetches_the_whole(files, remote):
    manifest, whole = offer(remote, write_model(remote))
    assert files.fetch(manifest.sha256, never).weights.read_bytes() == whole
    assert manifest.transfers[0].file.sha256 not in files._downloader.asked


@pytest.mark.parametrize("damage", ["missing", "garbage", "wrong base"])
def test_a_transfer_of_no_use_falls_back_to_the_whole(files, remote, tmp_path, damage):
    first = write_model(remote)
    manifest, whole = offer(remote, first)
    files.fetch(first.sha256, never)
    file = remote / manifest.transfers[0].file.sha256
    if damage == "missing":
        file.unlink()
    elif damage == "garbage":
        file.write_bytes(b"NJT1" + bytes(40))
    else:
        held = tmp_path / "artifacts" / first.manifest.weights.sha256
        held.write_bytes(bytes(held.stat().st_size))
    assert files.fetch(manifest.sha256, never).weights.read_bytes() == whole


def a_keyboard_with(remote, tmp_path, version):
    keyboard = ModelFiles(tmp_path / "artifacts", FolderDownloader(remote), any_program, keyboard=True)
    keyboard.adopt(keyboard.fetch(version.sha256, never))
    keyboard._downloader.asked.clear()
    return keyboard


def on_disk(tmp_path):
    return {path.name for path in (tmp_path / "artifacts").iterdir()}


def test_what_a_device_only_trains_from_is_not_written_to_its_disk(remote, tmp_path):
    announced = write_model(remote)
    keyboard = a_keyboard_with(remote, tmp_path, announced)
    manifest, whole = offer(remote, announced)
    base = keyboard.fetch(manifest.sha256, never)
    assert base.weights.read_bytes() == whole
    assert manifest.weights.sha256 not in on_disk(tmp_path)
    assert (keyboard.announced().sha256, keyboard.current().sha256) == (announced.sha256, announced.sha256)
    read = "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read())"
    child = subprocess.run([sys.executable, "-c", read, str(base.weights)], capture_output=True, check=True)
    assert child.stdout == whole, "the training process reads it, too"


def test_a_version_that_was_trained_from_is_written_without_another_download_once_it_is_announced(remote, tmp_path):
    announced = write_model(remote)
    keyboard = a_keyboard_with(remote, tmp_path, announced)
    manifest, whole = offer(remote, announced)
    base = keyboard.fetch(manifest.sha256, never)
    base.personal_weights.write_bytes(b"of the version that is announced next")
    keyboard._downloader.asked.clear()
    adopted = keyboard.adopt(keyboard.fetch(manifest.sha256, never))
    assert keyboard._downloader.asked == []
    assert (tmp_path / "artifacts" / manifest.weights.sha256).read_bytes() == whole
    assert adopted == keyboard.announced() == keyboard.current()
    assert adopted.personal_weights.exists()


def test_a_device_that_trains_each_round_goes_on_from_what_it_has_in_memory(remote, tmp_path):
    announced = write_model(remote)
    keyboard = a_keyboard_with(remote, tmp_path, announced)
    manifest, whole, steps = offer_a_chain(remote, announced, versions=2)
    before = msgspec.structs.replace(manifest, transfers=manifest.transfers[1:], weights=_target(manifest))
    (remote / before.sha256).write_bytes(before.encode())
    keyboard.fetch(before.sha256, never)
    keyboard._downloader.asked.clear()
    assert keyboard.fetch(manifest.sha256, never).weights.read_bytes() == whole
    assert keyboard._downloader.asked == [manifest.sha256, steps[0]]


def _target(manifest):
    """The weights of the version before the last of a chain."""
    return msgspec.structs.replace(manifest.weights, sha256=manifest.transfers[1].target)


def test_a_device_without_a_keyboard_writes_what_it_trains_from(files, remote, tmp_path):
    first = write_model(remote)
    manifest, _ = offer(remote, first)
    files.fetch(first.sha256, never)
    files.fetch(manifest.sha256, never)
    assert files.current().manifest == manifest, "the next version is the difference from it"
    assert manifest.weights.sha256 in on_disk(tmp_path)


def test_a_system_without_files_in_memory_writes_them_to_its_disk(remote, tmp_path, monkeypatch):
    monkeypatch.delattr(os, "memfd_create")
    announced = write_model(remote)
    keyboard = a_keyboard_with(remote, tmp_path, announced)
    manifest, whole = offer(remote, announced)
    assert keyboard.fetch(manifest.sha256, never).weights.read_bytes() == whole
    assert manifest.weights.sha256 in on_disk(tmp_path)
    assert (keyboard.announced().sha256, keyboard.current().sha256) == (announced.sha256, manifest.sha256)


def test_a_descriptor_is_closed_when_other_weights_take_its_place(remote, tmp_path):
    announced = write_model(remote)
    keyboard = a_keyboard_with(remote, tmp_path, announced)
    first, second = (offer(remote, announced, seed=seed)[0] for seed in (1, 2))
    before = keyboard.fetch(first.sha256, never).weights
    assert before.parent == Path(f"/proc/{os.getpid()}/fd")
    file = before.stat().st_ino
    assert keyboard.fetch(second.sha256, never).weights.exists()
    # Not the number of open files: the collector may close others' meanwhile.
    assert not before.exists() or before.stat().st_ino != file


def offer_a_chain(remote, first, versions=3):
    """A version some versions later, with a transfer for each step; and the names of the transfers, latest first."""
    manifest, whole = offer(remote, first)
    for number in range(versions - 1):
        held = weights_from_bytes(whole, manifest.layout)
        weights = held.copy()
        weights[number] += 1
        data, whole = exact_transfer(held, weights, manifest.layout), weights_to_bytes(weights)
        before = tuple(
            msgspec.structs.replace(each, target=each.target or manifest.weights.sha256) for each in manifest.transfers
        )
        latest = Transfer(Artifact.of(data), manifest.weights.sha256)
        manifest = msgspec.structs.replace(manifest, weights=Artifact.of(whole), transfers=(latest, *before))
        for content in (data, whole, manifest.encode()):
            (remote / hashlib.sha256(content).hexdigest()).write_bytes(content)
    return manifest, whole, [each.file.sha256 for each in manifest.transfers]


def test_a_device_that_missed_versions_fetches_what_each_of_them_changed(files, remote, tmp_path):
    first = write_model(remote)
    manifest, whole, steps = offer_a_chain(remote, first)
    files.fetch(first.sha256, never)
    files._downloader.asked.clear()
    assert files.fetch(manifest.sha256, never).weights.read_bytes() == whole
    assert files._downloader.asked == [manifest.sha256, *reversed(steps)]
    assert len(list((tmp_path / "artifacts").iterdir())) == 5, "the transfers themselves are not kept"


def test_an_interrupted_device_goes_on_with_the_transfers_it_has(files, remote):
    first = write_model(remote)
    manifest, whole, steps = offer_a_chain(remote, first)
    files.fetch(first.sha256, never)
    files._downloader.asked.clear()
    with pytest.raises(UnavailableError):
        files.fetch(manifest.sha256, lambda: len(files._downloader.asked) == len(steps))
    files._downloader.asked.clear()
    assert files.fetch(manifest.sha256, never).weights.read_bytes() == whole
    assert files._downloader.asked == [steps[0]]


def test_one_bad_transfer_of_several_falls_back_to_the_whole(files, remote):
    first = write_model(remote)
    manifest, whole, steps = offer_a_chain(remote, first)
    files.fetch(first.sha256, never)
    (remote / steps[1]).write_bytes((remote / steps[0]).read_bytes())
    assert files.fetch(manifest.sha256, never).weights.read_bytes() == whole


def test_the_bases_of_a_version_is_brought_and_kept(files, remote, tmp_path):
    base = write_model(remote)
    data = b"bases"
    manifest = msgspec.structs.replace(base.manifest, bases=Artifact.of(data))
    for content in (data, manifest.encode()):
        (remote / hashlib.sha256(content).hexdigest()).write_bytes(content)
    model = files.fetch(manifest.sha256, never)
    assert model.bases.read_bytes() == data
    assert files.current() == model
