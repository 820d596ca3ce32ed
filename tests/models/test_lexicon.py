from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.models.lexicon import MOST_WORDS, fold, read_lexicon, write_lexicon
from nightjar.models.word_lists import compiled, word_shares
from nightjar.wire.errors import RemoteProtocolError

SHARES = {"the": 0.05, "don't": 0.01, "café": 0.0001, "cafe": 1e-12}


def test_words_come_back_in_folded_order_with_their_shares():
    listed = read_lexicon(write_lexicon("en", SHARES))
    assert (listed.language, listed.text.decode().split()) == ("en", ["cafe", "café", "don't", "the"])
    np.testing.assert_allclose(listed.log_shares[1:], np.log([0.0001, 0.01, 0.05]), atol=1 / 24)
    assert listed.log_shares[0] == np.float32(-255 / 12)  # as rare as a byte can say


@given(st.dictionaries(st.text("abcé'", min_size=1, max_size=6), st.floats(1e-9, 1), min_size=1, max_size=20))
def test_any_words_come_back(shares):
    listed = read_lexicon(write_lexicon("fr", shares))
    assert listed.text.decode().splitlines() == sorted(shares, key=lambda word: (fold(word), word))


def test_only_the_commonest_words_are_kept():
    shares = {f"word{'x' * (n % 7)}{n}": 1.0 / (n + 1) for n in range(MOST_WORDS + 5)}
    listed = read_lexicon(write_lexicon("en", shares))
    assert len(listed.log_shares) == MOST_WORDS
    assert f"{[*shares][-1]}\n".encode() not in listed.text


WHOLE = write_lexicon("en", SHARES)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        WHOLE[:-1],
        WHOLE[:10],
        WHOLE + bytes(2_000_000),
        WHOLE.replace(b" 4\n", b" 5\n"),
        WHOLE.replace(b" 4\n", b" 3\n"),
        WHOLE.replace(b" 4\n", b" 0\n"),
        WHOLE.replace(b" 1 en", b" 2 en"),
        b"nightjar-lexicon 1 en 1\n" + zlib.compress(b"\xff\n\x01"),
        b"nightjar-lexicon 1 en 1\n" + zlib.compress(b"ab\x01"),
        b"nightjar-lexicon 1 en 999999\n" + zlib.compress(bytes(100_000_000), 1),  # a bomb
        b"nightjar-lexicon 1 en 1\nnot zlib",
    ],
    ids=range(12),
)
def test_bytes_that_are_no_lexicon_are_refused(data):
    with pytest.raises(RemoteProtocolError, match="lexicon") as refused:
        read_lexicon(data)
    assert refused.value.code == "lexicon"


def test_english_has_what_people_type_and_no_common_misspelling():
    shares = word_shares("en")
    assert {"kate", "anna", "here", "were", "world", "write", "card", "its", "ill", "cant", "wont"} <= shares.keys()
    assert not {"recieve", "definately", "wierd", "becuase", "freind", "teh", "dont", "whats", "todays"} & shares.keys()
    assert {"that's", "what's", "it's", "here's", "let's", "today's"} <= shares.keys()
    assert not {"abashment's", "dog's"} & shares.keys()
    assert shares["the"] > shares["here"] > shares["receive"]
    assert {"ios", "pcs", "cds", "maths"} <= shares.keys(), "commoner than io's, pc's, cd's and math's"


def test_english_has_what_is_spelt_otherwise_in_britain_and_no_slips_that_look_so():
    shares = word_shares("en")
    british = "organising analyse behaviours kilometre counselling paediatric scepticism apologised summarise realises"
    assert set(british.split()) <= shares.keys()
    assert not {"untill", "usefull", "lettre", "feelling", "beautifull", "suprise"} & shares.keys()


@pytest.mark.slow
def test_a_word_with_an_accent_of_its_own_is_one_and_what_lacks_one_is_not():
    spanish, french = word_shares("es"), word_shares("fr")
    assert {"sé", "dé", "aún", "éste", "mirá", "se", "de"} <= spanish.keys()
    assert not {"tambien", "corazon"} & spanish.keys()
    assert {"mail", "email"} <= french.keys()
    assert not {"cest", "daccord", "jai", "the", "jusqu", "aujourd", "c"} & french.keys()
    assert "perchè" not in word_shares("it")
    # Its checked words have debó, teñido, finés and segün, and of término no terminó.
    assert {"debo", "tenido", "fines", "según", "terminó", "añade"} <= spanish.keys()
    assert "segun" not in spanish


@pytest.mark.slow
def test_portuguese_of_brazil_and_russian_cases_are_words_too():
    portuguese, russian = word_shares("pt"), word_shares("ru")
    assert {"prêmio", "ônibus", "gênero", "econômico", "né", "tênis", "género"} <= portuguese.keys()
    assert not {"voce", "nao", "tambem"} & portuguese.keys()
    assert {"отношении", "исследовании", "отношений", "музеи", "война", "воина"} <= russian.keys()
    assert not {"какои", "сеичас", "россий"} & russian.keys()


@pytest.mark.slow
def test_german_has_its_sharp_s():
    german = word_shares("de")
    assert {"größte", "grüße", "süß", "straße", "dass", "müsste"} <= german.keys()
    assert not {"grösste", "grüsse", "süss", "strasse", "daß", "müßte"} & german.keys(), "completed with ß, as usual"
    assert not {"ueber", "fuer", "heisst"} & german.keys()


# Seconds each: the longest lists are read whole. Russian is the one whose words are not all checked.
OTHERS = [pytest.param(language, marks=pytest.mark.long) for language in ("es", "fr", "it", "pt", "ru")]


@pytest.mark.slow
@pytest.mark.parametrize("language", ["de", "en", *OTHERS])
def test_every_language_has_fifty_thousand_words_in_little_room(language):
    data = compiled(language)
    assert len(data) <= 1_500_000
    assert len(read_lexicon(data).log_shares) >= 50_000
