from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from click.testing import CliRunner

from models import __main__ as command
from models.corpora.pydoc import pydoc
from models.corpora.tsv import tsv
from models.folder import write_held_out
from models.manifest import Manifest
from models.vocabulary import Vocabulary
from wire.errors import ConfigError
from wire.parameters import weights_from_bytes


def test_export_writes_four_files_that_belong_together_and_text_to_measure_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def no_conversion(shape: object, size: int, cache: Path) -> bytes:
        cache.mkdir(parents=True)
        return b"program"

    monkeypatch.setattr(command, "export_program", no_conversion)
    result = CliRunner().invoke(command.main, ["export", "--corpus", "pydoc", "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    files = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir() if p.is_file()}
    manifest = Manifest.decode(files["manifest.json"])
    for artifact, name in (
        (manifest.program, "program.tflite"),
        (manifest.weights, "weights.bin"),
        (manifest.vocabulary, "vocabulary.txt"),
    ):
        assert artifact.sha256 == hashlib.sha256(files[name]).hexdigest()
        assert artifact.size_bytes == len(files[name])
    assert Vocabulary.from_bytes(files["vocabulary.txt"]).size == manifest.vocabulary_size
    assert weights_from_bytes(files["weights.bin"], manifest.layout).shape == (manifest.layout.size,)
    whole, held_out = pydoc().users, tsv(tmp_path / "out" / "held_out.tsv").users
    messages = sum(map(len, held_out.values()))
    assert min(2000, sum(map(len, whole.values())) // 10) / 2 < messages <= 2000
    assert all({" ".join(message.split()) for message in whole[user]} >= set(held_out[user]) for user in held_out)


def test_a_corpus_of_few_messages_is_held_out_whole(tmp_path: Path) -> None:
    write_held_out(tmp_path, {"a": ("one\ttwo", "three"), "b": ("four",)})
    assert tsv(tmp_path / "held_out.tsv").users == {"a": ("one two", "three"), "b": ("four",)}


def test_an_unknown_model_is_a_config_error(tmp_path: Path) -> None:
    result = CliRunner().invoke(command.main, ["export", "--model", "huge", "--out", str(tmp_path)])
    assert isinstance(result.exception, ConfigError)
