"""What a device says of its whole keyboard: with the version of the session, and with the announced one."""

import dataclasses

import msgspec
import numpy as np
import pytest

from nightjar.edge_agent.core.keystrokes import newest, replay
from nightjar.edge_agent.keyboard.reader import Reader
from nightjar.edge_agent.session.task import SessionTask
from nightjar.edge_agent.shell import keyboard_evaluation
from nightjar.edge_agent.shell.keyboard_evaluation import MOST_S, beside_model, evaluate_keyboard, keyboard_around
from nightjar.edge_agent.shell.keyboard_model import load_keyboard_model
from nightjar.models.compact_ngram import compile_ngram
from nightjar.models.keyboard import held_out
from nightjar.models.lexicon import write_lexicon
from nightjar.models.source import Source
from nightjar.models.vocabulary import Vocabulary, words
from nightjar.wire.errors import UnavailableError
from nightjar.wire.identifiers import Sha256
from nightjar.wire.messages import TrainingPlan
from nightjar.wire.parameters import weights_to_bytes
from tests.edge_agent.fakes import LAYOUT, VOCABULARY, WORDS, assignment, write_model

PLAN = TrainingPlan(learning_rate=1.0, clip_norm=1.0, evaluation_share=0.3, keystrokes=True)
TEXTS = tuple(f"{WORDS[n % 6]} {WORDS[(n + n // 6) % 6]} zorblax {WORDS[n % 5]} q{n}" for n in range(60))


def never():
    return False


def still():
    return 0.0


def with_weights(folder, version, seed):
    """A version whose weights were drawn; seeds differ in what they predict."""
    model = write_model(folder, version)
    path = folder / f"weights-{version}"
    path.write_bytes(weights_to_bytes(np.random.default_rng(seed).normal(size=LAYOUT.size).astype(np.float32)))
    return dataclasses.replace(model, weights=path)


def task(base, announced, texts=TEXTS):
    return SessionTask(assignment(base, plan=PLAN), base, Source(texts), 1, announced=announced)


@pytest.fixture
def versions(tmp_path):
    return with_weights(tmp_path, 4, 1), with_weights(tmp_path, 3, 2)


def whole_keyboard(model, typed):
    reader = Reader(load_keyboard_model(model))
    beside = beside_model(model, reader.vocabulary)
    return keyboard_around(beside.mixed(reader, typed), beside, typed)


def by_hand(model, texts=TEXTS):
    typed, held = held_out(texts, 0.3)
    keyboard = whole_keyboard(model, typed)
    return [replay(keyboard.suggest, message) for message in held]


def test_both_versions_are_counted_on_the_words_that_are_held_back(versions):
    base, announced = versions
    found = evaluate_keyboard(task(base, announced), never, still)
    ours, theirs = by_hand(base), by_hand(announced)
    assert found.letters == sum(one.letters for one in ours) > 0
    assert (found.saved, found.saved_announced) == (sum(one.saved for one in ours), sum(one.saved for one in theirs))
    assert found.announced == 3
    assert found.saved != found.saved_announced
    assert 0 < found.saved < found.letters


def test_the_announced_version_itself_is_counted_once(versions, monkeypatch):
    _, announced = versions
    loaded, load = [], keyboard_evaluation.load_keyboard_model
    monkeypatch.setattr(keyboard_evaluation, "load_keyboard_model", lambda model: loaded.append(model) or load(model))
    found = evaluate_keyboard(task(announced, announced), never, still)
    assert (found.saved, found.announced, len(loaded)) == (found.saved_announced, 3, 1)


def test_the_keyboard_has_not_learned_from_what_is_held_back(versions):
    base, announced = versions
    typed, held = held_out(TEXTS, 0.3)
    found = evaluate_keyboard(task(base, announced), never, still)
    learned = whole_keyboard(base, [*typed, *held * 20])
    assert sum(replay(learned.suggest, message).saved for message in held) > found.saved


def test_the_whole_keyboard_has_the_ngram_model_and_the_lexicon_of_its_version(tmp_path):
    ngram = compile_ngram([VOCABULARY.encode(("cat", "mat"))] * 50, VOCABULARY.size)
    lexicon = write_lexicon("en", {**dict.fromkeys(WORDS, 0.1), "quixotic": 0.2})
    plain = write_model(tmp_path, 1)
    files = write_model(tmp_path, 1, {"en": lexicon}, ngram)
    folder = files.weights.parent
    (english,) = files.manifest.lexicons
    whole = dataclasses.replace(
        files, lexicons={"en": folder / english.file.sha256}, ngram=folder / files.manifest.ngram.sha256
    )
    assert whole_keyboard(whole, ()).suggest("cat ")[0] == "mat"
    assert "quixotic" in whole_keyboard(whole, ()).suggest("qu")
    assert whole_keyboard(plain, ()).suggest("cat ")[0] != "mat"
    assert "quixotic" not in whole_keyboard(plain, ()).suggest("qu")
    german = dataclasses.replace(whole, lexicons={"de": tmp_path / "gone"})
    assert "quixotic" not in whole_keyboard(german, ()).suggest("qu")


@pytest.mark.parametrize("shared", [True, False])
def test_each_version_has_what_came_with_it(tmp_path, versions, shared):
    ngrams = [tmp_path / "ngram-0", tmp_path / "ngram-0" if shared else tmp_path / "ngram-1"]
    for path, pair in zip(ngrams, (("cat", "mat"), ("mat", "on")), strict=True):
        path.write_bytes(compile_ngram([VOCABULARY.encode(pair)] * 50, VOCABULARY.size))
    lexicons = {"en": tmp_path / "en"}
    lexicons["en"].write_bytes(write_lexicon("en", {**dict.fromkeys(WORDS, 0.1), "zorblax": 0.2}))
    base, announced = (
        dataclasses.replace(model, ngram=ngram, lexicons=lexicons)
        for model, ngram in zip(versions, ngrams, strict=True)
    )
    found = evaluate_keyboard(task(base, announced), never, still)
    expected = [sum(one.saved for one in by_hand(model)) for model in (base, announced)]
    assert [found.saved, found.saved_announced] == expected


def test_without_a_keyboard_or_with_one_of_another_vocabulary_nothing_is_said(tmp_path, versions):
    base, _ = versions
    other = write_model(tmp_path / "other", 9, vocabulary=Vocabulary(tuple(reversed(WORDS))))
    assert evaluate_keyboard(task(base, None), never, still) is None
    assert evaluate_keyboard(task(base, other), never, still) is None
    assert evaluate_keyboard(task(base, base, ("the cat",) * 9), never, still) is None  # nothing is held back
    rows = dataclasses.replace(base, manifest=msgspec.structs.replace(base.manifest, task_type="classification"))
    assert evaluate_keyboard(task(rows, rows), never, still) is None


def test_what_was_typed_again_before_a_stop_is_kept_if_it_is_enough(versions):
    base, announced = versions
    newest_first = held_out(TEXTS, 0.3)[1][::-1]
    ours, theirs = by_hand(base)[::-1], by_hand(announced)[::-1]
    said = []
    for polls in range(len(newest_first) + 3):
        asked = iter([False] * polls)
        found = evaluate_keyboard(task(base, announced), lambda asked=asked: next(asked, True), still)
        typed = max(0, min(polls - len(versions), len(newest_first)))  # it asks before it reads each version, too
        enough = sum(len(words(message)) for message in newest_first[:typed]) >= keyboard_evaluation.FEWEST_WORDS
        assert (found is not None) == enough
        if found is not None:
            said.append(found)
            assert found.saved == sum(one.saved for one in ours[:typed])
            assert found.saved_announced == sum(one.saved for one in theirs[:typed])
    assert 1 < len(said) < len(newest_first)


def test_a_slow_device_compares_the_versions_on_what_it_managed(versions):
    base, announced = versions
    held = held_out(TEXTS, 0.3)[1]
    clock = iter(range(0, 1000, 3))
    found = evaluate_keyboard(task(base, announced), never, lambda: float(next(clock)))
    managed = int(MOST_S // 3)
    assert managed < len(held)
    assert found.letters == sum(one.letters for one in by_hand(base)[-managed:])
    assert found.saved_announced == sum(one.saved for one in by_hand(announced)[-managed:])


def test_only_the_newest_words_are_typed_again(versions):
    texts = tuple(f"{WORDS[n % 6]} {WORDS[n % 5]} the cat sat on a mat q{n}" for n in range(400))
    found = evaluate_keyboard(task(*versions, texts), never, still)
    kept = newest(held_out(texts, 0.3)[1], keyboard_evaluation.MOST_WORDS)
    assert found.letters == sum(len(word) + 1 for message in kept for word in message.split())
    assert len(kept) < len(held_out(texts, 0.3)[1])


def test_a_version_whose_files_are_gone_is_an_error(versions):
    base, announced = versions
    announced.weights.unlink()
    with pytest.raises(UnavailableError):
        evaluate_keyboard(task(base, announced), never, still)


def test_versions_of_the_same_number_are_told_apart_by_their_manifests(versions):
    base, _ = versions
    twin = dataclasses.replace(base, sha256=Sha256("ab" * 32))
    found = evaluate_keyboard(task(base, twin), never, still)
    assert (found.saved, found.announced) == (found.saved_announced, 4)
