"""Measures recall and saved keystrokes: held-out messages are typed again through the keyboard's own suggester.

The text of most users is public: the vocabulary, the trigram, presage and the global model are made from it. The others
are phones: their earlier messages are on the device, and their last messages are replayed letter by letter, as
:mod:`nightjar.edge_agent.core.keystrokes` counts. Recall is that of the words in the vocabulary; keystrokes count every
word.

- ``trigram``: interpolated Kneser-Ney.
- ``trigram_history``: ``blended`` with the trigram instead of the LSTM; the difference is the gain from the LSTM.
- ``global``: the global model.
- ``personalised``: the model after a session on the phone, if it was better on the phone's own held-out part.
- ``blended``: ``personalised`` with the user's own history and own words, which learn from each sent message.
- ``mixed``: ``blended`` on the mean of that model and the compact n-gram of the public text: the product's default.
- ``presage``: Debian's predictor, if it is installed.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from nightjar.benchmarks import presage
from nightjar.benchmarks.measuring import errors_in_a_line, print_json, show
from nightjar.benchmarks.pretrained import outside, pretrained, shipped_folder, written_before
from nightjar.benchmarks.session import session_task
from nightjar.benchmarks.setting import BUILD
from nightjar.edge_agent.core.keystrokes import Replayed, Suggest, replay
from nightjar.edge_agent.core.mixture import Mixture
from nightjar.edge_agent.keyboard.reader import Reader
from nightjar.edge_agent.keyboard.suggestions import Suggester
from nightjar.edge_agent.keyboard.whole import WholeKeyboard
from nightjar.edge_agent.model import Model
from nightjar.edge_agent.ports import Predictor
from nightjar.edge_agent.session.session import in_this_process
from nightjar.edge_agent.session.task import Produced
from nightjar.edge_agent.shell.keyboard_model import common_words_of, load_keyboard_model
from nightjar.edge_agent.shell.model_files import exported_model
from nightjar.edge_agent.shell.tflite import load_program
from nightjar.models import corpora
from nightjar.models.compact_ngram import CompactNgram, compile_ngram, read_ngram
from nightjar.models.configurations import CONFIGURATIONS, ModelConfiguration, configuration
from nightjar.models.corpora import Corpus, Participant, Split
from nightjar.models.export import export_program
from nightjar.models.folder import write_model_folder
from nightjar.models.ngram import train_trigram
from nightjar.models.vocabulary import Vocabulary, words
from nightjar.models.warm_start import CLIP_NORM, RATE, warm_start
from nightjar.simulation.demo.keyboards import NgramPredictor
from nightjar.simulation.laboratory.checkpoint import about, restored_weights
from nightjar.simulation.laboratory.training import prepare
from nightjar.simulation.warm_start import PROGRAMS
from nightjar.wire.errors import LocalProtocolError
from nightjar.wire.messages import TrainingPlan

TITLE = "recall and saved keystrokes, %"
PLAN = TrainingPlan(learning_rate=0.3, clip_norm=1.0, evaluation_share=0.2)
"""Plan of the session on the phone."""


def row(predictor: str, counts: Replayed) -> dict[str, Any]:
    """A row of the table."""
    return {
        "predictor": predictor,
        "top1": 100 * counts.top1 / max(1, counts.words),
        "top3": 100 * counts.top3 / max(1, counts.words),
        "keystrokes_saved_percent": counts.saved_percent,
    }


def through(predictor: Predictor) -> Suggest:
    """The suggestions that a user would see."""
    suggester = Suggester(predictor)
    return lambda text: suggester.suggest(text).words


def measure(
    corpus: str,
    model: str,
    phones: int,
    messages: int,
    passes: float,
    seed: int,
    ngram_corpus: str = "",
    run: Path | None = None,
    shipped: Path | None = None,
) -> dict[str, Any]:
    """Results of every predictor; the help of the options explains the arguments.

    Corpus, model and people of a run of the laboratory replace those of the other arguments; the model of a folder of
    shipped files replaces theirs.
    """
    if shipped is not None:
        parts, files, vocabulary = shipped_model(shipped, Path(corpus), phones, messages, seed)
    elif run is None:
        parts = corpora.split(corpora.load(corpus, seed), phones, seed, messages)
        files, vocabulary = global_model(parts, configuration(model), passes, seed)
    else:
        parts, files, vocabulary = federated_model(run, phones, messages)
    if shipped is not None:
        # The n-gram model of the shipped files is a trigram of the same text under the same rules.
        trigram = NgramPredictor(vocabulary, _ngram_of(files))
    else:
        public = [vocabulary.encode(words(text)) for text in parts.public]
        trigram = NgramPredictor(vocabulary, train_trigram(public, vocabulary.size))
    names = ("trigram", "trigram_history", "global", "personalised", "blended", "mixed")
    total: dict[str, Replayed] = {name: Replayed() for name in names}
    others: presage.Presage | None = None
    if presage.installed() and parts.public:
        others = presage.Presage(presage.train([" ".join(words(text)) for text in parts.public], BUILD / "presage"))
        total["presage"] = Replayed()
    else:
        click.echo("presage is not installed: no row for it (apt-get install presage)", err=True)
    ngram = _ngram_of(files)
    if ngram_corpus:
        users = corpora.load(ngram_corpus, seed).users
        other = [vocabulary.encode(words(text)) for texts in users.values() for text in texts]
        ngram = read_ngram(compile_ngram(other, vocabulary.size), vocabulary.size)
    common = common_words_of(files, vocabulary)
    kept = helped = hurt = 0
    pairs: list[tuple[Replayed, Replayed]] = []
    for number, phone in enumerate(parts.phones):
        personal = _personal_weights(files, phone, seed + number)
        fleet = _replayed(through(Reader(load_keyboard_model(files))), phone, vocabulary)
        reader = Reader(load_keyboard_model(files, personal))
        kept += personal is not None
        own = fleet if personal is None else _replayed(through(reader), phone, vocabulary)
        gain = own.top1 + own.top3 - fleet.top1 - fleet.top3
        helped, hurt = helped + (gain > 0), hurt + (gain < 0)
        total["trigram"] += _replayed(through(trigram), phone, vocabulary)
        total["global"] += fleet
        total["personalised"] += own
        total["blended"] += blended(reader, phone)
        pairs.append((blended(Mixture(reader, ngram, common, phone.typed), phone), blended(trigram, phone)))
        total["mixed"] += pairs[-1][0]
        total["trigram_history"] += pairs[-1][1]
        if others is not None:
            total["presage"] += _replayed(others.suggest, phone, vocabulary)
    more_top3, error = paired_gain(pairs)
    return {
        "gain_top3": more_top3,
        "gain_top3_error": error,
        "predictors": [row(name, counts) for name, counts in total.items()],
        "users": len(parts.phones),
        "words": total["global"].words,
        "personal_models_kept": kept,
        "users_helped": helped,
        "users_hurt": hurt,
    }


def paired_gain(pairs: Sequence[tuple[Replayed, Replayed]]) -> tuple[float, float]:
    """How much more the first of each pair knows than the second, in points of top-3, over the words of all people.

    >>> few, more, most = Replayed(words=10), Replayed(words=10, top3=4), Replayed(words=10, top3=5)
    >>> gain, error = paired_gain([(more, few), (most, more)])
    >>> f"{gain:.1f} {error:.1f}"
    '25.0 10.6'

    Each pair is two replays of a person.

    Returns:
        The gain, and its standard error with people as the unit: a ratio estimator, as people type different amounts.
    """
    typed = max(1, sum(ours.words for ours, _ in pairs))
    gain = sum(ours.top3 - theirs.top3 for ours, theirs in pairs) / typed
    off = sum((ours.top3 - theirs.top3 - gain * ours.words) ** 2 for ours, theirs in pairs)
    return 100 * gain, 100 * off**0.5 / typed


def _replayed(suggest: Suggest, phone: Participant, vocabulary: Vocabulary) -> Replayed:
    return sum((replay(suggest, message, vocabulary) for message in phone.held_out), Replayed())


def blended(predictor: Predictor, phone: Participant) -> Replayed:
    """Replay a user's messages through the whole keyboard, which learns from each sent message."""
    keyboard, total = WholeKeyboard(predictor, phone.typed), Replayed()
    for message in phone.held_out:
        total += replay(keyboard.suggest, message, predictor.vocabulary)
        keyboard.send(message)
    return total


def global_model(parts: Split, shape: ModelConfiguration, passes: float, seed: int) -> tuple[Model, Vocabulary]:
    """The global model in its own folder, trained on the public text once and cached."""
    vocabulary = Vocabulary.build(parts.public, shape.max_vocabulary)
    digest = hashlib.sha256(repr((shape, passes, seed, RATE, CLIP_NORM)).encode())
    for text in parts.public:
        digest.update(text.encode())
    public = [vocabulary.encode(words(text)) for text in parts.public]
    folder = BUILD / f"keyboard-{shape.name}-{digest.hexdigest()[:12]}"
    kept = folder / "trained.npy"
    if not kept.exists():
        folder.mkdir(parents=True, exist_ok=True)
        click.echo(f"training the global model {shape.name}: {passes:g} passes, once", err=True)
        np.save(kept, warm_start(shape, vocabulary.size, public, passes, seed))
    program = export_program(shape, vocabulary.size, BUILD / "programs")
    ngram = compile_ngram(public, vocabulary.size)
    write_model_folder(folder, shape, vocabulary, program, np.load(kept), ngram=ngram)
    return exported_model(folder), vocabulary


def federated_model(run: Path, phones: int, messages: int) -> tuple[Split, Model, Vocabulary]:
    """The model of a run of the laboratory, with people who did not train it, and the last messages of each.

    The public text, from which the trigram and the n-gram model are made, is what the others trained on.
    """
    what = about(run)
    prepared = prepare(what.experiment, corpora.load(what.experiment.corpus, what.seed), what.seed, run, PROGRAMS)
    outside = {f"person-{number}": texts for number, texts in enumerate(prepared.people.outside)}
    chosen = corpora.split(Corpus("people held out", outside), phones, what.seed, messages).phones
    parts = Split(chosen, tuple(text for texts in prepared.people.train for text in texts))
    shape, vocabulary = configuration(what.experiment.model), prepared.vocabulary
    ngram = compile_ngram([vocabulary.encode(words(text)) for text in parts.public], vocabulary.size)
    folder = run / "keyboard"
    program = prepared.program.read_bytes()
    write_model_folder(folder, shape, vocabulary, program, restored_weights(run), ngram=ngram)
    return parts, exported_model(folder), vocabulary


def shipped_model(folder: Path, corpus: Path, phones: int, messages: int, seed: int) -> tuple[Split, Model, Vocabulary]:
    """The shipped files, with people of a corpus whose text is not in them, and the last messages of each.

    The public text is what the files are made from, if the corpus has it; without it there is none.
    """
    shipped, files = pretrained(folder), exported_model(folder)
    inside = written_before(corpus, shipped.made_from.date) if shipped.made_from.is_text(corpus) else {}
    people = outside(corpora.load(str(corpus), seed), corpus if inside else None, shipped.made_from)
    chosen = corpora.split(people, phones, seed, messages).phones
    return Split(chosen, tuple(text for texts in inside.values() for text in texts)), files, shipped.vocabulary


def mixed(files: Model, typed: Sequence[str]) -> Mixture:
    """The mixture of the global model and the n-gram model, which is blended with the user's history."""
    reader = Reader(load_keyboard_model(files))
    return Mixture(reader, _ngram_of(files), common_words_of(files, reader.vocabulary), typed)


def _ngram_of(files: Model) -> CompactNgram:
    if files.ngram is None:
        msg = f"{files.weights.parent} has no n-gram model"
        raise LocalProtocolError(msg)
    return read_ngram(files.ngram.read_bytes(), files.manifest.vocabulary_size)


def _personal_weights(model: Model, phone: Participant, seed: int) -> Path | None:
    """File of the phone's personal weights; None if its session discards them."""
    path = model.personal_weights
    path.unlink(missing_ok=True)
    task = session_task(model, PLAN, phone.typed, seed, path)
    done = in_this_process(load_program, time.monotonic)(task, lambda: False)
    return path if isinstance(done, Produced) and done.personal_share else None


@click.command()
@click.option("--corpus", default="personas", show_default=True, help="personas, pydoc, or a TSV file (user, text).")
@click.option("--model", default="tiny", show_default=True, type=click.Choice(list(CONFIGURATIONS)))
@click.option(
    "--phones", default=12, show_default=True, type=click.IntRange(1), help="Users whose messages are replayed."
)
@click.option(
    "--messages",
    default=200,
    show_default=True,
    type=click.IntRange(5),
    help="Messages per user, the last ones; a fifth is replayed.",
)
@click.option(
    "--passes",
    default=4.0,
    show_default=True,
    type=click.FloatRange(0, 1000),
    help="Passes over the public text for the global model.",
)
@click.option("--ngram-corpus", default="", help="Text for the n-gram model in 'mixed'; default: the public text.")
@click.option("--run", type=click.Path(path_type=Path), help="A run of the laboratory, instead of the options above.")
@click.option(
    "--pretrained", "shipped", is_flag=True, help="The shipped files, and people of --corpus whose text is not in them."
)
@click.option("--seed", default=7, show_default=True, type=click.IntRange(0, 2**31))
@click.option("--json", "as_json", is_flag=True)
def main(
    *,
    corpus: str,
    model: str,
    phones: int,
    messages: int,
    passes: float,
    ngram_corpus: str,
    run: Path | None,
    shipped: bool,
    seed: int,
    as_json: bool,
) -> None:
    """Measure recall and saved keystrokes on replayed held-out messages."""
    with errors_in_a_line("keyboard"):
        folder = shipped_folder(model) if shipped else None
        found = measure(corpus, model, phones, messages, passes, seed, ngram_corpus, run, folder)
    if as_json:
        print_json(found)
        return
    show(TITLE, found["predictors"])
    show("users", [{k: v for k, v in found.items() if k != "predictors"}])


if __name__ == "__main__":
    main()
