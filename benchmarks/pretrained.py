"""The shipped files as a fresh device has them, and the people whose text is not in them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from nightjar.benchmarks.setting import BUILD, LANGUAGE, SEED
from nightjar.edge_agent.core.mixture import Mixture
from nightjar.edge_agent.keyboard.floor import floor
from nightjar.edge_agent.keyboard.reader import Reader
from nightjar.edge_agent.ports import Floats
from nightjar.edge_agent.shell.keyboard_model import (
    KeyboardModel,
    load_keyboard_model,
    read_lexicon_of,
    read_ngram_of,
)
from nightjar.edge_agent.shell.model_files import exported_model
from nightjar.host.files import replace_file
from nightjar.models import corpora
from nightjar.models.compact_ngram import CompactNgram
from nightjar.models.configurations import configuration
from nightjar.models.corpora import Corpus
from nightjar.models.corpora.tsv import rows
from nightjar.models.export import export_program
from nightjar.models.folder import write_model_folder
from nightjar.models.lexicon import WordList
from nightjar.models.shipped import MADE_FROM, shipped
from nightjar.models.starts import pretrained_start
from nightjar.models.vocabulary import Vocabulary
from nightjar.models.word_lists import compiled
from nightjar.wire.errors import CorpusError, LocalProtocolError, UnavailableError


class TextUsed(msgspec.Struct, frozen=True):
    """The text that the shipped files are made from: its SHA-256, and the date before which the used part ends."""

    date: str
    sha256: str

    def is_text(self, path: Path) -> bool:
        """Whether a file is that text."""
        return hashlib.sha256(path.read_bytes()).hexdigest() == self.sha256


@dataclass(frozen=True, slots=True)
class Pretrained:
    """The shipped files of a model, ready for prediction."""

    made_from: TextUsed
    model: KeyboardModel
    ngram: CompactNgram
    lexicon: WordList
    floor: Floats | None

    @property
    def vocabulary(self) -> Vocabulary:
        """The words that the model knows."""
        return self.model.vocabulary

    def predictor(self, texts: Sequence[str] = ()) -> Mixture:
        """The predictor that a device makes of the files, given the messages that were typed there."""
        return Mixture(Reader(self.model), self.ngram, self.floor, texts)


def shipped_folder(name: str) -> Path:
    """The model folder that ``models export`` makes of the shipped files, with a ``made_from.json`` for this benchmark.

    Made once for each state of the shipped files.

    Raises:
        ConfigError: there are none of this configuration.
    """
    files, shape = shipped(LANGUAGE), configuration(name)
    start = pretrained_start(shape, SEED, None)
    state = hashlib.sha256(start.weights.tobytes() + start.ngram + start.vocabulary.to_bytes()).hexdigest()
    folder = BUILD / f"pretrained-{name}-{state[:12]}"
    if not (folder / MADE_FROM).exists():
        program = export_program(shape, start.vocabulary.size, BUILD / "programs")
        lexicons = {LANGUAGE: compiled(LANGUAGE)}
        write_model_folder(folder, shape, start.vocabulary, program, start.weights, lexicons, start.ngram)
        made_from = TextUsed(files.before or "", files.text_sha256)
        replace_file(folder / MADE_FROM, msgspec.json.encode(made_from))
    return folder


def pretrained(folder: Path) -> Pretrained:
    """The files of a model folder that has a ``made_from.json``.

    Raises:
        UnavailableError: a file is missing.
        LocalProtocolError: there is no n-gram model or no lexicon in it that can be used.
    """
    files = exported_model(folder)
    try:
        made_from = msgspec.json.decode((folder / MADE_FROM).read_bytes(), type=TextUsed)
    except (OSError, msgspec.DecodeError) as error:
        msg = (
            f"{folder / MADE_FROM}: expected the date and the SHA-256 of the text that the model is made from: {error}"
        )
        raise UnavailableError(msg) from error
    ngram, lexicon = read_ngram_of(files), read_lexicon_of(files, LANGUAGE)
    if ngram is None or lexicon is None:
        msg = f"{folder}: expected an n-gram model and a lexicon of the language {LANGUAGE!r} beside the model"
        raise LocalProtocolError(msg)
    model = load_keyboard_model(files)
    return Pretrained(made_from, model, ngram, lexicon, floor(model.vocabulary, [lexicon]))


def written_before(path: Path, date: str) -> dict[str, list[str]]:
    """The messages of a text that were written before a date, by user.

    Raises:
        CorpusError: not a readable corpus, or no row of it has a time.
    """
    users: dict[str, list[str]] = {}
    timed = False
    for row in rows(path):
        timed = timed or bool(row.time)
        if row.user and row.text and row.time and row.time < date:
            users.setdefault(row.user, []).append(row.text)
    if not timed:
        msg = f"{path}: expected a header with the columns user, time and text, and times in it; got none"
        raise CorpusError(msg)
    return users


def outside(corpus: Corpus, made_of: Path | None, made_from: TextUsed) -> Corpus:
    """The people of a corpus who took no part in the shipped files: all of a corpus from elsewhere.

    ``made_of`` is the text that the files are made from, if it is there. A corpus is from there if it has no user that
    the text lacks.

    Raises:
        CorpusError: nobody is left.
    """
    if made_of is None:
        return corpus
    if not corpus.users.keys() <= corpora.load(str(made_of), 0).users.keys():
        return corpus
    inside = written_before(made_of, made_from.date)
    left: Mapping[str, tuple[str, ...]] = {u: texts for u, texts in corpus.users.items() if u not in inside}
    if not left:
        msg = f"all people of {corpus.name} wrote before {made_from.date}: the model knows their text, so use another"
        raise CorpusError(msg)
    return Corpus(corpus.name, left)
