"""What the engine does about keys: ``step(state, event) -> (state, effects)``, without IBus, sockets or a clock.

Theory of operation. Every key goes on to the program, which inserts, deletes and moves as without an engine; there is
no preedit. So nothing that is typed can be lost here. The engine only adds what the person chose: it appends the rest
of a word, or replaces its beginning where the program shows what stands before the cursor. Three rules keep the
program's text equal to what was typed and chosen:

* A choice is made only if all keys before it have reached the program: its last report of the text before the cursor is
  the text that we expect. Otherwise the key is a key like any other.
* A key comes after the program's report of what was clicked before it; a touched candidate may come earlier. So what
  moves the cursor without a key hides the candidates, and a touched word is inserted beside the letters that it
  replaces: those are deleted once the program has shown that they stand before it.
* A chosen word owes a space. The next letter brings it along; a full stop, a space or Return does not need it.
* The consumed keys are those of a choice, letters that bring a space, and the two keys that ask and pause.

What was typed since the cursor came here is the *run*. It is kept, when a line ends or the field is left, only if the
program has shown it. A password that is typed without an echo is never shown, so it is never kept.
"""

from __future__ import annotations

from dataclasses import replace

from nightjar.edge_agent.desktop.fields import FAKE, Offer
from nightjar.edge_agent.desktop.known_field import Candidates, TypingState
from nightjar.edge_agent.desktop.settings import combination
from nightjar.edge_agent.desktop.typing_events import (
    AskWords,
    CandidateTouched,
    ConsumeKey,
    CursorMoved,
    Effects,
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
    TypingEvent,
    WordsSuggested,
)

MOST_CHARACTERS = 2_000
"""Of the text before the cursor that are compared; the suggester takes no more."""
MOST_PENDING = 16
"""Keys that a program may be behind; more, and it does not show what is typed."""
LEAST_WORDS = 3
"""Words of a run that is kept though the cursor left it in the middle."""

_BACKSPACE, _RETURN, _CHOOSE = "BackSpace", frozenset({"Return", "KP_Enter", "ISO_Enter"}), "Tab"
_TAKES = frozenset(" .,;:!?")
SETTLED_S = 0.3
"""After a key, a cursor that moves again is still the key's doing; nobody types and clicks in less."""
_COMPOSED = 3
"""Most characters that come of a dead key and of the keys until the program shows it."""

Step = tuple[TypingState, Effects]


def step(state: TypingState, event: TypingEvent) -> Step:
    """The next state, and what is to be done, in this order."""
    match event:
        case FieldEntered(program, doubtful):
            state, effects = _leave(state)
            entered = replace(state.field, program=program, doubtful=doubtful)
            return replace(state, field=entered, place=None, masked=False, echoed=False), effects
        case FieldDescribed():
            return _described(state, event)
        case FieldLeft():
            state, effects = _leave(state)
            # IBus tells an engine what has changed since it told it last, whichever field that was.
            return replace(state, field=replace(state.field, program=FAKE), masked=False, echoed=False), effects
        case TextShown():
            return _text_shown(state, event)
        case CursorMoved():
            return _cursor_moved(state, event)
        case KeyPressed():
            return _key(state, event)
        case WordsSuggested():
            return _suggested(state, event)
        case CandidateTouched(place):
            return _touched(state, place)
        case PauseTold(paused, chosen):
            return _pause_told(state, paused, chosen=chosen)


def _pause_told(state: TypingState, paused: bool, *, chosen: bool) -> Step:
    if state.pause_unheard and not paused and not chosen:
        return state, ()  # only the person goes on
    state = replace(state, pause_unheard=paused and chosen)
    if paused == state.paused:
        return state, ()
    state, hidden = _hidden(replace(state, paused=paused))
    return _forgotten(state), hidden


def _leave(state: TypingState) -> Step:
    kept = _kept(state)
    state, hidden = _hidden(state)
    return _forgotten(state), (*hidden, *kept)


def _forgotten(state: TypingState) -> TypingState:
    """The cursor is somewhere else, where nothing is known yet."""
    return replace(
        state, text="", whole=False, run_from=0, shown="", pending=("",), echoes=False, following="", selected=False,
        asked=state.asked + 1, waiting=False, candidates=None, owed=False, undo=None, replaces=None,
        composing=False,
    )  # fmt: skip


def _hidden(state: TypingState) -> Step:
    if not state.visible:
        return replace(state, candidates=None, waiting=False, requested=False), ()
    return replace(state, candidates=None, waiting=False, visible=False, requested=False), (ShowCandidates(),)


def _kept(state: TypingState, *, cut: bool = False) -> Effects:
    """What becomes of the run at its end; ``cut`` says that the cursor left it in the middle."""
    if state.paused or not state.allowed.keep or not (state.whole and state.echoes):
        return ()
    before, run = state.shown[: state.run_from], state.shown[state.run_from :]
    if before.rpartition("\n")[2].strip() and state.allowed.echo:
        return ()  # such a program tells nothing of a password whose beginning it did not show
    if before and not before[-1].isspace():
        run = run[len(run.split(maxsplit=1)[0]) :] if run and not run[0].isspace() else run  # the end of a word
    if cut:
        run = run.rpartition(" ")[0]
        if len(run.split()) < LEAST_WORDS:
            return ()
    run = run.strip()
    return (KeepText(run[-MOST_CHARACTERS:], state.field.program or "unnamed"),) if run else ()


def _described(state: TypingState, said: FieldDescribed) -> Step:
    changes = {
        name: value
        for name, value in (("purpose", said.purpose), ("hints", said.hints), ("surrounding", said.surrounding))
        if value is not None
    }
    field = replace(state.field, **changes)  # type: ignore[arg-type]
    if field == state.field:
        return state, ()
    before, state = state.allowed, replace(state, field=field)
    if state.allowed == before:
        return state, ()
    state, hidden = _hidden(replace(state, echoed=False))
    return _forgotten(state), hidden  # what was typed before its kind was known is not kept


# --- the text of the program ---


def _text_shown(state: TypingState, now: TextShown) -> Step:
    if not state.shows:
        return state, ()
    before = now.before[-MOST_CHARACTERS:]
    state = replace(state, following=now.following[:1], selected=now.selected)
    if state.composing:
        return _composed(state, before)
    if not state.pending:
        if not _same(before, state.text):
            return _moved(state, before)
        return _hidden(state) if now.selected else (state, ())
    fits = [at for at, text in enumerate(state.pending) if _fits(state, before, text)]
    if not fits and _is_mask(before, state.pending):
        state, hidden = _hidden(state)
        return replace(_forgotten(state), masked=True), hidden
    if not fits:
        return _moved(state, before)
    place, entered = fits[0] if state.whole else fits[-1], not state.whole
    expected = state.pending[place]
    silent = not state.echoes
    added = "" if state.whole else before.removesuffix(expected)
    typed = len(expected) > state.run_from
    state = replace(
        state, text=added + state.text, whole=True, run_from=state.run_from + len(added), shown=added + expected,
        pending=tuple(added + each for each in state.pending[place + 1 :]), echoes=state.echoes or typed,
        echoed=state.echoed or typed,
    )  # fmt: skip
    if state.replaces is not None and not state.pending and not now.selected:
        return _proved(state, *state.replaces)
    if silent and state.echoes:
        return _offered(state)
    if state.waiting or state.visible:
        return _offered(state) if added else (state, ())  # with what stands before
    return _offered_in_empty(state) if entered else (state, ())


def _is_mask(before: str, pending: tuple[str, ...]) -> bool:
    """Whether a program shows one sign for each typed character, a letter or figure too, as a password field does."""
    sign = before[-1:]
    typed = any(len(text) == len(before) and text[-1:].isalnum() for text in pending)
    return typed and before == len(before) * sign and not (sign.isalnum() or sign.isspace())


def _fits(state: TypingState, before: str, expected: str) -> bool:
    return _same(before, expected) if state.whole else before.endswith(expected)


def _same(before: str, expected: str) -> bool:
    """Whether two texts before the cursor are the same; of long ones both are the end."""
    if before == expected:
        return True
    long = min(len(before), len(expected)) > MOST_CHARACTERS // 2
    return long and (before.endswith(expected) or expected.endswith(before))


def _composed(state: TypingState, before: str) -> Step:
    """What came of a dead key is what stands there now."""
    if _same(before, state.text):
        return state, ()
    new = before.removeprefix(state.text)
    if not before.startswith(state.text) or len(new) > _COMPOSED or not new.isprintable() or state.pending:
        return _moved(replace(state, composing=False), before)
    return _offered(replace(_typed(state, before), composing=False, whole=True, shown=before, pending=(), echoes=True))


def _moved(state: TypingState, before: str) -> Step:
    """The cursor is elsewhere, or the text was changed by other means than keys."""
    kept = _kept(state, cut=True)
    state, hidden = _hidden(state)
    state = replace(
        _forgotten(state), text=before, shown=before, whole=True, run_from=len(before), pending=(),
        following=state.following, selected=state.selected, due=True,
    )  # fmt: skip
    state, asked = _offered_in_empty(state)
    return state, (*hidden, *asked, *kept)


def _cursor_moved(state: TypingState, moved: CursorMoved) -> Step:
    """Nobody knows what stands before a cursor that moved without a key, until the program shows it."""
    still = moved.place is not None and state.place in (None, moved.place)
    caused = (state.due and moved.place is not None) or moved.since_change_s < SETTLED_S
    if moved.place not in (None, state.place):
        state = replace(state, due=False)
    state = replace(state, place=moved.place or state.place)
    if still or caused:
        return state, ()
    if not state.shows:
        return _elsewhere(state)
    state, hidden = _hidden(state)
    pending = state.pending or (state.text,)
    return replace(state, asked=state.asked + 1, pending=pending, owed=False, undo=None, replaces=None), hidden


def _replaced(state: TypingState, change: ReplaceText) -> TypingState:
    """The state after a change of ours; a program may show the text between deleting and inserting, too."""
    kept = state.text[: len(state.text) - change.delete]
    if change.delete:
        state = _typed(state, kept)
    return _typed(state, kept + change.insert)


def _typed(state: TypingState, text: str) -> TypingState:
    """The state after the program's text before the cursor has become another."""
    cut = max(0, len(text) - 2 * MOST_CHARACTERS)
    if cut:
        kept = tuple(each[cut:] for each in state.pending)
        state = replace(state, shown=state.shown[cut:], pending=kept, run_from=max(0, state.run_from - cut))
        text = text[cut:]
    pending = (*state.pending, text)[-MOST_PENDING:] if state.shows else ()
    return replace(
        state, text=text, pending=pending, run_from=min(state.run_from, len(text)), asked=state.asked + 1,
        waiting=False, candidates=None, requested=False, undo=None, replaces=None, due=True,
    )  # fmt: skip


# --- keys ---


def _key(state: TypingState, key: KeyPressed) -> Step:
    name = combination("+".join((*key.modifiers, key.name)))
    if name == combination(state.settings.pause_key):
        paused = not state.paused
        state, hidden = _hidden(replace(state, paused=paused, pause_unheard=paused))
        return _forgotten(state), (*hidden, PauseEverything(paused), ConsumeKey())
    if state.paused or state.allowed.offer is Offer.NEVER:
        return state, ()
    if name == combination(state.settings.ask_key):
        state, asked = _asked(replace(state, requested=True))
        return state, (*asked, ConsumeKey())
    if (place := _chosen_by(state, key)) is not None:
        chosen, effects = _choose(state, place)
        if any(isinstance(effect, ReplaceText) for effect in effects):
            return chosen, (*effects, ConsumeKey())
    if key.name == "Escape" and not key.modifiers and state.visible and state.shows:
        # The text stays known, so that it is offered for no more, and a figure is a figure.
        return _hidden(replace(state, asked=state.asked + 1))
    if _shortcut(key):
        return _elsewhere(state)
    if state.selected:
        return _elsewhere(state)
    if key.name == _BACKSPACE:
        return _backspace(state)
    if key.name in _RETURN:
        kept = _kept(state)
        state, offered = _offered(replace(_forgotten(state), requested=False))
        return state, (*offered, *kept)  # words first: keeping a line takes its time
    if key.name.startswith("dead_") or key.name == "Multi_key":
        state, hidden = _hidden(state)
        return (replace(state, composing=True), hidden) if state.shows and state.confirmed else _elsewhere(state)
    if key.character and key.character.isprintable():
        if state.composing:
            return state, ()
        return _character(state, key.character)
    return _elsewhere(state)


def _shortcut(key: KeyPressed) -> bool:
    return any(modifier != "Shift" for modifier in key.modifiers)


def _elsewhere(state: TypingState) -> Step:
    """A key that moves the cursor, or does what only the program knows."""
    kept = _kept(state, cut=True)
    state, hidden = _hidden(state)
    return _forgotten(state), (*hidden, *kept)


def _backspace(state: TypingState) -> Step:
    if state.undo is not None and state.confirmed and state.text.endswith(state.undo[0]):
        inserted, original = state.undo
        change = ReplaceText(len(inserted), original)
        state = replace(state, left=state.left | {original[:-1].lower()})
        return _replaced(state, change), (change, ConsumeKey())
    if not state.text:
        return _elsewhere(state)
    return _offered(_typed(replace(state, owed=False), state.text[:-1]))


def _character(state: TypingState, character: str) -> Step:
    if state.owed and (character.isalnum() or character == "("):
        state = replace(state, owed=False)
        inserted = f" {character}"
        state, offered = _offered(_typed(state, state.text + inserted))
        return state, (ReplaceText(0, inserted), *offered, ConsumeKey())
    corrects = state.settings.autocorrect and character in _TAKES and state.confirmed and state.shows
    found = state.candidates
    if corrects and found is not None and found.correction and found.prefix and state.text.endswith(found.prefix):
        inserted = found.correction + character
        change = ReplaceText(len(found.prefix), inserted)
        state, offered = _offered(_replaced(state, change))
        return replace(state, undo=(inserted, found.prefix + character)), (change, *offered, ConsumeKey())
    return _offered(_typed(replace(state, owed=False), state.text + character))


# --- candidates ---


def _offered(state: TypingState) -> Step:
    """Ask for the words of the text as it is now, or hide those of before."""
    allowed = state.allowed
    silent = state.shows and not state.echoes and (state.unseen > state.echoed or allowed.echo)
    inside = state.following.isalnum()
    bare = not state.text or state.text[-1].isspace() or state.owed
    if allowed.offer is Offer.ALWAYS and not (silent or inside or (bare and not state.settings.next_words)):
        return _asked(state)
    return _hidden(state)


def _offered_in_empty(state: TypingState) -> Step:
    """The words that a text begins with, in an empty field; where one only clicked, nothing is offered."""
    if state.text.strip() or state.following or state.selected or state.paused:
        return state, ()
    return _offered(state)


def _asked(state: TypingState) -> Step:
    """Ask for the words of the text as it is now; what is shown stays until the answer comes."""
    number = state.asked + 1
    text = state.text.rpartition("\n")[2] + (" " if state.owed else "")
    return replace(state, asked=number, waiting=True, candidates=None), (AskWords(number, text[-MOST_CHARACTERS:]),)


def _suggested(state: TypingState, found: WordsSuggested) -> Step:
    if found.number != state.asked or state.paused or state.allowed.offer is Offer.NEVER or state.selected:
        return state, ()
    if state.allowed.offer is Offer.ON_REQUEST and not state.requested:
        return state, ()
    if not state.text.endswith(found.prefix):
        return _hidden(state)  # an answer of another suggester than was asked
    words = tuple(
        word
        for word in dict.fromkeys(found.words)
        if word != found.prefix and (word.startswith(found.prefix) or state.shows) and not _lone(state, word, found)
    )[: state.settings.candidates]
    if not words:
        return _hidden(state)
    corrects = found.takes and state.shows and found.prefix.lower() not in state.left
    correction = found.words[0] if corrects else ""
    state = replace(state, waiting=False, candidates=Candidates(words, found.prefix, correction), visible=True)
    return state, (ShowCandidates(words),)


def _lone(state: TypingState, word: str, found: WordsSuggested) -> bool:
    """Whether choosing a word inserts one character where Chromium under X would do what the key does instead."""
    blind = state.allowed.offer is Offer.ALWAYS and not state.shows
    return blind and len(word) + state.owed == len(found.prefix) + 1


def _chosen_by(state: TypingState, key: KeyPressed) -> int | None:
    """The place of the candidate that a key chooses; None if it is another key."""
    if state.candidates is None or not state.visible or key.modifiers:
        return None
    if key.name == _CHOOSE:
        return 0
    if len(key.character) == 1 and key.character in "123456789" and _figures_choose(state, state.candidates):
        return int(key.character) - 1
    return None


def _figures_choose(state: TypingState, found: Candidates) -> bool:
    figures = state.settings.figures
    return figures == "always" or state.requested or (figures == "in-words" and found.prefix != "")


def _choose(state: TypingState, place: int) -> Step:
    """Insert a candidate, if the program's text is the one that it was found for."""
    found = _at(state, place)
    if found is None:
        return state, ()
    word, prefix = found
    space = " " if state.owed else ""
    appended = word.startswith(prefix)
    change = ReplaceText(0, space + word[len(prefix) :]) if appended else ReplaceText(len(prefix), word)
    state, offered = _offered(replace(_replaced(state, change), owed=_owes(state)))
    return state, (change, *offered)


def _at(state: TypingState, place: int) -> tuple[str, str] | None:
    """The shown candidate at a place and its prefix, if it may be inserted."""
    found = state.candidates
    if found is None or not state.visible or not 0 <= place < len(found.words) or not state.confirmed or state.selected:
        return None
    if not state.shows and state.place is not None and state.due:
        return None  # it has not drawn the last key, which an inserted word would overtake
    return found.words[place], found.prefix


def _owes(state: TypingState) -> bool:
    return state.allowed.offer is Offer.ALWAYS and not state.following.isspace()


def _touched(state: TypingState, place: int) -> Step:
    found = _at(state, place)
    if found is None or found[0].startswith(found[1]):
        return _choose(state, place)
    word, prefix = found
    change = ReplaceText(0, word)
    state, hidden = _hidden(_typed(state, state.text + word))
    return replace(state, replaces=(len(prefix), len(word)), owed=_owes(state)), (change, *hidden)


def _proved(state: TypingState, delete: int, past: int) -> Step:
    """Delete what a touched word replaces: the program has shown that it stands before the word."""
    word = state.text[len(state.text) - past :]
    change = ReplaceText(delete, "", past)
    state, offered = _offered(replace(_typed(state, state.text[: -past - delete] + word), owed=state.owed))
    return state, (change, *offered)
