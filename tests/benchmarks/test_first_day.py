import hashlib
import json

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from nightjar.benchmarks import presage
from nightjar.benchmarks.first_day import drawn, fixed_top3, fresh, main, measure
from nightjar.benchmarks.keyboard import shipped_model
from nightjar.benchmarks.pretrained import Pretrained, TextUsed, outside, written_before
from nightjar.edge_agent.core.prediction import weights_of
from nightjar.edge_agent.keyboard.floor import floor
from nightjar.edge_agent.shell.keyboard_model import KeyboardModel
from nightjar.models import corpora
from nightjar.models.compact_ngram import compile_ngram, read_ngram
from nightjar.models.configurations import ModelConfiguration, configuration
from nightjar.models.folder import write_model_folder
from nightjar.models.lexicon import read_lexicon, write_lexicon
from nightjar.models.vocabulary import Vocabulary
from nightjar.wire.errors import CorpusError

WORDS = ("the", "cat", "sat", "on", "mat")
DATE = "2012-06-01"
ROWS = [
    ("ann", "2011-01-01T10:00", "the cat sat on the mat"),
    ("bob", "2011-02-02T10:00", "the cat sat"),
    ("ann", "2013-01-01T10:00", "the mat"),
    ("cem", "2013-02-02T10:00", "the cat sat on the zebra"),
    ("dee", "2014-02-02T10:00", "the zebra sat on the zebra"),
]


def write(path, rows):
    path.write_text("".join("\t".join(row) + "\n" for row in [("user", "time", "text"), *rows]), encoding="utf-8")
    return path


@pytest.fixture
def public(tmp_path):
    return write(tmp_path / "public.tsv", ROWS)


@pytest.fixture
def shipped(public):
    vocabulary = Vocabulary(WORDS)
    shape = ModelConfiguration("small", max_vocabulary=20, embedding=3, hidden=4, batch_rows=1, sequence_length=4)
    layout = shape.layout(vocabulary.size)
    lexicon = read_lexicon(write_lexicon("en", dict.fromkeys(WORDS, 0.1) | {"zebra": 1e-5}))
    return Pretrained(
        TextUsed(DATE, hashlib.sha256(public.read_bytes()).hexdigest()),
        KeyboardModel(weights_of(np.zeros(layout.size, np.float32), layout), vocabulary, 0),
        read_ngram(compile_ngram([vocabulary.encode(text.split()) for *_, text in ROWS[:2]], 9), 9),
        lexicon,
        floor(vocabulary, [lexicon]),
    )


def test_people_with_a_message_in_the_models_text_are_left_out_and_those_of_another_corpus_are_not(
    public, shipped, tmp_path
):
    whole = corpora.load(str(public), 0)
    assert list(outside(whole, public, shipped.made_from).users) == ["cem", "dee"]
    part = corpora.load(str(write(tmp_path / "part.tsv", ROWS[2:4])), 0)
    assert list(outside(part, public, shipped.made_from).users) == ["cem"]
    other = corpora.load(str(write(tmp_path / "other.tsv", [*ROWS, ("eve", "2011", "the cat")])), 0)
    assert list(outside(other, public, shipped.made_from).users) == ["ann", "bob", "cem", "dee", "eve"]
    assert outside(whole, None, shipped.made_from) is whole
    inside = corpora.load(str(write(tmp_path / "inside.tsv", ROWS[:3])), 0)
    with pytest.raises(CorpusError, match="use another"):
        outside(inside, public, shipped.made_from)


def test_presage_learns_what_was_written_before_the_date(public):
    assert written_before(public, DATE) == {"ann": ["the cat sat on the mat"], "bob": ["the cat sat"]}


def test_a_text_without_times_is_refused(tmp_path):
    path = tmp_path / "text.tsv"
    path.write_text("user\ttext\nann\tthe cat\n")
    with pytest.raises(CorpusError, match="user, time and text"):
        written_before(path, DATE)


def test_people_are_drawn_until_there_are_enough_words():
    people = {str(number): ["one two", "three"] for number in range(50)}
    chosen = drawn(people, 30, seed=7)
    assert len(chosen) == 10
    assert chosen == drawn(people, 30, seed=7) != drawn(people, 30, seed=8)
    assert len(drawn(people, 1000, seed=7)) == 50


def test_every_word_counts_in_the_vocabulary_or_not(public, shipped):
    found = measure(shipped, public, None, 5, 7, learn=False)
    assert (found["people"], found["words"]) in {(1, 6), (2, 12)}
    assert found["presage_keystrokes_saved_percent"] is None
    assert 0 < found["top1"] <= found["top3"] < 100  # "zebra" is in no place
    assert found["keystrokes_saved_percent"] > 0


def test_the_fixed_words_are_the_corpus_own(public):
    texts = corpora.load(str(public), 0).users
    assert fixed_top3(texts.values(), drawn(texts, 100, 7)) == pytest.approx(100 * 15 / 23)  # the, sat, cat


def test_a_fresh_keyboard_learns_only_what_it_is_sent(shipped):
    keyboard, untouched = fresh(shipped), fresh(shipped)
    for _ in range(60):
        keyboard.send("quokka mat")
    assert "quokka" in keyboard.suggest("quo")
    assert keyboard.suggest("quokka ")[0] == "mat" != untouched.suggest("quokka ")[0]
    assert "quokka" not in untouched.suggest("quo")


def test_learning_saves_keystrokes_of_a_person_who_repeats_themself(public, shipped, tmp_path):
    corpus = write(tmp_path / "corpus.tsv", [("eve", "2015", "zebra quokka mat")] * 9)
    alone, learned = (measure(shipped, corpus, None, 20, 7, learn=learn) for learn in (False, True))
    assert learned["keystrokes_saved_percent"] > alone["keystrokes_saved_percent"]
    assert alone["words"] == learned["words"] == 27


@pytest.mark.skipif(not presage.installed(), reason="presage is not installed (apt-get install presage)")
def test_presage_types_the_same_words_and_learns_too(public, shipped, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    corpus = write(tmp_path / "corpus.tsv", [("eve", "2015", "zebra quokka mat")] * 9)
    alone, learned = (measure(shipped, corpus, public, 20, 7, learn=learn) for learn in (False, True))
    assert alone["presage_keystrokes_saved_percent"] > 0  # it knows "mat"
    assert learned["presage_keystrokes_saved_percent"] > alone["presage_keystrokes_saved_percent"]


@pytest.fixture
def folder(shipped, tmp_path):
    """The same files as a model folder."""
    shape = configuration("tiny")
    vocabulary = shipped.vocabulary
    made = tmp_path / "shipped"
    write_model_folder(
        made,
        shape,
        vocabulary,
        b"program",
        np.zeros(shape.layout(vocabulary.size).size, np.float32),
        {"en": write_lexicon("en", dict.fromkeys(WORDS, 0.1) | {"zebra": 1e-5})},
        compile_ngram([vocabulary.encode(text.split()) for *_, text in ROWS[:2]], vocabulary.size),
    )
    (made / "made_from.json").write_bytes(msgspec.json.encode(shipped.made_from))
    return made


def test_a_model_folder_is_measured_like_the_shipped_files(folder, public):
    done = CliRunner().invoke(main, ["--corpus", str(public), "--folder", str(folder), "--words", "5", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert {
        "fixed_top3",
        "top1",
        "top3",
        "keystrokes_saved_percent",
        "presage_keystrokes_saved_percent",
        "words",
        "people",
    } == set(found)
    assert found["presage_keystrokes_saved_percent"] is None


@pytest.mark.parametrize("missing", ["made_from.json", "lexicon-en.bin"])
def test_a_folder_without_a_file_is_said_in_a_line(folder, public, missing):
    (folder / missing).unlink()
    done = CliRunner().invoke(main, ["--corpus", str(public), "--folder", str(folder)])
    assert done.exit_code
    assert done.stderr.splitlines()[-1].startswith("first_day: ")
    assert isinstance(done.exception, SystemExit)


def test_the_keyboard_benchmark_takes_the_people_outside_and_the_text_inside(folder, tmp_path):
    rows = [*ROWS, *(("cem", f"2013-03-0{day}", "the cat sat") for day in range(1, 7)), ("fay", "2015", "the mat")]
    corpus = write(tmp_path / "corpus.tsv", rows)
    made_from = TextUsed(DATE, hashlib.sha256(corpus.read_bytes()).hexdigest())
    (folder / "made_from.json").write_bytes(msgspec.json.encode(made_from))
    parts, files, vocabulary = shipped_model(folder, corpus, 1, 200, 7)
    assert [person.user for person in parts.phones] == ["cem"]
    assert parts.public == ("the cat sat on the mat", "the cat sat")
    assert vocabulary.words == WORDS
    assert files.ngram is not None
    other = write(tmp_path / "other.tsv", [("eve", "2011", "the cat")] * 6 + [("ann", "2011", "the mat")])
    assert [person.user for person in shipped_model(folder, other, 1, 200, 7)[0].phones] == ["eve"]
    assert shipped_model(folder, other, 1, 200, 7)[0].public == ()
