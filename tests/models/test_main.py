from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from nightjar.edge_agent.emulator.phone import read_messages
from nightjar.models import commands as command
from nightjar.models import starts
from nightjar.models.batches import pack
from nightjar.models.configurations import configuration
from nightjar.models.corpora.pydoc import pydoc
from nightjar.models.corpora.tsv import tsv
from nightjar.models.folder import hold_out, write_model_folder
from nightjar.models.initial import initial_weights
from nightjar.models.manifest import Manifest
from nightjar.models.padding import cropped
from nightjar.models.shipped import opened, shipped
from nightjar.models.vocabulary import Vocabulary
from nightjar.wire.errors import ConfigError, CorpusError, UnavailableError
from nightjar.wire.parameters import weights_from_bytes


def export(monkeypatch: pytest.MonkeyPatch, out: Path, *options: str) -> str:
    """Without the conversion, which takes ten seconds."""
    monkeypatch.setattr(starts, "export_program", lambda *_: b"program")
    result = CliRunner().invoke(command.main, ["export", "--out", str(out), *options])
    assert result.exit_code == 0, result.output
    return result.output


def test_export_writes_files_that_belong_together_and_text_to_measure_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = export(monkeypatch, tmp_path / "out", "--corpus", "pydoc", "--passes", "0")
    assert "random weights" in said
    files = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir() if p.is_file()}
    manifest = Manifest.decode(files["manifest.json"])
    for artifact, name in (
        (manifest.program, "program.tflite"),
        (manifest.weights, "weights.bin"),
        (manifest.vocabulary, "vocabulary.txt"),
        (manifest.ngram, "ngram.bin"),
    ):
        assert artifact is not None
        assert artifact.sha256 == hashlib.sha256(files[name]).hexdigest()
        assert artifact.size_bytes == len(files[name])
    assert Vocabulary.from_bytes(files["vocabulary.txt"]).size == manifest.vocabulary_size
    assert weights_from_bytes(files["weights.bin"], manifest.layout).shape == (manifest.layout.size,)
    whole, held_out = pydoc().users, tsv(tmp_path / "out" / "held_out.tsv").users
    messages = sum(map(len, held_out.values()))
    assert min(2000, sum(map(len, whole.values())) // 10) / 2 < messages <= 2000
    assert all({" ".join(message.split()) for message in whole[user]} >= set(held_out[user]) for user in held_out)


def test_without_a_corpus_the_model_is_the_pretrained_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = shipped()
    assert f"pre-trained on text of before {found.before}" in export(monkeypatch, tmp_path, "--model", "gboard")
    manifest = Manifest.decode((tmp_path / "manifest.json").read_bytes())
    weights = weights_from_bytes((tmp_path / "weights.bin").read_bytes(), manifest.layout)
    assert np.array_equal(weights, found.weights("gboard"))
    assert (tmp_path / "vocabulary.txt").read_bytes() == found.vocabulary("gboard").to_bytes()
    assert (tmp_path / "ngram.bin").read_bytes() == found.ngram("gboard")
    assert tsv(tmp_path / "held_out.tsv").users  # invented people's


def test_a_folder_of_ones_own_is_the_start_and_brings_no_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    export(monkeypatch, tmp_path, "--start", str(shipped().folder))
    assert (tmp_path / "vocabulary.txt").read_bytes() == shipped().vocabulary("tiny").to_bytes()
    assert not (tmp_path / "held_out.tsv").exists()


def test_no_passes_without_a_corpus_leave_the_pretrained_words_and_random_weights(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "random weights" in export(monkeypatch, tmp_path, "--passes", "0")
    manifest = Manifest.decode((tmp_path / "manifest.json").read_bytes())
    weights = weights_from_bytes((tmp_path / "weights.bin").read_bytes(), manifest.layout)
    assert np.array_equal(weights, initial_weights(configuration("tiny"), manifest.vocabulary_size, 7))
    assert (tmp_path / "vocabulary.txt").read_bytes() == shipped().vocabulary("tiny").to_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--model", "tiny-gru"), "no pre-trained weights for the model 'tiny-gru'"),
        (("--passes", "2"), "--passes 2 needs --corpus"),
        (("--model", "lenet-5"), "--model lenet-5 needs --corpus"),
        (("--start", "nowhere"), "there are no pre-trained models in nowhere"),
        (("--start", "nowhere", "--corpus", "personas"), "exclude each other"),
    ],
)
def test_what_needs_a_corpus_says_so(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    result = CliRunner().invoke(command.main, ["export", "--out", str(tmp_path), *options])
    assert isinstance(result.exception, ConfigError)
    assert message in str(result.exception)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_pretrain_makes_a_folder_that_says_what_it_was_made_from(tmp_path: Path) -> None:
    corpus, out = tmp_path / "corpus.tsv", tmp_path / "out"
    rows = [f"u{n}\t2001-02-0{1 + n // 25}T10:00\tthe cat sat on the mat\n" for n in range(50)]
    corpus.write_text("user\ttime\ttext\n" + "".join(rows))
    options = ["--corpus", str(corpus), "--out", str(out), "--before", "2001-02-02", "--source", "cats, CC0"]
    result = CliRunner().invoke(command.main, ["pretrain", *options])
    assert result.exit_code == 0, result.output
    assert "gboard: step " in result.output
    assert "tiny: step " in result.output
    found = opened(out)
    assert (found.before, found.made_from.people, found.made_from.outside_people) == ("2001-02-02", 25, 25)
    assert found.text_sha256 == hashlib.sha256(corpus.read_bytes()).hexdigest()
    assert found.vocabulary("tiny").id_of("mat") > 0
    assert found.weights("gboard").size == configuration("gboard").layout(10_000).size
    assert "cats, CC0" in (out / "README.md").read_text()
    assert not list(out.glob("checkpoint*"))


@pytest.mark.tensorflow
def test_pretrain_says_what_is_wrong_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("user\ttext\nana\thello\n")
    for corpus, out, error in (
        ("missing", "out", CorpusError),
        ("file", "file", UnavailableError),
    ):
        options = ["--corpus", str(tmp_path / corpus), "--out", str(tmp_path / out)]
        result = CliRunner().invoke(command.main, ["pretrain", *options])
        assert isinstance(result.exception, error)


def test_held_out_messages_are_not_trained_on() -> None:
    users = {user: [f"{user} says {n}" for n in range(25)] for user in "ab"}
    texts, held_out = hold_out(users)
    assert [message for _, message in held_out] == ["a says 9", "a says 19", "b says 4", "b says 14", "b says 24"]
    assert sorted([*texts, *(message for _, message in held_out)]) == sorted([*users["a"], *users["b"]])


def test_a_corpus_of_few_messages_is_held_out_whole_and_trained_on(tmp_path: Path) -> None:
    texts, held_out = hold_out({"a": ("one\ttwo", "three"), "b": ("four",)})
    shape, vocabulary = configuration("tiny"), Vocabulary(("one",))
    weights = initial_weights(shape, vocabulary.size, 7)
    write_model_folder(tmp_path, shape, vocabulary, b"program", weights, held_out=held_out)
    assert tsv(tmp_path / "held_out.tsv").users == {"a": ("one two", "three"), "b": ("four",)}
    assert texts == ["one two", "three", "four"]
    assert hold_out({}) == ([], [])


@pytest.mark.tensorflow
def test_unless_told_otherwise_the_weights_are_trained_on_the_corpus(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from nightjar.models.evaluation import evaluate

    corpus = tmp_path / "corpus.tsv"
    corpus.write_text("user\ttext\n" + "".join(f"u{n}\tthe cat sat on the mat\n" for n in range(400)))
    said = export(monkeypatch, tmp_path / "out", "--corpus", str(corpus))
    assert "360 messages for training, 40 for evaluation" in said
    files = tmp_path / "out"
    manifest = Manifest.decode((files / "manifest.json").read_bytes())
    weights = weights_from_bytes((files / "weights.bin").read_bytes(), manifest.layout)
    vocabulary = Vocabulary.from_bytes((files / "vocabulary.txt").read_bytes())
    assert (vocabulary.size, manifest.vocabulary_size) == (9, 500)  # padded
    weights = cropped(weights, manifest.layout, vocabulary.size)
    batches = pack([vocabulary.encode(["the", "cat", "sat", "on", "the", "mat"])], 16, 20)
    found = evaluate(weights, configuration("tiny"), vocabulary.size, batches)
    random = initial_weights(configuration("tiny"), vocabulary.size, 7)
    assert found.loss < 0.5 * evaluate(random, configuration("tiny"), vocabulary.size, batches).loss


def test_an_unknown_model_is_a_config_error(tmp_path: Path) -> None:
    result = CliRunner().invoke(command.main, ["export", "--model", "huge", "--out", str(tmp_path)])
    assert isinstance(result.exception, ConfigError)


def test_people_are_written_as_an_emulated_phone_reads_them(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.tsv"
    corpus.write_text("user\ttext\n../ada\tgood  morning\n../ada\tsee you\nbob\thello\n")
    out = tmp_path / "new" / "typed"
    result = CliRunner().invoke(command.main, ["people", "--corpus", str(corpus), "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert {path.name: path.read_text() for path in out.iterdir()} == {
        "person-1.txt": "good morning\nsee you\n",
        "person-2.txt": "hello\n",
    }
    assert read_messages(out / "person-1.txt") == ["good morning", "see you"]


def test_people_say_what_is_wrong(tmp_path: Path) -> None:
    result = CliRunner().invoke(command.main, ["people", "--people", "99", "--out", str(tmp_path)])
    assert str(result.exception) == "--people: corpus personas has 48 people, got 99"
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(command.main, ["people", "--out", str(tmp_path / "file")])
    assert isinstance(result.exception, UnavailableError)
