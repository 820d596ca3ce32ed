from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from nightjar.models.compact_ngram import read_ngram
from nightjar.models.configurations import configuration
from nightjar.models.corpora.tsv import rows
from nightjar.models.shipped import MADE_FROM, NAMES, PRETRAINED, opened, shipped
from nightjar.models.vocabulary import words
from nightjar.models.word_lists import dictionary
from nightjar.wire.errors import ConfigError

CORPUS = Path(__file__).parents[3] / "shared" / "data" / "ubuntu_irc" / "messages.tsv"
MOST_BYTES = 8_000_000


@pytest.mark.parametrize("name", NAMES)
def test_the_parts_of_a_configuration_fit_together(name: str) -> None:
    found = shipped()
    vocabulary = found.vocabulary(name)
    assert vocabulary.size == configuration(name).max_vocabulary
    weights = found.weights(name)
    assert weights.dtype == np.float32
    assert np.isfinite(weights).all()
    assert configuration(name).layout(vocabulary.size).size == len(weights)
    ngram = read_ngram(found.ngram(name), vocabulary.size)
    best = np.argsort(-ngram.after(*vocabulary.encode(["how", "do"])))[:1]
    assert vocabulary.word(int(best[0])) == "i"


def test_all_files_together_are_small() -> None:
    assert sum(path.stat().st_size for path in PRETRAINED.rglob("*") if path.is_file()) <= MOST_BYTES


def test_the_readme_says_what_the_models_were_made_from() -> None:
    found = shipped()
    text = (found.folder / "README.md").read_text()
    for part in (found.text_sha256, found.made_from.command, "CC-BY-4.0", str(found.before)):
        assert part in text


def test_tiny_knows_the_commonest_words_of_gboard() -> None:
    found = shipped()
    assert found.vocabulary("gboard").words[: len(found.vocabulary("tiny").words)] == found.vocabulary("tiny").words


@pytest.mark.skipif(not CORPUS.is_file(), reason=f"the corpus is not at {CORPUS}")
def test_no_nickname_of_the_corpus_is_in_the_vocabulary_unless_it_is_a_dictionary_word() -> None:
    found = shipped()
    assert hashlib.sha256(CORPUS.read_bytes()).hexdigest() == found.text_sha256
    nicknames = {word for row in rows(CORPUS) for word in (row.user.lower(), *alone(row.user))}
    assert not (nicknames & set(found.vocabulary("gboard").words)) - dictionary("en")


def alone(user: str) -> list[str]:
    """The one word that a nickname is."""
    said = words(user)
    return said if len(said) == 1 else []


def test_a_configuration_without_weights_says_so() -> None:
    with pytest.raises(
        ConfigError, match="no pre-trained weights for the model 'gboard-gru', only for gboard and tiny"
    ):
        shipped().weights("gboard-gru")


def test_a_folder_without_a_model_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="pretrain"):
        opened(tmp_path)
    (tmp_path / MADE_FROM).write_text("{}")
    with pytest.raises(ConfigError, match="before"):
        opened(tmp_path)
