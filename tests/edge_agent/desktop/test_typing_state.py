"""The program's text is what was typed and chosen, and nothing is kept that a program did not show."""

from collections import deque
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.edge_agent.desktop.fields import HIDDEN_TEXT_HINT, PASSWORD, PRIVATE_HINT, TERMINAL
from nightjar.edge_agent.desktop.known_field import TypingState
from nightjar.edge_agent.desktop.settings import DesktopSettings, settings_from
from nightjar.edge_agent.desktop.typing_events import (
    AskWords,
    CandidateTouched,
    ConsumeKey,
    CursorMoved,
    FieldDescribed,
    FieldEntered,
    FieldLeft,
    KeepText,
    KeyPressed,
    PauseEverything,
    PauseTold,
    ReplaceText,
    ShowCandidates,
    TextShown,
    WordsSuggested,
)
from nightjar.edge_agent.desktop.typing_state import step

WORDS = ("hello", "help", "held")


@dataclass
class Desk:
    """A program with a text field, an engine and a suggester, each of which may be behind."""

    state: TypingState = field(default_factory=TypingState)
    text: str = ""
    cursor: int = 0
    shows: bool = True
    echoes: bool = True
    reports: deque = field(default_factory=deque)
    asked: list = field(default_factory=list)
    shown: tuple = ()
    kept: list = field(default_factory=list)
    typed: str = ""  # every character that was typed or chosen
    lag: bool = False
    clicked: bool = False  # and neither the program nor IBus has told it yet
    drawn: int = 0  # how often the cursor was drawn elsewhere
    touched: str = ""  # what stood there when a word was touched, and the word

    def enter(self, program="editor", **described):
        self.take(FieldEntered(program))
        self.take(FieldDescribed(surrounding=self.shows, **described))
        self.take(PauseTold(False))
        self.take(CursorMoved(1.0, (0, 0, 0, 0)))
        self.report()

    def take(self, event):
        self.state, effects = step(self.state, event)
        for effect in effects:
            match effect:
                case AskWords():
                    self.asked.append(effect)
                case ShowCandidates(words):
                    self.shown = words
                case KeepText():
                    self.kept.append(effect)
                case ReplaceText(delete, insert, past):
                    assert delete + past <= self.cursor
                    assert not delete or (self.shows and not self.clicked)
                    kept = self.cursor - past
                    assert not past or self.text[kept - delete : self.cursor] == self.touched
                    before, after = self.text[: kept - delete], self.text[self.cursor :]
                    word = self.text[kept : self.cursor]
                    if delete and insert:  # Qt shows this, too
                        self.reports.append((before, after[:1]))
                    self.text, self.cursor = before + word + insert + after, len(before + word + insert)
                    self.typed += insert
        return effects

    def report(self):
        if self.shows:
            self.reports.append((self.text[: self.cursor], self.text[self.cursor :][:1]))
        if not self.lag:
            self.catch_up()

    def catch_up(self, most=1000):
        while self.reports and most:
            most -= 1
            self.take(TextShown(*self.reports.popleft()))

    def answer(self, words=WORDS):
        """The suggester answers the last request: words that begin with the last one, and one that does not."""
        if not self.asked:
            return
        request = self.asked[-1]
        prefix = request.text.rpartition(" ")[2].rpartition("\n")[2]
        beginning = tuple(prefix + word for word in words)
        self.take(WordsSuggested(request.number, (*beginning[:2], "zorblax"), prefix))

    def press(self, name, character=None, modifiers=()):
        if self.clicked:  # a program tells of a click before it passes a key on
            self.take(CursorMoved(1.0))
            self.catch_up()
            self.clicked = False
        character = name if character is None and len(name) == 1 else character or ""
        before = self.text, self.cursor
        effects = self.take(KeyPressed(name, character, modifiers))
        if ConsumeKey() not in effects:
            self._do(name, character)
        if (self.text, self.cursor) != before:
            self.drawn += 1
            self.take(CursorMoved(1.0, (self.drawn, 1, 0, 0)))  # late, as on a busy machine
        self.report()
        return effects

    def _do(self, name, character):
        if not self.echoes:
            return
        before, after = self.text[: self.cursor], self.text[self.cursor :]
        match name:
            case "BackSpace":
                before = before[:-1]
            case "Left":
                before, after = before[:-1], before[-1:] + after
            case "Right":
                before, after = before + after[:1], after[1:]
            case "Home":
                before, after = "", before + after
            case "Return":
                before += "\n"
            case "Tab":
                before += "\t"
            case _:
                before += character
                self.typed += character
        self.text, self.cursor = before + after, len(before)

    def type(self, text):
        for character in text:
            self.press("space" if character == " " else character, character)


KEYS = st.sampled_from(
    [*"helo123. ", "é", "BackSpace", "Escape", "Left", "Right", "Home", "Return", "Tab", "Tab", "Tab"]
)
EVENTS = st.lists(
    st.one_of(
        KEYS.map(lambda key: ("key", key)),
        st.just(("answer", 0)),
        st.integers(1, 3).map(lambda most: ("report", most)),
        st.integers(0, 9).map(lambda place: ("touch", place)),
        st.integers(0, 5).map(lambda place: ("click", place)),
        st.booleans().map(lambda reset: ("told", reset)),
        st.sampled_from([("paste", "xy z"), ("leave", 0)]),
    ),
    max_size=60,
)
SETTINGS = st.builds(
    DesktopSettings,
    figures=st.sampled_from(["always", "never", "in-words"]),
    next_words=st.booleans(),
    autocorrect=st.booleans(),
)


@given(EVENTS, SETTINGS, st.booleans(), st.booleans(), st.sampled_from(["editor", "chromium", "kitty", ""]))
def test_whatever_happens_the_text_is_what_was_typed_and_chosen(events, settings, lag, shows, program):
    desk = Desk(TypingState(settings), shows=shows, lag=lag)
    desk.enter(program)
    for number, (kind, what) in enumerate(events, 1):
        text, cursor, shown, owed = desk.text, desk.cursor, desk.shown, desk.state.owed
        match kind:
            case "key":
                expected = replaced(desk, what)
                effects = desk.press({" ": "space", ".": "period"}.get(what, what), what if len(what) == 1 else "")
                changes = [effect for effect in effects if isinstance(effect, ReplaceText)]
                assert len(changes) <= 1
                if not changes:
                    assert ConsumeKey() not in effects
                    assert (desk.text, desk.cursor) == expected
                elif owed and what.isalnum() and desk.text[: desk.cursor].endswith(f" {what}"):
                    assert desk.text[: desk.cursor] == f"{text[:cursor]} {what}"  # the space of the chosen word
                else:
                    place = 0 if what == "Tab" else int(what) - 1
                    assert was_chosen(desk, text[:cursor], shown[place], changes[0])
            case "touch":
                found = desk.state.candidates
                desk.touched = found.prefix + shown[what] if found and what < len(shown) else ""
                effects = desk.take(CandidateTouched(what))
                changes = [effect for effect in effects if isinstance(effect, ReplaceText)]
                if changes:  # nothing is replaced yet, and nothing at all in a program that was clicked before
                    assert desk.text == text[:cursor] + changes[0].insert + text[cursor:]
                    assert desk.clicked or desk.text[: desk.cursor].endswith(shown[what])
                desk.report()
            case "answer":
                desk.answer()
            case "report":
                desk.catch_up(what)
            case "click":
                desk.cursor = min(what, len(desk.text))
                desk.clicked = True  # and nothing more, in a program that is busy
                desk.reports.append((desk.text[: desk.cursor], desk.text[desk.cursor :][:1]))
            case "told":
                if desk.clicked and (what or not desk.state.due):
                    desk.take(CursorMoved(1.0, None if what else (number, 0, 0, 0)))
                    assert desk.shown == ()
                    desk.catch_up(99)
                    desk.clicked = False
            case "paste":
                desk.text = desk.text[: desk.cursor] + what + desk.text[desk.cursor :]
                desk.cursor += len(what)
                desk.report()
                desk.catch_up(99)
            case "leave":
                desk.take(FieldLeft())
                desk.enter(program)
    if not shows or program == "kitty":
        assert desk.kept == []


def replaced(desk, key):
    """The text and the cursor if the program gets the key."""
    other = replace(desk, reports=deque())
    other._do({" ": "space", ".": "period"}.get(key, key), key if len(key) == 1 else "")
    return other.text, other.cursor


def was_chosen(desk, before, word, change):
    """Whether the shown word stands before the cursor now, in the place of its beginning or of what it corrects."""
    now = desk.text[: desk.cursor]
    deleted = before[len(before) - change.delete :]
    return now.endswith(word) and " " not in deleted and "\n" not in deleted


@pytest.fixture
def desk():
    desk = Desk()
    desk.enter()
    return desk


def test_tab_takes_the_first_word_and_the_next_letter_brings_its_space(desk):
    desk.type("hel")
    desk.answer(("lo", "p"))
    assert desk.shown == ("hello", "help", "zorblax")
    desk.press("Tab")
    assert desk.text == "hello"
    desk.type("you")
    assert desk.text == "hello you"


@pytest.mark.parametrize(("then", "text"), [(".", "hello."), (" ", "hello "), ("'", "hello'"), ("(", "hello (")])
def test_signs_join_a_chosen_word(desk, then, text):
    desk.type("hel")
    desk.answer(("lo",))
    desk.press("Tab")
    desk.press({" ": "space"}.get(then, then), then)
    assert desk.text == text


def test_a_correction_takes_the_place_of_what_was_typed(desk):
    desk.type("see zorb")
    desk.answer()
    desk.press("3")
    assert desk.text == "see zorblax"
    desk.press("Return")
    assert [kept.text for kept in desk.kept] == ["see zorblax"]


def test_a_figure_after_a_space_is_a_figure(desk):
    desk.type("at ")
    desk.answer()
    assert desk.shown
    desk.press("3")
    assert desk.text == "at 3"


def test_a_word_is_chosen_before_its_first_letter(desk):
    desk.type("how ")
    desk.answer(("are",))
    desk.press("Tab")
    assert desk.text == "how are"
    desk.answer(("you",))
    desk.press("Tab")
    assert desk.text == "how are you"


def test_words_are_offered_in_an_empty_field_and_after_a_message_was_sent(desk):
    assert [request.text for request in desk.asked] == [""]
    desk.answer(("hello",))
    assert desk.shown[0] == "hello"
    desk.type("see you")
    desk.press("Return")
    assert desk.asked[-1].text == ""
    desk.text, desk.cursor = "", 0
    desk.report()
    desk.answer(("hello",))
    desk.press("Tab")
    assert desk.text == "hello"


def test_where_one_only_clicked_nothing_is_offered(desk):
    asked = len(desk.asked)
    desk.text, desk.cursor = "their words ", 12
    desk.report()
    assert (len(desk.asked), desk.shown) == (asked, ())


def test_words_are_asked_for_before_a_line_is_kept(desk):
    desk.type("how are you")
    effects = desk.press("Return")
    assert [type(effect) for effect in effects] == [AskWords, KeepText]


def test_a_touched_correction_takes_the_place_of_what_was_typed(desk):
    desk.type("see blax")
    desk.answer()
    desk.lag = True
    desk.touched = "blaxzorblax"
    assert desk.take(CandidateTouched(2))[0] == ReplaceText(0, "zorblax")
    desk.report()
    assert desk.text == "see blaxzorblax"
    desk.catch_up()  # the program shows both
    assert desk.text == "see zorblax"
    desk.lag = False
    desk.report()
    desk.type("yes")
    assert desk.text == "see zorblax yes"


def test_a_candidate_touched_before_the_program_tells_of_a_click_replaces_nothing(desk):
    desk.type("those blax")
    desk.answer()
    desk.text, desk.cursor = "those blax", 5  # clicked; the program is busy
    desk.take(CandidateTouched(2))
    desk.report()
    desk.catch_up()
    assert desk.text == "thosezorblax blax"


@pytest.mark.parametrize("place", [None, (9, 9, 0, 0)], ids=["reset", "place"])
@pytest.mark.parametrize("program", ["editor", "chromium"])
def test_after_a_click_there_are_no_candidates(program, place):
    desk = Desk(shows=program == "editor")
    desk.enter(program)
    desk.type("those hel")
    desk.answer(("lo",))
    assert desk.shown
    desk.take(CursorMoved(0.01, place and (8, 8, 0, 0)))  # of the last key
    assert desk.shown
    desk.take(CursorMoved(1.0, place))
    assert desk.shown == ()
    assert desk.take(CandidateTouched(0)) == ()
    assert desk.press("Tab") == ()


def test_chromium_is_offered_no_word_of_one_more_letter():
    desk = Desk(shows=False)
    desk.enter("chromium")
    desk.type("hell")
    desk.answer(("o", "ish"))
    assert desk.shown == ("hellish",)


def test_a_word_does_not_overtake_a_key_that_chromium_has_not_drawn():
    desk = Desk(shows=False)
    desk.enter("chromium")
    desk.type("he")
    desk.take(KeyPressed("l", "l"))
    desk.answer(("lo", "met"))
    assert desk.shown
    assert desk.take(KeyPressed("Tab")) == (ShowCandidates(),)


def test_a_choice_waits_for_no_program_that_is_behind(desk):
    desk.lag = True
    desk.type("hel")
    desk.answer()
    desk.press("Tab")
    assert desk.text == "hel\t"


def test_keys_that_a_program_shows_late_are_in_its_text_once(desk):
    desk.lag = True
    desk.type("hello there")
    desk.catch_up()
    desk.press("Return")
    assert [kept.text for kept in desk.kept] == ["hello there"]


def test_a_line_is_kept_when_it_ends_or_the_field_is_left(desk):
    desk.type("how are you")
    desk.press("Return")
    desk.type("fine thanks")
    desk.take(FieldLeft())
    assert [(kept.text, kept.program) for kept in desk.kept] == [("how are you", "editor"), ("fine thanks", "editor")]


def test_only_what_was_typed_is_kept_not_what_stood_there(desk):
    desk.text, desk.cursor = "their words ", 12
    desk.report()
    desk.type("my words")
    desk.press("Return")
    assert [kept.text for kept in desk.kept] == ["my words"]


def test_what_came_of_a_dead_key_is_kept_too(desk):
    desk.type("un ")
    desk.press("dead_acute", "")
    effects = desk.take(KeyPressed("e", "e"))
    assert effects == ()
    desk.text, desk.cursor = "un é", 4
    desk.report()
    desk.type("tang")
    desk.press("Return")
    assert [kept.text for kept in desk.kept] == ["un étang"]


@pytest.mark.parametrize(
    "described", [{"purpose": PASSWORD}, {"purpose": 9}, {"hints": PRIVATE_HINT}, {"hints": HIDDEN_TEXT_HINT}]
)
def test_secret_fields_get_and_give_nothing(described):
    desk = Desk()
    desk.enter(**described)
    desk.type("hunter two")
    desk.press("space", " ", ("Control", "Shift"))
    desk.press("Return")
    assert (desk.asked, desk.kept) == ([], [])


def test_what_was_typed_before_a_field_is_known_to_be_secret_is_not_kept(desk):
    desk.type("hunter two")
    desk.take(FieldDescribed(purpose=PASSWORD))
    desk.take(FieldDescribed(purpose=0))
    desk.type(" more")
    desk.press("Return")
    assert [kept.text for kept in desk.kept] == ["more"]


@pytest.mark.parametrize("program", ["keepassxc", "pinentry-gtk-2"])
def test_programs_for_secrets_get_and_give_nothing(program):
    desk = Desk()
    desk.enter(program)
    desk.type("hunter two")
    desk.press("Return")
    assert (desk.asked, desk.kept) == ([], [])


@pytest.mark.parametrize(("program", "described"), [("xim", {}), ("kitty", {}), ("python3", {"purpose": TERMINAL})])
def test_a_terminal_gets_words_only_when_asked_and_gives_nothing(program, described):
    desk = Desk()
    desk.enter(program, **described)
    desk.type("git com")
    assert desk.asked == []
    desk.press("space", " ", ("Control", "Shift"))
    assert [ask.text for ask in desk.asked] == ["git com"]
    desk.answer(("mit",))
    assert desk.shown == ("commit",)  # none that would take the place of something
    desk.press("Tab")
    assert desk.text == "git commit"
    desk.press("Return")
    assert desk.kept == []


def test_what_a_program_does_not_echo_is_neither_kept_nor_offered_to():
    desk = Desk(echoes=False)
    desk.enter("")  # a toolkit that does not name its program, such as a terminal in Qt
    desk.type("hunter")
    desk.press("Return")
    assert (desk.asked, desk.kept) == ([], [])


def test_a_browser_that_shows_nothing_gets_words_and_gives_nothing():
    desk = Desk(shows=False)
    desk.enter("chromium")
    desk.type("hel")
    desk.answer(("lo",))
    assert desk.shown == ("hello",)
    desk.press("Tab")
    desk.type("you")
    assert desk.text == "hello you"
    desk.press("Return")
    assert desk.kept == []


def test_one_key_pauses_everything(desk):
    desk.type("hel")
    assert PauseEverything(True) in desk.press("n", "n", ("Alt", "Control"))
    asked = len(desk.asked)
    desk.type("lo")
    desk.press("Return")
    assert (desk.text, len(desk.asked), desk.kept) == ("hello\n", asked, [])
    assert PauseEverything(False) in desk.press("n", "n", ("Alt", "Control"))


def pause_by_key(desk):
    desk.press("n", "n", ("Alt", "Control"))


def pause_by_switch(desk):
    desk.take(PauseTold(not desk.state.paused, chosen=True))


@pytest.mark.parametrize("use", [pause_by_key, pause_by_switch])
def test_a_suggester_that_has_not_heard_of_a_pause_does_not_end_it(desk, use):
    use(desk)
    desk.take(PauseTold(False))  # asked before, or the suggester was gone
    desk.type("secret plum horse")
    desk.press("Return")
    assert (desk.state.paused, desk.kept) == (True, [])
    use(desk)
    desk.type("how are you")
    desk.press("Return")
    assert [kept.text for kept in desk.kept] == ["how are you"]


@pytest.mark.parametrize("use", [pause_by_key, pause_by_switch])
def test_a_pause_that_the_suggester_has_heard_of_is_ended_by_it_too(desk, use):
    use(desk)
    desk.take(PauseTold(True))
    desk.take(PauseTold(False))  # on the keyboard's page
    desk.type("how are you")
    desk.press("Return")
    assert [kept.text for kept in desk.kept] == ["how are you"]


@pytest.mark.parametrize("key", ["Ctrl+Alt+p", "control + alt + P", "Alt+Control+p"])
def test_the_key_that_pauses_may_be_written_as_people_write_it(key):
    settings, faults = settings_from({"pause_key": key})
    desk = Desk(TypingState(settings))
    desk.enter()
    assert (faults, PauseEverything(True) in desk.press("p", "p", ("Alt", "Control"))) == ([], True)


def test_until_the_suggester_says_that_it_is_not_paused_nothing_is_asked():
    desk = Desk()
    desk.take(FieldEntered("editor"))
    desk.take(FieldDescribed(surrounding=True))
    desk.type("hello")
    desk.press("Return")
    assert (desk.asked, desk.kept) == ([], [])


def test_nothing_is_corrected_unless_the_person_wants_it(desk):
    desk.type("teh")
    desk.take(WordsSuggested(desk.asked[-1].number, ("the", "teh"), "teh", takes=True))
    desk.type(" ")
    assert desk.text == "teh "


def test_a_correction_by_itself_is_undone_by_backspace():
    desk = Desk(TypingState(DesktopSettings(autocorrect=True)))
    desk.enter()
    desk.type("teh")
    desk.take(WordsSuggested(desk.asked[-1].number, ("the", "teh"), "teh", takes=True))
    desk.type(" ")
    assert desk.text == "the "
    desk.press("BackSpace")
    assert desk.text == "teh "


def test_a_word_whose_correction_was_taken_back_is_corrected_no_more():
    desk = Desk(TypingState(DesktopSettings(autocorrect=True)))
    desk.enter()
    for key, expected in ((" ", "the "), (",", "teh,")):
        desk.type("teh")
        desk.take(WordsSuggested(desk.asked[-1].number, ("the", "teh"), "teh", takes=True))
        desk.type(key)
        assert desk.text == expected
        desk.press("BackSpace")  # takes it back, then deletes what finished the word
        for _ in desk.text:
            desk.press("BackSpace")


def test_inside_a_word_nothing_is_offered(desk):
    desk.text, desk.cursor = "word", 2
    desk.report()
    asked = len(desk.asked)
    desk.type("x")
    assert len(desk.asked) == asked


def test_a_late_answer_changes_nothing(desk):
    desk.type("hel")
    late = desk.asked[-1].number
    desk.type("lo")
    state = desk.state
    desk.take(WordsSuggested(late, WORDS, "hel"))
    assert desk.state == state


@pytest.mark.parametrize("chosen", [False, True])
def test_escape_hides_the_candidates_and_the_next_figure_is_a_figure(chosen):
    desk = Desk(TypingState(DesktopSettings(figures="always")))
    desk.enter()
    if chosen:
        desk.type("h")
        desk.answer()
        desk.press("Tab", "\t")
    desk.answer()
    before = f"{desk.text} " if chosen else desk.text
    assert desk.shown
    desk.press("Escape")
    assert desk.shown == ()
    desk.answer()
    desk.press("2")
    assert desk.text == f"{before}2"


class MaskingDesk(Desk):
    """A program that shows a sign for each typed character, until the person makes the password visible."""

    visible = False

    def report(self):
        before, after = self.text[: self.cursor], self.text[self.cursor :][:1]
        shown = before if self.visible else "\N{BLACK CIRCLE}" * len(before)
        self.reports.append((shown, after))
        self.catch_up()


@pytest.mark.parametrize("program", ["editor", ""])
@pytest.mark.parametrize("before", ["", "prefilled"])
def test_a_field_that_shows_dots_gets_and_gives_nothing_also_when_they_are_made_visible(program, before):
    desk = MaskingDesk(text=before, cursor=len(before))
    desk.enter(program)
    desk.type("plum horse ")
    desk.visible = True
    desk.report()
    desk.type("zebra near the river")
    desk.press("Return")
    asked, kept = {ask.text for ask in desk.asked}, list(desk.kept)
    desk.text, desk.cursor = "", 0
    desk.enter("other")
    desk.type("hel")
    assert desk.asked[-1].text == "hel"
    assert (asked - {""}, kept) == (set(), [])


@pytest.mark.parametrize("signs", ["\N{LEFT DOUBLE QUOTATION MARK}", "\N{EM DASH}"])
def test_a_sign_that_a_program_puts_for_another_is_no_password(signs):
    desk = Desk(lag=True)
    desk.enter()
    desk.type('"')
    desk.reports.clear()
    desk.text = signs
    desk.lag = False
    desk.report()
    desk.type(" hel")
    assert desk.asked[-1].text.endswith("hel")


def test_nothing_is_asked_of_a_first_letter_before_the_program_has_shown_it():
    desk = Desk(lag=True)
    desk.enter()
    desk.catch_up()
    asked = len(desk.asked)
    desk.type("h")
    assert len(desk.asked) == asked
    desk.catch_up()
    assert desk.asked[-1].text == "h"
    desk.answer()
    assert desk.shown
    desk.press("Return")
    desk.type("f")  # the program has shown that it hides nothing
    assert desk.asked[-1].text == "f"


def test_a_program_that_is_not_named_is_offered_words_with_the_first_letter_that_it_shows():
    desk = Desk()
    desk.enter("")
    desk.type("h")
    assert desk.asked[-1].text == "h"


def test_the_end_of_a_word_that_was_begun_before_is_not_kept():
    desk = Desk(text="see you on mon", cursor=14)
    desk.enter()
    desk.type("day at the office")
    desk.press("Return")
    assert [kept.text for kept in desk.kept] == ["at the office"]


@pytest.mark.parametrize(("program", "kept"), [("editor", ["near the river"]), ("", [])])
def test_of_a_line_that_was_begun_before_a_program_that_says_nothing_of_its_fields_gives_nothing(program, kept):
    desk = Desk(text="plum ", cursor=5)  # such as the first word of a password that was not shown then
    desk.enter(program)
    desk.type("near the river")
    desk.press("Return")
    assert [each.text for each in desk.kept] == kept
    desk.type("and a line of its own")
    desk.press("Return")
    assert [each.text for each in desk.kept] == [*kept, "and a line of its own"]


def test_what_may_be_a_program_that_is_never_learned_from_gets_words_and_gives_nothing():
    desk = Desk()
    desk.take(FieldEntered("", doubtful=True))
    desk.take(FieldDescribed(surrounding=True))
    desk.take(PauseTold(False))
    desk.report()
    desk.type("see you there")
    assert desk.asked
    desk.press("Return")
    assert desk.kept == []


def test_after_a_pause_within_a_word_its_end_is_not_kept(desk):
    desk.type("my secret is plu")
    desk.press("n", "n", ("Alt", "Control"))
    desk.type("mho")
    desk.press("n", "n", ("Alt", "Control"))
    desk.type("rse and so on")
    desk.press("Return")
    assert [kept.text for kept in desk.kept] == ["and so on"]
