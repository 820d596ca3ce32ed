from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.edge_agent.keyboard.learning import OwnWord
from nightjar.edge_agent.keyboard.reader import Reader
from nightjar.edge_agent.keyboard.slurs import slurs_of
from nightjar.edge_agent.keyboard.suggestions import Suggester, Suggestions
from nightjar.models.lexicon import read_lexicon, write_lexicon
from nightjar.models.vocabulary import BOS, OOV, Vocabulary
from nightjar.wire.errors import UnavailableError
from tests.edge_agent.keyboard.conftest import WORDS


def test_empty_field_already_offers_words(bench):
    assert bench.suggester.suggest("") == Suggestions(("hello", "how", "i'm"), "", space_takes=False, version=7)


def test_next_words_follow_the_last_finished_word(bench):
    assert bench.suggester.suggest("hello ").words == ("there", "world", "how")
    assert bench.suggester.suggest("hello how ").words == ("are", "is", "about")


def test_prefix_is_completed_by_the_likeliest_words_that_begin_with_it(bench):
    found = bench.suggester.suggest("hello th")
    assert found.prefix == "th"
    assert found.words[:2] == ("there", "they")  # "there" follows "hello"; "they" merely fits


def test_word_that_was_passed_over_gives_its_place_to_another():
    suggester = Suggester()
    passed = suggester.suggest("", language="en").words[1]
    assert Suggester().suggest(passed[0], language="en").words[0] == passed
    offered = suggester.suggest(passed[0], language="en").words
    assert offered[0] != passed
    assert suggester.suggest(passed[0], language="en").words == offered, "the same text is no refusal"


def test_a_word_with_no_space_after_it_is_still_being_typed(bench):
    assert bench.suggester.suggest("how").words[:2] == ("howl", "how"), "a place for what is typed saves nothing"


def test_prefix_like_nothing_offers_only_itself(bench):
    assert bench.suggester.suggest("xyzzy").words == ("xyzzy",)


def test_one_fitting_word_comes_before_the_prefix_itself(bench):
    assert bench.suggester.suggest("hello the").words == ("there", "they", "the")


def test_unknown_word_is_read_as_out_of_vocabulary(bench):
    assert bench.suggester.suggest("zorblax ").words == ("said", "is", "are")
    assert bench.model.tokens == [BOS, OOV]


@pytest.mark.parametrize(
    "text", ["hello how. ", "hello how! ", "hello how?", "hello how\u06d4 ", "hello. how?! ", "hello how...\n"]
)
def test_sentence_end_starts_afresh(bench, text):
    assert bench.suggester.suggest(text) == bench.suggester.suggest("")
    assert bench.model.tokens == [BOS]


@pytest.mark.parametrize(
    ("text", "words"), [("hel", "hello"), ("Hel", "Hello"), ("HEL", "HELLO"), ("O'c", "O'clock"), ("1", "12")]
)
def test_completion_keeps_the_case_that_was_typed(bench, text, words):
    assert bench.suggester.suggest(text).words[0] == words


@pytest.mark.parametrize(
    ("text", "words", "takes"),
    [
        ("Helko", ("Hello", "Helko", "Help"), True),  # one slip of the finger
        ("hlelo", ("hello", "hlelo"), True),
        ("hlep", ("help", "hlep"), True),
        ("im", ("i'm", "im"), True),  # the same letters but for an apostrophe
        ("hell", ("hello", "hell"), True),  # the last letter is missing
        ("Helm", ("Helmet", "Helm"), False),  # there is one way to go on, but nobody slipped
        ("kate", ("kate",), False),  # a word of the lexicon, one slip from the model's "late"
        ("Kate", ("Kate",), False),
        ("wont", ("wont",), False),
        ("'kate'", ("kate",), False),  # quotation marks
        ("kate's", ("kate's",), False),
        ("recieve", ("receive", "recieve"), True),  # a word that only the lexicon has
        ("hel", ("hello", "help", "helmet"), False),  # there are several
        ("how", ("how", "howl"), False),  # it is a word
        ("hello Helko", ("Hello", "Helko", "Help"), False),  # a name
        ("HELKO", ("HELLO", "HELKO", "HELP"), False),  # an abbreviation
        ("hel1", ("hel1", "hello", "help"), False),  # a code
        ("<helmt", ("helmet", "helmt", "hello"), False),  # markup
        ("rm --helmt", ("helmet", "helmt", "hello"), False),  # an option
        ("-helmt", ("helmet", "helmt", "hello"), False),
        ("well-helmt", ("helmet", "helmt"), True),
        ("@helmt", ("helmet", "helmt", "hello"), False),  # a handle
        ("example.helmt", ("helmet", "helmt", "hello"), False),  # an address
        ("(helko", ("hello", "helko"), True),
        ("“helko", ("hello", "helko"), True),
        ("hello xyzzy", ("xyzzy",), False),
        ("h", ("how", "hello", "help"), False),
    ],
)
def test_space_takes_only_what_was_plainly_meant(bench, text, words, takes):
    found = bench.suggester.suggest(text, language="en-GB")
    assert found.space_takes is takes
    if takes:
        assert found.words[: len(words)] == words
    else:
        assert set(found.words) >= {words[0]}


def test_without_a_lexicon_of_the_language_space_takes_nothing(bench):
    for text in ("Helko", "hlep", "im", "recieve"):
        assert bench.suggester.suggest(text, language="").space_takes is False
    assert bench.suggester.suggest("hlep", language="").words[0] == "help"  # and offers as before


def test_the_lexicon_completes_words_that_the_model_lacks_behind_those_that_it_has(bench):
    assert bench.suggester.suggest("rec", language="en").words == ("receive", "rec")
    assert bench.suggester.suggest("hel", language="en").words[:2] == ("hello", "help")


def test_a_lexicon_is_read_once_for_a_language_and_model(bench):
    asked = []

    def lexicon(language):
        asked.append(language)
        return read_lexicon(write_lexicon("en", dict.fromkeys((*bench.model.vocabulary.words, "receive"), 0.01)))

    bench.suggester.replace_predictor(Reader(bench.model), lexicon)
    for text in ("rec", "rece", ""):
        bench.suggester.suggest(text, language="en")
    assert asked == ["en"]
    bench.suggester.suggest("rec", language="de")
    bench.suggester.replace_predictor(Reader(type(bench.model)(vocabulary=Vocabulary(("receive",)))))
    assert bench.suggester.suggest("rec", language="de").words == ("receive", "rec")
    assert asked == ["en", "de", "de"]


def test_the_lexicon_of_the_models_language_is_read_with_the_model_and_not_at_the_first_key(bench):
    asked = []

    def lexicon(language):
        asked.append(language)
        known = bench.model.vocabulary.words if language == "en" else ("freundschaft",)
        return read_lexicon(write_lexicon(language, dict.fromkeys((*known, "receive"), 0.01)))

    suggester = Suggester()
    suggester.replace_predictor(Reader(bench.model), lexicon)
    read = len(asked)
    assert asked[-1] == "en"
    assert suggester.suggest("rec", language="en-GB").words[0] == "receive"
    assert len(asked) == read


def test_a_message_in_a_language_that_nobody_named_leaves_the_lexicon_in_use(bench):
    asked = []

    def lexicon(language):
        asked.append(language)
        return read_lexicon(write_lexicon(language, dict.fromkeys(bench.model.vocabulary.words, 0.01)))

    bench.suggester.replace_predictor(Reader(bench.model), lexicon)
    bench.suggester.suggest("hel", language="en")
    bench.suggester.recall("hello how are", "")
    bench.suggester.suggest("hel", language="en")
    assert asked == ["en"]


def test_a_language_without_a_lexicon_is_the_models_unless_the_model_speaks_another(bench):
    english = read_lexicon(write_lexicon("en", dict.fromkeys(bench.model.vocabulary.words, 0.01)))
    foreign = read_lexicon(write_lexicon("en", {"receive": 0.01}))
    for known, words in ((english, ("je", "de", "est")), (foreign, ("hello", "how", "i'm"))):
        bench.suggester.replace_predictor(Reader(bench.model), {"en": known}.get)
        assert bench.suggester.suggest("", language="fr").words == words
        assert bench.suggester.suggest("", language="und").words == ("hello", "how", "i'm")


def test_a_model_of_another_language_gives_way_to_common_words_and_it_is_said(bench):
    english = read_lexicon(write_lexicon("en", dict.fromkeys(bench.model.vocabulary.words, 0.01)))
    german = read_lexicon(write_lexicon("de", {"freundschaft": 1e-5, "hello": 1e-6}))
    bench.suggester.replace_predictor(Reader(bench.model), {"en": english, "de": german}.get)
    assert bench.suggester.suggest("", language="en").words == ("hello", "how", "i'm")
    shown = bench.suggester.suggest("", language="de-AT")
    assert (shown.words, shown.version) == (("ich", "du", "das"), None)
    assert "another language" in shown.reason
    assert bench.suggester.suggest("freun", language="de").words[0] == "freundschaft"


def test_own_words_stand_among_the_others_as_they_are_written(bench):
    bench.suggester.replace_own_words([OwnWord("ada", "Ada", 3), OwnWord("howard", "Howard", 2)])
    assert bench.suggester.suggest("ad").words[0] == "Ada"
    assert "Howard" in bench.suggester.suggest("how").words
    assert bench.suggester.suggest("ada").space_takes is False
    assert bench.suggester.suggest("Hoard").words[0] == "Howard"
    assert bench.suggester.suggest("hello ").words == ("there", "world", "how")  # rare words do not push in
    assert bench.suggester.knows("ada") is False


def test_an_own_word_that_was_sent_twice_does_not_flood_contexts_that_the_model_does_not_know(bench):
    bench.suggester.replace_own_words([OwnWord("quokka", "quokka", 2)])
    assert "quokka" not in bench.suggester.suggest("world ").words
    bench.suggester.replace_own_words([OwnWord("quokka", "quokka", 500)])
    assert bench.suggester.suggest("world ").words[0] == "quokka"


def test_a_word_that_was_sent_once_completes_its_beginning_and_is_still_corrected(bench):
    bench.suggester.replace_own_words([OwnWord("quokka", "quokka", 1), OwnWord("helko", "helko", 1)])
    assert bench.suggester.own_words == 0
    assert bench.suggester.suggest("quo").words[0] == "quokka"
    assert "quokka" not in bench.suggester.suggest("qupkka", language="en").words  # a slip may repeat a slip
    found = bench.suggester.suggest("helko", language="en")
    assert (found.words[0], found.space_takes) == ("hello", True)
    bench.suggester.replace_own_words([OwnWord("quokka", "quokka", 2), OwnWord("helko", "helko", 2)])
    assert bench.suggester.suggest("qupkka", language="en").words[0] == "quokka"


@pytest.mark.parametrize(("written", "count", "takes"), [("helko", 2, True), ("helko", 60, False), ("Helko", 9, False)])
def test_slip_of_a_common_word_is_no_word_until_it_was_typed_often_or_is_a_name(bench, written, count, takes):
    bench.suggester.replace_own_words([OwnWord("helko", written, count)])
    assert bench.suggester.suggest("helko", language="en").space_takes is takes


def test_phrase_that_was_sent_twice_foresees_its_last_word(bench):
    bench.suggester.replace_own_words([OwnWord("zorblax", "Zorblax", 2)])
    for _ in range(2):
        assert "Zorblax" not in bench.suggester.suggest("my safe word is ", language="en").words
        bench.suggester.learn("My safe word is Zorblax")
    assert bench.suggester.suggest("my safe word is ", language="en").words[0] == "Zorblax"
    bench.suggester.forget_phrases()
    assert "Zorblax" not in bench.suggester.suggest("my safe word is ", language="en").words


def test_forgotten_word_is_not_offered_until_it_is_typed_again(bench):
    assert bench.suggester.suggest("hel", language="en").words[0] in ("hello", "help")
    bench.suggester.replace_own_words([OwnWord("hello", "hello", 0), OwnWord("help", "help", 0)])
    assert not {"hello", "help"} & set(bench.suggester.suggest("hel", language="en").words)
    assert "hello" not in bench.suggester.suggest("", language="en").words
    assert bench.suggester.needs_counting("hello")
    bench.suggester.replace_own_words([OwnWord("hello", "hello", 1)])
    assert bench.suggester.suggest("", language="en").words[0] == "hello"


def test_slur_is_offered_only_where_it_was_asked_for_or_typed_in_full(bench):
    [slur] = (word for word in slurs_of("en") if word.startswith("wetb") and word.endswith("k"))
    words = dict.fromkeys(bench.model.vocabulary.words, 1e-4) | {slur: 1e-3, slur[:4] + "x": 1e-6}
    bench.suggester.replace_predictor(Reader(bench.model), {"en": read_lexicon(write_lexicon("en", words))}.get)
    assert slur not in bench.suggester.suggest(slur[:5], language="en").words
    assert slur in bench.suggester.suggest(slur[:5], language="en", slurs=True).words
    typed = bench.suggester.suggest(slur, language="en")
    assert slur in typed.words
    assert not typed.space_takes
    assert not bench.suggester.suggest(slur[:-2] + slur[-1], language="en").space_takes, "nobody is corrected to one"


@pytest.mark.parametrize(
    ("language", "typed", "meant"),
    [
        ("es", "sé", None),  # a word of another, not se without its accent
        ("es", "mirá", None),
        ("it", "perchè", "perché"),
        ("it", "benchè", "benché"),
        ("it", "purchè", "purché"),
        ("it", "piu'", "più"),
        ("it", "un po'", None),
        ("pt", "mâe", "mãe"),
        ("pt", "agua", "água"),
        ("fr", "foret", "forêt"),
        ("fr", "ou", None),  # as usual as the other
        ("en", "resume", None),
        ("fr", "chuis", None),  # l'huis is rarer than a word of one's own
        ("de", "Morgne", "Morgen"),
        ("de", "Ubung", "Übung"),
        ("de", "Geburstag", "Geburtstag"),
        ("de", "Lens", None),  # a name
        ("de", "mochte", None),
        ("de", "Ware", None),
        ("de", "wahrend", "während"),  # hardly anybody means the other
    ],
)
def test_accents_are_completed_and_never_taken_away_and_german_nouns_are_mended(bench, language, typed, meant):
    listed = {
        "es": {"se": 0.01, "mira": 1e-3},
        "it": {"perché": 1e-2, "purché": 1e-3, "benché": 1e-3, "banche": 1e-2, "più": 1e-3, "pio": 1e-5}
        | {"po": 1e-3, "può": 1e-3},
        "pt": {"água": 1e-3, "agua": 1e-5, "mãe": 1e-2, "mas": 1e-1},
        "fr": {"forêt": 2e-5, "foret": 1e-6, "ou": 1e-3, "où": 2e-3, "huis": 1e-7},
        "en": {"resume": 1e-5, "résumé": 1e-3},
        "de": {"morgen": 1e-3, "übung": 1e-5, "geburtstag": 1e-4, "lena": 1e-3}
        | {"möchte": 1e-3, "mochte": 1e-5, "wäre": 1e-3, "ware": 1e-5, "während": 1e-3, "wahrend": 1e-6},
    }[language]
    lexicon = read_lexicon(write_lexicon(language, listed))
    bench.suggester.replace_predictor(None, {language: lexicon}.get)
    found = bench.suggester.suggest(f"x {typed}", language=language)
    assert (found.words[0] if found.space_takes else None) == meant


@pytest.mark.parametrize(("typed", "takes"), [("jsut", True), ("realy", True), ("taht", True), ("cron", False)])
def test_slip_that_many_share_is_one_also_if_the_model_knows_it(bench, typed, takes):
    known = Vocabulary((*bench.model.vocabulary.words, "jsut", "realy", "taht", "cron"))
    lexicon = read_lexicon(
        write_lexicon(
            "en",
            dict.fromkeys(bench.model.vocabulary.words, 1e-5)
            | {
                "just": 0.05,
                "really": 0.05,
                "that": 0.05,
                "corn": 2e-5,
            },
        )
    )
    bench.suggester.replace_predictor(Reader(type(bench.model)(vocabulary=known)), {"en": lexicon}.get)
    assert bench.suggester.suggest(f"hello {typed}", language="en").space_takes is takes


@pytest.mark.parametrize(("typed", "takes"), [("whats", True), ("cds", False), ("dont", False)])
def test_contraction_in_s_is_completed_and_a_plural_is_no_genitive_also_if_the_model_knows_both(bench, typed, takes):
    both = ("whats", "what's", "cds", "cd's", "dont", "don't")
    model = type(bench.model)(
        vocabulary=Vocabulary((*WORDS, *both)), followers={"<s>": ["whats", "what's", "cd's", "cds", "dont", "don't"]}
    )
    listed = read_lexicon(write_lexicon("en", dict.fromkeys((*WORDS, "what's", "don't", "cd"), 1e-4)))
    bench.suggester.replace_predictor(Reader(model), {"en": listed}.get)
    assert bench.suggester.suggest(typed, language="en").space_takes is takes


@pytest.mark.parametrize(("typed", "takes"), [("Ivo", False), ("Ive", True)])
def test_a_name_inside_a_sentence_is_no_contraction_of_i(bench, typed, takes):
    listed = read_lexicon(write_lexicon("en", dict.fromkeys((*WORDS, "i've"), 1e-3)))
    bench.suggester.replace_predictor(Reader(bench.model), {"en": listed}.get)
    shown = bench.suggester.suggest(f"hello {typed}", language="en")
    assert shown.space_takes is takes


@pytest.mark.parametrize(
    ("language", "typed", "meant"),
    [
        ("en", "youre", "you're"),
        ("en", "ive", "i've"),
        ("en", "thats", "that's"),
        ("fr", "ete", "été"),
        ("fr", "jai", "j'ai"),
        ("fr", "lhomme", "l'homme"),
        ("de", "koennen", "können"),
        ("de", "muessen", "müssen"),
        ("de", "daß", "dass"),
        ("de", "Schloß", "Schloss"),
    ],
)
def test_what_was_left_out_is_completed_before_another_word_is_tried(bench, language, typed, meant):
    listed = {
        "en": {"you're": 1e-6, "your": 0.1, "i've": 1e-6, "ice": 0.1, "that's": 1e-6, "that": 0.1},
        "fr": {"été": 1e-6, "être": 0.1, "ai": 1e-3, "homme": 1e-4, "comme": 0.1},
        "de": {"können": 1e-6, "kennen": 0.1, "müssen": 1e-6, "messen": 0.1, "dass": 1e-4, "das": 0.1}
        | {"schloss": 1e-6, "schoß": 1e-4},
    }[language]
    lexicon = read_lexicon(write_lexicon(language, listed))
    bench.suggester.replace_predictor(None, {language: lexicon}.get)
    found = bench.suggester.suggest(f"x {typed}", language=language)
    assert (found.words[0], found.space_takes) == (meant, True)


def test_typographic_apostrophe_belongs_to_the_word(bench):
    shown = bench.suggester.suggest("hello i\u2019", language="en")
    assert (shown.prefix, shown.words[0]) == ("i\u2019", "i\u2019m")


def test_common_words_that_the_vocabulary_lacks_fill_the_places_where_the_model_knows_little(bench):
    listed = read_lexicon(write_lexicon("en", dict.fromkeys(bench.model.vocabulary.words, 1e-4) | {"because": 0.5}))
    bench.suggester.replace_predictor(Reader(bench.model), {"en": listed}.get)
    assert bench.suggester.suggest("world ", language="en").words[0] == "because"
    assert bench.suggester.suggest("hello ", language="en").words[0] == "there"
    assert bench.suggester.recall("hello because", "en").top3 == 1  # "because" follows "hello" for nobody


def test_letters_of_one_word_ask_the_predictor_once_and_learning_makes_it_ask_again(bench):
    class Learning(Reader):
        asked, learned = 0, ()

        def scores(self, finished):
            self.asked += 1
            return super().scores(finished)

        def learn(self, text):
            self.learned += (text,)

    predictor = Learning(bench.model)
    suggester = Suggester(predictor)
    for text in ("hello ", "hello t", "hello th", "hello"):
        suggester.suggest(text)
    assert predictor.asked == 2  # after "hello", and at the beginning
    suggester.learn("hello there")
    suggester.suggest("hel")
    assert (predictor.asked, predictor.learned) == (3, ("hello there",))


def test_a_predictor_that_cannot_learn_is_left_alone(bench):
    before = bench.suggester.suggest("hel")
    bench.suggester.learn("hello there")
    assert bench.suggester.suggest("hel") == before
    alone = Suggester()
    alone.learn("hello there")
    assert alone.suggest("hel").words == Suggester().suggest("hel").words


def test_word_that_the_vocabulary_has_by_now_is_no_own_word(bench):
    suggester = Suggester(own=[OwnWord("hello", "Hello", 50), OwnWord("ada", "Ada", 2)])
    assert suggester.own_words == 2
    suggester.replace_predictor(Reader(bench.model))
    assert suggester.own_words == 1
    assert suggester.suggest("hel").words[0] == "hello"
    suggester.replace_predictor(None)
    assert suggester.own_words == 2


@pytest.mark.parametrize(
    ("text", "word", "takes"),
    [
        ("cafe\u0301", "cafe\u0301", False),  # marks of their own: it is the same word
        ("नमस्तेे", "नमस्ते", True),  # a vowel sign too many
        ("दुनिया नमस्त", "नमस्ते", True),
        ("tschüs", "tschüss", True),
        ("приветт", "привет", True),
    ],
)
def test_corrections_in_any_script(bench, text, word, takes):
    words = ("café", "नमस्ते", "दुनिया", "tschüss", "привет")
    listed = read_lexicon(write_lexicon("en", dict.fromkeys(words, 0.1)))
    model = type(bench.model)(vocabulary=Vocabulary(words), followers={})
    bench.suggester.replace_predictor(Reader(model), lambda _: listed)
    found = bench.suggester.suggest(text, language="en")
    assert (found.words[0], found.space_takes) == (word, takes)


def test_accents_may_be_left_out_and_typed_ones_count(bench):
    bench.use(vocabulary=Vocabulary(("cafe", "été", "etes", "über")), followers={})
    assert bench.suggester.suggest("ete").words[:2] == ("etes", "été")
    assert bench.suggester.suggest("Ub").words[0] == "Über"
    assert bench.suggester.suggest("ét").words[0] == "été"


def test_without_a_model_common_words_and_own_words_are_offered_and_the_reason_is_said():
    suggester = Suggester(own=[OwnWord("quokka", "quokka", 2)])
    found = suggester.suggest("hi ", language="de")
    assert found.words == ("ich", "du", "das")
    assert (found.version, found.space_takes) == (None, False)
    assert "No model yet" in found.reason
    assert suggester.suggest("quo", language="de").words[0] == "quokka"
    assert suggester.suggest("", language="tlh").words == ("ok", "haha", "hm")


@given(st.text(max_size=40), st.sampled_from(["", "en", "ru"]))
def test_the_bar_is_never_empty(text, language):
    assert Suggester().suggest(text, language=language).words


def test_a_run_that_is_longer_than_any_word_costs_no_time(bench):
    bench.suggester.suggest("x", language="en")
    begun_s = time.process_time()
    assert bench.suggester.suggest("x" * 2000, language="en").words == ("x" * 2000,)
    assert time.process_time() - begun_s < 0.5


def test_new_model_is_used_from_the_next_suggestion_on(bench):
    bench.suggester.suggest("hello ")
    bench.use(version=8, followers={"hello": ["day"]}, vocabulary=Vocabulary(("day", "hello")))
    assert bench.suggester.version == 8
    assert bench.suggester.suggest("hello ").words == ("day", "hello")


def test_first_model_may_come_late(bench):
    suggester = Suggester()
    assert suggester.version is None
    suggester.replace_predictor(Reader(bench.model))
    assert suggester.suggest("").words == ("hello", "how", "i'm")


def test_a_model_that_fails_is_said_and_its_commonest_words_stand_in(bench):
    class Failing(type(bench.model)):
        def step(self, token, state):
            raise UnavailableError("the file is gone")

    suggester = Suggester(Reader(Failing()))
    found = suggester.suggest("hello ")
    assert found.words == tuple(bench.model.vocabulary.words[:3])
    assert "does not answer (unavailable)" in found.reason
    assert suggester.suggest("he").words[0] == "hello"


@pytest.mark.parametrize("score", [np.nan, np.inf, -np.inf])
def test_scores_that_are_no_numbers_do_not_empty_the_bar(bench, score):
    class Mad(type(bench.model)):
        def step(self, token, state):
            return np.full(self.vocabulary.size, score, np.float32), state

    assert len(Suggester(Reader(Mad())).suggest("").words) == 3


def test_recall_counts_what_stood_there_before_the_first_letter(bench):
    # Right after the start: hello; after "hello": there is second to none; "zorblax" is foreseen by nobody.
    assert bench.suggester.recall("Hello there. How are zorblax") == (5, 3, 4)
    assert bench.suggester.recall("...") == (0, 0, 0)
    assert Suggester().recall("ich und du", "de") == (3, 1, 2)


def test_words_do_not_wait_until_a_whole_message_was_looked_at():
    message = ["hello"] * 1_000
    looked_at, answered = [], []

    class Slow:
        vocabulary, version = Vocabulary(("hello", "there")), 1

        def scores(self, finished):
            if finished == tuple(message[:10]):
                asks.start()
            if finished[:1] == ("hello",):
                looked_at.append(len(finished))
                time.sleep(0.001 if not answered else 0)
            return np.zeros(self.vocabulary.size, np.float32)

    suggester = Suggester(Slow())
    asks = threading.Thread(
        target=lambda: answered.append((suggester.suggest("there ").words, looked_at[-1])), daemon=True
    )
    assert suggester.recall(" ".join(message)).words == len(message)
    asks.join()
    ((words, place),) = answered
    assert set(words) == {"hello", "there"}
    assert place < len(message) - 1


def test_threads_never_mix_two_models(bench):
    """Words and version of an answer belong to one model while models are swapped under the readers."""
    models = [
        type(bench.model)(
            version=v, followers={"<s>": [f"w{v}"]}, vocabulary=Vocabulary(tuple(f"w{i}" for i in range(4)))
        )
        for v in range(4)
    ]
    suggester = Suggester(Reader(models[0]))
    wrong: list[Suggestions] = []

    def read() -> None:
        for _ in range(200):
            found = suggester.suggest("")
            if found.words[0] != f"w{found.version}":
                wrong.append(found)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for turn in range(200):
        suggester.replace_predictor(Reader(models[turn % 4]))
    for reader in readers:
        reader.join()
    assert wrong == []


def test_specials_are_never_suggested(bench):
    assert all(not word.startswith("<") for word in bench.suggester.suggest("", count=1000).words)


@pytest.mark.parametrize(("typed", "meant"), [("wierd", "weird"), ("seperate", "separate")])
def test_misspelling_that_many_people_share_is_mended_though_the_model_knows_it(bench, typed, meant):
    bench.use(vocabulary=Vocabulary(("hello", typed, meant)))
    words = {"hello": 0.1, meant: 1e-4}
    listed = read_lexicon(write_lexicon("en", words))
    bench.suggester.replace_predictor(Reader(bench.model), {"en": listed}.get)
    assert bench.suggester.suggest(typed, language="en").words[0] == meant
