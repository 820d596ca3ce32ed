"""What the engine knows of the field with the cursor: the state of :mod:`nightjar.edge_agent.desktop.typing_state`."""

from __future__ import annotations

from dataclasses import dataclass

from nightjar.edge_agent.desktop.fields import NOTHING, Allowed, Field, Offer, allowed_in
from nightjar.edge_agent.desktop.settings import DesktopSettings


@dataclass(frozen=True, slots=True)
class Candidates:
    """The suggester's words for the text as it is now."""

    words: tuple[str, ...]
    prefix: str
    correction: str = ""


_DEFAULT, _NO_FIELD = DesktopSettings(), Field()


@dataclass(frozen=True, slots=True)
class TypingState:
    """What the engine knows.

    Attributes:
        paused: nothing is asked, shown or kept; so it begins, until the suggester says otherwise.
        pause_unheard: the person paused here, and the suggester has not said so yet: it may be gone, or answer
            what it was asked before.
        text: what we expect to stand before the cursor, as far as it is known.
        whole: whether the program has shown the text before the run.
        run_from: where in the text the run begins.
        shown: the text that the program showed last.
        pending: the texts that we expect it to show, the last one ``text``; empty if it has shown all.
        echoes: whether it has shown a typed character since the line began, or the cursor was moved.
        echoed: whether it has since the field was entered.
        following: the character after the cursor.
        asked: number of the last request; answers to others are late.
        waiting: it was made for the text as it is now, and not answered yet.
        candidates: of the last answer, if the text is still the same.
        visible: whether they are shown.
        requested: they were asked for by the key.
        owed: a chosen word owes a space.
        undo: what an autocorrection inserted, and for what.
        left: words, in lower case, whose correction the person took back: they stay as they are typed.
        replaces: characters that a touched word replaces, and of that word; they are deleted when both were shown.
        place: where the cursor is drawn, if that is known.
        due: the cursor has not moved yet since the last key or change.
        composing: a dead key was pressed, and the program has not shown yet what came of it.
        masked: it has shown one sign for each typed character: a password, also when it is made visible afterwards.
    """

    settings: DesktopSettings = _DEFAULT
    field: Field = _NO_FIELD
    paused: bool = True
    pause_unheard: bool = False
    text: str = ""
    whole: bool = False
    run_from: int = 0
    shown: str = ""
    pending: tuple[str, ...] = ("",)
    echoes: bool = False
    echoed: bool = False
    following: str = ""
    selected: bool = False
    asked: int = 0
    waiting: bool = False
    candidates: Candidates | None = None
    visible: bool = False
    requested: bool = False
    owed: bool = False
    undo: tuple[str, str] | None = None
    left: frozenset[str] = frozenset()
    replaces: tuple[int, int] | None = None
    place: tuple[int, int, int, int] | None = None
    due: bool = False
    composing: bool = False
    masked: bool = False

    @property
    def allowed(self) -> Allowed:
        """What is allowed in the field."""
        return NOTHING if self.masked else allowed_in(self.field, self.settings)

    @property
    def shows(self) -> bool:
        """Whether the program shows the text before the cursor; what a terminal shows is no text."""
        return self.field.surrounding and self.allowed.offer is Offer.ALWAYS

    @property
    def confirmed(self) -> bool:
        """Whether the program's text is the text that we expect, as far as that can be known."""
        return not self.pending or not self.shows

    @property
    def unseen(self) -> int:
        """How many keys the program has not shown yet."""
        return len(self.pending) - (0 if self.whole else 1)
