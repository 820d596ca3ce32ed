import hashlib
import itertools
import re

import pytest

from nightjar.models.corpora import load, split
from nightjar.models.corpora.personas import personas
from nightjar.models.corpora.phrasebook import RULES, TOPICS
from nightjar.models.vocabulary import Vocabulary, words
from nightjar.wire.errors import CorpusError

GOLDEN = "4cfbe7e9dab202a06f70eb571eb2e269df7ca3b657bd9d63865be6211e9aabda"


def test_a_seed_gives_the_same_people_everywhere() -> None:
    text = "\n".join(f"{user}\t{m}" for user, ms in personas(7, people=4, messages=50).users.items() for m in ms)
    assert hashlib.sha256(text.encode()).hexdigest() == GOLDEN


def test_more_people_do_not_change_the_first_ones() -> None:
    few, many = personas(7, people=3, messages=20).users, personas(7, people=9, messages=20).users
    assert list(many.items())[:3] == list(few.items())
    assert personas(8, people=3, messages=20).users != few


def test_every_gap_of_the_phrasebook_is_filled() -> None:
    everything = [m for ms in personas(1, people=40, messages=100).users.values() for m in ms]
    assert not [m for m in everything if re.search(r"[{}|]", m)]


def test_no_two_topics_give_one_name_to_different_words() -> None:
    names = [name for _, slots in TOPICS.values() for name in slots] + list(RULES)
    assert len(names) == len(set(names))


def test_people_differ_and_share_a_language() -> None:
    corpus = load("personas", 7)
    divided = split(corpus, 8, 7)
    vocabulary = Vocabulary.build(divided.public, 2_000)
    typed = [[w for m in phone.typed for w in words(m)] for phone in divided.phones]
    unknown = sum(vocabulary.id_of(w) < 4 for ws in typed for w in ws) / sum(map(len, typed))
    assert 400 < vocabulary.size < 1_500
    assert unknown < 0.02, "the public text must hold nearly all words"
    for a, b in itertools.combinations([set(ws) for ws in typed], 2):
        assert len(a & b) / len(a | b) < 0.75, "no two people talk about the same things"


def test_nobody_is_no_corpus() -> None:
    with pytest.raises(CorpusError):
        personas(7, people=0)
    with pytest.raises(CorpusError):
        personas(7, messages=0)
