"""What happens in a field, and what the engine does about it: the events and effects of the typing state."""

from __future__ import annotations

from dataclasses import dataclass

# --- events ---


@dataclass(frozen=True, slots=True)
class FieldEntered:
    """The cursor came into a field of a program, of which more may be known later.

    Attributes:
        doubtful: as of :class:`nightjar.edge_agent.desktop.fields.Field`.
    """

    program: str
    doubtful: bool = False


@dataclass(frozen=True, slots=True)
class FieldDescribed:
    """The program says more of the field; None for what it does not say again."""

    purpose: int | None = None
    hints: int | None = None
    surrounding: bool | None = None


@dataclass(frozen=True, slots=True)
class FieldLeft:
    """The cursor left the field, or another engine was chosen."""


@dataclass(frozen=True, slots=True)
class TextShown:
    """The program shows the text around the cursor.

    Attributes:
        following: the character after the cursor; empty at the end.
        selected: whether a part of the text is selected.
    """

    before: str
    following: str = ""
    selected: bool = False


@dataclass(frozen=True, slots=True)
class CursorMoved:
    """The program draws the cursor elsewhere, or drops what is composed at it, as it does at a click.

    Attributes:
        since_change_s: time since the last key, the last change of ours or the last text that the program showed.
        place: where the cursor is drawn; None if that is not told.
    """

    since_change_s: float
    place: tuple[int, int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class KeyPressed:
    """A key was pressed.

    Attributes:
        name: as X names it, such as ``Return`` or ``a``.
        character: which it types; empty if none.
        modifiers: sorted names of those that are pressed, of ``Alt``, ``Control``, ``Shift`` and ``Super``.
    """

    name: str
    character: str = ""
    modifiers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WordsSuggested:
    """The suggester's answer.

    Attributes:
        number: of the request.
        prefix: end of the text, which the words replace.
        takes: whether the first word is the correction of the prefix.
    """

    number: int
    words: tuple[str, ...]
    prefix: str
    takes: bool = False


@dataclass(frozen=True, slots=True)
class CandidateTouched:
    """A shown candidate was touched or clicked."""

    place: int


@dataclass(frozen=True, slots=True)
class PauseTold:
    """The suggester, or the switch of the panel, says whether everything is paused.

    Attributes:
        chosen: the person used the switch.
    """

    paused: bool
    chosen: bool = False


TypingEvent = (
    FieldEntered
    | FieldDescribed
    | FieldLeft
    | TextShown
    | CursorMoved
    | KeyPressed
    | WordsSuggested
    | CandidateTouched
    | PauseTold
)


# --- effects ---


@dataclass(frozen=True, slots=True)
class AskWords:
    """Ask for the words after a text."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class ShowCandidates:
    """Show these words at the cursor; none hides them."""

    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplaceText:
    """Delete characters before the cursor and insert a text there.

    Attributes:
        past: characters between the deleted ones and the cursor, which stay.
    """

    delete: int
    insert: str
    past: int = 0


@dataclass(frozen=True, slots=True)
class KeepText:
    """Give a text that was typed in a program to the suggester, whose rules decide what is kept of it."""

    text: str
    program: str


@dataclass(frozen=True, slots=True)
class PauseEverything:
    """Tell the suggester to pause or go on."""

    paused: bool


@dataclass(frozen=True, slots=True)
class ConsumeKey:
    """The program does not get the key."""


TypingEffect = AskWords | ShowCandidates | ReplaceText | KeepText | PauseEverything | ConsumeKey
Effects = tuple[TypingEffect, ...]
