"""A model folder as the exporter writes it; its program could not be run, and the coordinator never does."""

from pathlib import Path

import numpy as np

from nightjar.models.compact_ngram import compile_ngram
from nightjar.models.configurations import ModelConfiguration, lstm_layout
from nightjar.models.folder import write_model_folder
from nightjar.models.lexicon import write_lexicon
from nightjar.models.manifest import Manifest
from nightjar.models.vocabulary import FIRST_WORD, Vocabulary

WORDS = ("the", "a", "cat", "dog", "sat", "ran")
LEXICONS = {"en": write_lexicon("en", {"the": 0.05, "cat": 0.001})}
EMBEDDING, HIDDEN = 3, 5
LAYOUT = lstm_layout(FIRST_WORD + len(WORDS), EMBEDDING, HIDDEN)
INITIAL = np.linspace(-1, 1, LAYOUT.size, dtype=np.float32)


def write_model(folder: Path, words: tuple[str, ...] = WORDS, hidden: int = HIDDEN) -> Manifest:
    shape = ModelConfiguration("tiny", max_vocabulary=10**6, embedding=EMBEDDING, hidden=hidden)
    vocabulary = Vocabulary(words)
    weights = np.linspace(-1, 1, shape.layout(vocabulary.size).size, dtype=np.float32)
    ngram = compile_ngram([range(FIRST_WORD, vocabulary.size)], vocabulary.size)
    return write_model_folder(folder, shape, vocabulary, b"a program", weights, LEXICONS, ngram)
