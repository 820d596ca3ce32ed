"""The page's editing, which is pure functions of a draft and a key: called in the browser, without the page."""
# ruff: noqa: RUF001 - typographic apostrophes are meant

from __future__ import annotations

import pytest

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page(chromium):
    """An empty page that may load the module."""
    from pathlib import Path

    import nightjar.edge_agent.keyboard

    page = chromium.new_page()
    static = Path(nightjar.edge_agent.keyboard.__file__).parent / "static"
    sources = [(static / name).read_text(encoding="utf-8") for name in ("abbreviations.js", "text.js")]
    # Modules of their own, whose exports the tests can reach.
    page.evaluate(
        """async ([abbreviations, text]) => {
            const module = source => URL.createObjectURL(new Blob([source], {type: "text/javascript"}));
            window.text = await import(module(text.replace("./abbreviations.js", module(abbreviations))));
        }""",
        sources,
    )
    yield page
    page.close()


# "|" is the caret in all drafts below, "[" and "]" a selection.
RUN = """([written, keys, rules]) => {
    const {draft, type, accept, erase} = window.text;
    const start = written.search(/[|[]/), end = written.includes("]") ? written.indexOf("]") - 1 : start;
    let d = draft(written.replace(/[|[\\]]/g, ""), start, end);
    for (const key of keys) {
        if (key === "erase") d = erase(d);
        else if (Array.isArray(key)) d = accept(d, ...key);
        else d = type(d, key, rules);
    }
    return d.text.slice(0, d.start) + "|" + d.text.slice(d.end);
}"""


@pytest.mark.parametrize(
    ("written", "keys", "expected"),
    [
        ("|", ["a"], "a|"),
        ("ab|cd", ["x"], "abx|cd"),
        ("a[bc]d", ["x"], "ax|d"),
        # a suggestion
        ("hel|", [["hel", "hello"]], "hello |"),
        ("so |", [["", "what"]], "so what |"),
        ("so|", [["", "what"]], "so what |"),
        ("(|", [["", "what"]], "(what |"),
        ("hel| you", [["hel", "hello"]], "hello| you"),
        # right before the sign that closes a quotation
        *((f"{a}hal|{b}", [["hal", "hallo"]], f"{a}hallo|{b}") for a, b in ("„“", "»«", "‚‘", "“”", "‘’", "«»", "“”")),
        ("„hal|“, sagt sie", [["hal", "hallo"]], "„hallo|“, sagt sie"),
        ("so |“yes”", [["", "what"]], "so what |“yes”"),
        # its space belongs to it
        ("so |", [["", "what"], "?"], "so what? |"),
        ("so |", [["", "what"], "?", "!", "."], "so what?!. |"),
        ("so |", [["", "what"], ",", " "], "so what, |"),
        ("so |", [["", "what"], " "], "so what |"),
        ("so |", [["", "what"], "x"], "so what x|"),
        ("so what |", ["?"], "so what ?|"),  # a space that a person typed stays
        # backspace goes back on it
        ("hel|", [["hel", "hello"], "erase"], "hel|"),
        ("hel|", [["hel", "hello"], "erase", "erase"], "he|"),
        ("hel|", [["hel", "hello"], "x", "erase"], "hello |"),
        # backspace takes what a person sees as one character
        ("a👍🏽|", ["erase"], "a|"),
        ("e\u0301|", ["erase"], "|"),
        ("👨‍👩‍👧|", ["erase"], "|"),
        ("a[bc]d", ["erase"], "a|d"),
        ("|a", ["erase"], "|a"),
    ],
)
def test_keys(page, written, keys, expected):
    assert page.evaluate(RUN, [written, keys, {}]) == expected


@pytest.mark.parametrize(
    ("written", "keys", "expected"),
    [
        ("i|", [" "], "I |"),
        ("so i|", [","], "so I,|"),
        ("i'm|", [" "], "I'm |"),
        ("i’ll|", ["."], "I’ll.|"),
        ("hi|", [" "], "hi |"),
        ("a_i|", [" "], "a_i |"),
        ("it's i|", ["n"], "it's in|"),
        ("i|", [" ", "erase"], "i |"),
    ],
)
def test_lonely_i_is_a_capital_in_english_only(page, written, keys, expected):
    assert page.evaluate(RUN, [written, keys, {"language": "en"}]) == expected
    if "I" in expected:
        assert "I" not in page.evaluate(RUN, [written, keys, {"language": "de"}])


@pytest.mark.parametrize(
    ("written", "keys"),
    [
        ("|", ["i", ".", "e", ".", " "]),
        ("ls -i|", [" "]),
        ("x.org/i|", [" "]),
        ("@i|", [" "]),
        ("$i|", [" "]),
        ("for (i|", [";"]),
        ("f(i|", [")"]),
        ("i|", [")"]),  # a list
        ("i|", ["+", "+"]),
        ("a.i|", [" "]),
    ],
)
def test_lonely_i_that_is_no_word_stays_small(page, written, keys):
    typed = page.evaluate(RUN, [written, keys, {"language": "en"}])
    assert typed == written.replace("|", "".join(keys)) + "|"


@pytest.mark.parametrize(
    ("written", "keys", "expected"),
    [
        ("so do i|", [".", " "], "so do I. |"),
        ("so do i|", [*"... "], "so do I... |"),
        ("(so do i|", [")"], "(so do I)|"),
        ("(i|", [" "], "(I |"),
        ("“i|", [" "], "“I |"),
        ("then—i|", [" "], "then—I |"),
        ("'i|", [" "], "'I |"),
        ("so *i|", [" "], "so *I |"),
        ("i'd've|", [" "], "I'd've |"),
    ],
)
def test_lonely_i_that_is_a_word_gets_its_capital(page, written, keys, expected):
    assert page.evaluate(RUN, [written, keys, {"language": "en"}]) == expected


@pytest.mark.parametrize(
    ("written", "keys", "expected"),
    [
        ("the |", [["", "dog"], "'", "s", " "], "the dog's |"),
        ("the |", [["", "dog"], "’", "s"], "the dog’s|"),
        ("so |", [["", "well"], "-", "k"], "so well-k|"),
        ("so |", [["", "well"], " ", "-", " "], "so well - |"),
        # what messengers show bold or struck out
        ("so **|", [["", "well"], "*", "*", "."], "so **well**. |"),
        ("~~we|", [["we", "well"], "~", "~", "k"], "~~well~~ k|"),
        ("**so** |", ["*", "*", ["", "well"], "*", "*"], "**so** **well** |"),
        ("so *|", [["", "well"], "*", "*"], "so *well* *|"),
        ('so ""|', [["", "well"]], 'so "" well |'),
        ("so |", [["", "and"], "/", "o"], "so and/o|"),
        ("at |", [["", "10"], *":30"], "at 10:30|"),
        ("pi is |", [["", "3"], *".14"], "pi is 3.14|"),
        ("in |", [["", "2020"], ",", " ", "3"], "in 2020, 3|"),
        ("at |", [["", "ten"], *":3"], "at ten: 3|"),
        ("so well-|", [["", "known"]], "so well-known |"),
        ('"|', [["", "hello"], '"'], '"hello" |'),
        ('"|', [["", "hello"], '"', "."], '"hello". |'),
        ("so |", [["", "she"], '"'], 'so she "|'),
        ('"hello"|', [["", "there"]], '"hello" there |'),
        ('say "|', [["", "hello"]], 'say "hello |'),
        ("„|", [["", "hallo"], "“"], "„hallo“ |"),
        ("she |", [["", "said"], "'", "n", "o"], "she said 'no|"),
        ("she |", [["", "said"], *"'sure'"], "she said 'sure'|"),
        ("she |", [["", "said"], *"'that's"], "she said 'that's|"),
        ("you |", [["", "all"], *"'ll "], "you all'll |"),
        ("you |", [["", "all"], *"'d've "], "you all'd've |"),
        ("so |", ["*", ["", "really"], "*"], "so *really* |"),
        ("two * |", [["", "three"]], "two * three |"),
        ("so |", ["`", ["", "ls"], "`", "."], "so `ls`. |"),
        ("»|", [["", "hallo"], "«"], "»hallo« |"),
        ("sagt ‚|", [["", "hallo"], "‘"], "sagt ‚hallo‘ |"),
        ("»ja« und »|", [["", "nein"], "«"], "»ja« und »nein« |"),
        ("»ja« und |", [["", "sagt"], "»"], "»ja« und sagt »|"),
        ("»ja«|", [["", "und"]], "»ja« und |"),
        ("„ja“|", [["", "und"]], "„ja“ und |"),
        ("«sí» y |", [["", "dice"], "«"], "«sí» y dice «|"),
        ("«|", [["", "sí"], "»", "."], "«sí». |"),
        ("«Ciao.\n|", [["", "bene"], "»", "."], "«Ciao.\nbene». |"),
        ("»|", [["", "ja"], "»", ["", "x"]], "»ja» x |"),  # as in Swedish
        ("آپ |", [["", "ہیں"], "۔"], "آپ ہیں۔ |"),
        ("كيف |", [["", "حالك"], "؟"], "كيف حالك؟ |"),
        ("نعم|", [["", "نعم"], "،"], "نعم نعم، |"),
    ],
)
def test_signs_join_a_picked_word_as_people_write(page, written, keys, expected):
    rules = {"language": "de" if {"„", "»", "‚"} & set(written) else "en"}
    assert page.evaluate(RUN, [written, keys, rules]) == expected


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ([":", ")"], "so ok :)|"),
        ([";", ")"], "so ok ;)|"),
        ([":", "(", " "], "so ok :( |"),
        ([":", "-", ")"], "so ok :-)|"),
        ([":", "D", " "], "so ok :D |"),
        ([":", "P", " "], "so ok :P |"),
        ([":", "'", "("], "so ok :'(|"),
        ([":", "P", "l", " "], "so ok: Pl |"),
        ([":", " ", "D", " "], "so ok: D |"),
        (["(", "y", ")"], "so ok (y)|"),
        (["<", "3"], "so ok <3|"),
    ],
)
def test_smiley_stands_apart_from_a_picked_word(page, keys, expected):
    assert page.evaluate(RUN, ["so |", [["", "ok"], *keys], {}]) == expected


@pytest.mark.parametrize(
    ("written", "key", "expected"),
    [
        ("hel|lo", ["hel", "hello"], "hello |"),
        ("hel|lo you", ["hel", "hello"], "hello| you"),
        ("hel|.", ["hel", "hello"], "hello|."),
        ('"hel|lo"', ["hel", "hello"], '"hello|"'),
        ("d|on't go", ["d", "don't"], "don't| go"),
        ("so |what", ["", "and"], "so and |what"),
    ],
)
def test_suggestion_picked_inside_a_word_replaces_the_whole_word(page, written, key, expected):
    assert page.evaluate(RUN, [written, [key], {}]) == expected


def test_space_after_a_correction_that_was_taken_back_makes_no_full_stop(page):
    rules = {"automatic": True, "taking": {"prefix": "Teh", "word": "The"}}
    assert page.evaluate(RUN, ["Teh|", [" ", "erase", " "], rules]) == "Teh |"


@pytest.mark.parametrize(
    ("before", "place", "after", "expected"),
    [
        ("ab", 2, "abx", 2),  # typed right there
        ("ab", 1, "xab", 2),
        ("abcd", 4, "acd", 3),
        ("abcd", 2, "ad", 1),  # deleted around it
        ("ab", 2, "", 0),
    ],
)
def test_places_follow_the_text(page, before, place, after, expected):
    assert page.evaluate("args => window.text.moved(...args)", [place, before, after]) == expected


@pytest.mark.parametrize(
    ("written", "place", "expected"),
    [
        ("so |", 3, "so word |"),
        ("so w|", 3, "so word w|"),
        ("|", 0, "word |"),
        ("so w|x", 3, "so word w|x"),
        ("|so you", 2, "|so word you"),
    ],
)
def test_late_word_of_a_glide_comes_before_what_was_typed_since(page, written, place, expected):
    run = """([written, place]) => {
        const {draft, acceptAt} = window.text;
        const d = acceptAt(draft(written.replace("|", ""), written.indexOf("|")), place, "word");
        return d.text.slice(0, d.start) + "|" + d.text.slice(d.end);
    }"""
    assert page.evaluate(run, [written, place]) == expected


@pytest.mark.parametrize(
    ("written", "automatic", "expected"),
    [
        ("hello |", True, "hello. |"),
        *((f"{some} |", True, f"{some}. |") for some in ("done)", "see (1)", "step 8)", "at 1:3")),
        *((f"{a}so{b} |", True, f"{a}so{b}. |") for a, b in ("„“", "“”", "‘’", "«»")),
        *((f"{some} |", True, f"{some}. |") for some in ("50%", "20 €", "3°")),
        *(
            (f"{some} |", True, f"{some}  |")
            for some in (
                "„ja.“",
                "« Bien\u202f!\u202f»",
                "(x.)",
                "say “",
                'say "',
                "Price: £",
                "ok :)",
                ";-)",
                "ok <3",
                ":D",
            )
        ),
        ("« ça\u202f» |", True, "« ça\u202f». |"),
        ("hello |", False, "hello  |"),  # a physical keyboard types what it is told
        ("hello, |", True, "hello,  |"),
        ("hello. |", True, "hello.  |"),
        (" |", True, "  |"),
        ("привет |", True, "привет. |"),
    ],
)
def test_two_spaces_are_a_full_stop_on_the_screen(page, written, automatic, expected):
    assert page.evaluate(RUN, [written, [" "], {"automatic": automatic}]) == expected


def test_full_stop_of_two_spaces_is_taken_back_by_backspace(page):
    assert page.evaluate(RUN, ["hello |", [" ", "erase"], {"automatic": True}]) == "hello  |"


@pytest.mark.parametrize(
    ("written", "keys", "expected"),
    [
        ("ça |", "?", "ça va\u202f? |"),
        ("ça |", ",", "ça va, |"),
        ("ça |", "?!", "ça va\u202f?! |"),
        ("ça |", "!!!", "ça va\u202f!!! |"),
        ("ça |", "!:)", "ça va\u202f! :)|"),
        ("« ça |", "!»", "« ça va\u202f!\u202f» |"),
        ("«ça |", "».", "«ça va». |"),
    ],
)
def test_space_before_signs_in_french(page, written, keys, expected):
    assert page.evaluate(RUN, [written, [["", "va"], *keys], {"language": "fr"}]) == expected


@pytest.mark.parametrize(
    ("key", "expected"), [(" ", "the |"), (".", "the.|"), ("?", "the?|"), ("x", "htex|"), ("'", "hte'|")]
)
def test_what_finishes_a_word_takes_the_marked_suggestion(page, key, expected):
    rules = {"taking": {"prefix": "hte", "word": "the"}}
    assert page.evaluate(RUN, ["hte|", [key], rules]) == expected
    assert page.evaluate(RUN, ["hte|", [key, "erase"], rules]) == ("hte" + ("|" if key in "x'" else f"{key}|"))


def test_name_that_goes_on_after_its_full_stop_is_as_it_was_typed(page):
    rules = {"taking": {"prefix": "hte", "word": "the"}}
    assert page.evaluate(RUN, ["hte|", [".", "p", "y"], rules]) == "hte.py|"
    assert page.evaluate(RUN, ["hte|", [".", " ", "p"], rules]) == "the. p|"


def test_suggestion_about_another_word_is_not_taken(page):
    assert page.evaluate(RUN, ["now|", [" "], {"taking": {"prefix": "hte", "word": "the"}}]) == "now |"


@pytest.mark.parametrize(
    ("text", "starts"),
    [
        ("", True),
        ("Hello. ", True),
        ("Hello! ", True),
        ("Hello.", False),
        ("Hello, ", False),
        ("3.14 ", False),
        ("He said: “", False),
        ("Done.) ", True),
        ("“", True),
        ("¿", True),
        ("line\n", True),
        ("he", False),
        ("हाँ। ", True),
        ("Word\n ", True),
        ("In the U.S. ", False),
        ("(e.g. ", False),
        ("at 5 p.m. ", False),
        ("and so on, etc. ", False),
        ("etc.\n", True),
        ("Ask Dr. ", False),
        ("So do I. ", True),
        ("Wait... ", True),
        ("Well, ed. And that. ", True),
    ],
)
def test_sentences_begin(page, text, starts):
    assert page.evaluate("text => window.text.startsSentence(window.text.draft(text))", text) is starts


@pytest.mark.parametrize(
    ("text", "language", "starts"),
    [
        ("Hallo Anna,\n", "de", False),
        ("Liebe Anna,\n\n", "de-AT", False),
        ("Dear Anna,\n", "en", True),
        ("Hallo!\n", "de", True),
        *((f"{a}Gut.{b} ", "de", True) for a, b in ("„“", "»«", "‚‘", "“”")),
        *((f"Gut. {a}", "de", True) for a in "„»‚“"),
        ("»Gut« ", "de", False),
        ("„Hund usw.“ ", "de", False),
        ("« Bien ! » ", "fr", True),
        ("Bien. « ", "fr", True),
        ("M. « ", "fr", False),
        ("z. B. ", "de", False),
        ("z.B. ", "de", False),
        ("el 3 feb. ", "es", False),
        ("il 3 ott. ", "it", False),
        ("em 3 jan. ", "pt", False),
        ("le 3 oct. ", "fr", False),
        ("le 7 ou le sept. ", "fr", True),
        ("3 янв. ", "ru", False),
        ("3 січ. ", "uk", False),
        ("Mt. ", "en", False),
        ("bzgl. ", "de", False),
        ("v. Chr. ", "de", False),
        ("40 hrs. ", "en", False),
        ("hey bros. ", "en", True),
        ("V. Exa. ", "pt", False),
        ("d. h. ", "de", False),
        ("im Jan. ", "de", False),
        ("vgl. Kap. ", "de", False),
        ("3. Jan. ", "de", False),
        ("am Mo. ", "de", False),
        ("„am Mo. ", "de", False),
        ("Das war Jan. ", "de", True),
        ("vom Team Jan. ", "de", True),
        ("Da simmer do. ", "de", True),
        ("i wart auf di. ", "de", True),
        ("wir stehen am Kap. ", "de", True),
        ("u. a. ", "de", False),
        ("Ce qu'il y a. ", "fr", True),
        ("j'y. ", "fr", True),
        ("on y. ", "fr", True),
        ("a. C. ", "es", False),
        ("p. ex. ", "fr", False),
        ("C'est là. ", "fr", True),
        ("EE. UU. ", "es", False),
        ("т. е. ", "ru", False),
        ("это я. ", "ru", True),
        ("her Ph.D. ", "en", False),
        ("plan a. ", "en", True),
        ("bzw. ", "de", False),
        ("bzw. ", "en", True),
        ("am 3. ", "de", False),
        ("step 3. ", "en", True),
        ("EE.UU. ", "es", False),
        ("и т.д. ", "ru", False),
    ],
)
def test_sentences_begin_as_in_the_language(page, text, language, starts):
    run = "([text, language]) => window.text.startsSentence(window.text.draft(text), language)"
    assert page.evaluate(run, [text, language]) is starts


@pytest.mark.parametrize(
    ("word", "language", "expected"),
    [
        ("hello", "en", "Hello"),
        ("istanbul", "tr", "İstanbul"),
        ("ёлка", "ru", "Ёлка"),
        ("", "en", ""),
        ("ok", "not a tag", "Ok"),
    ],
)
def test_capitals_are_those_of_the_language(page, word, language, expected):
    assert page.evaluate("([word, language]) => window.text.capital(word, language)", [word, language]) == expected


def test_undo_goes_back_by_words_and_redo_forward_again(page):
    steps = page.evaluate("""() => {
        const {draft, type, History} = window.text;
        const history = new History();
        let d = draft();
        for (const key of "so it") {
            history.record(d, /[a-z]/.test(key) ? "letter" : "");
            d = type(d, key);
        }
        const seen = [d.text];
        for (const way of ["undo", "undo", "undo", "undo", "redo", "redo"]) {
            d = history[way](d);
            seen.push(d.text);
        }
        return seen;
    }""")
    assert steps == ["so it", "so ", "so", "", "", "so", "so "]
