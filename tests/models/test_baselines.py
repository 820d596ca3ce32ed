"""What a federated model is compared with; the command around it is tested in tests/coordinator/commands."""

import numpy as np
import pytest

from nightjar.models.configurations import configuration
from nightjar.models.folder import write_model_folder
from nightjar.models.initial import initial_weights
from nightjar.models.vocabulary import Vocabulary
from nightjar.wire.errors import CorpusError, UnavailableError

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

WORDS = ("the", "cat", "dog", "sat", "ran", "a")


@pytest.fixture
def measure(tmp_path):
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    from nightjar.models.baselines import measure_baselines

    shape, vocabulary = configuration("tiny"), Vocabulary(WORDS)
    write_model_folder(tmp_path / "model", shape, vocabulary, b"program", initial_weights(shape, vocabulary.size, 7))

    def run(corpus: str, text: str, folder=tmp_path / "model"):
        for name, said in (("corpus", corpus), ("text", text)):
            rows = "".join(f"ann\t{message}\n" for message in said.split("|"))
            (tmp_path / name).write_text(f"user\ttext\n{rows}")
        places = str(tmp_path / "corpus"), tmp_path / "text"
        return measure_baselines(folder, *places, epochs=2, learning_rate=1.0, clip_norm=1.0, seed=7)

    return run


def test_both_learn_from_the_corpus_and_the_same_seed_gives_the_same_figures(measure):
    corpus = "|".join(["the cat sat", "the dog ran"] * 20)
    first, second = measure(corpus, "the cat sat|the dog ran"), measure(corpus, "the cat sat|the dog ran")
    assert first.trigram.top1 > 0.5
    assert first.central.loss < first.before.loss < 2 * np.log(len(WORDS) + 4)
    assert (first.central.top1, first.central.loss) == (second.central.top1, second.central.loss)
    assert (first.messages, first.central.steps, first.corpus_sha256) == (
        40,
        second.central.steps,
        second.corpus_sha256,
    )


def test_texts_without_a_known_word_are_refused(measure):
    with pytest.raises(CorpusError, match="no words of the model's vocabulary"):
        measure("the cat sat", "zebra giraffe")


def test_a_folder_without_a_model_is_said(measure, tmp_path):
    with pytest.raises(UnavailableError, match="cannot read the model"):
        measure("the cat", "the cat", folder=tmp_path / "nothing")
