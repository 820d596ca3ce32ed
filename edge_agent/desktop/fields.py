"""What is allowed in the field with the cursor: whether words are offered there, and whether what is typed is kept.

A field is judged by what the program says of it (IBus content type and hints), by the program's name, and by whether
the program shows an engine the text before the cursor. Without that there is no telling a message from a password that
is typed without an echo, so nothing is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from nightjar.edge_agent.desktop.settings import DesktopSettings, program_named

# IBusInputPurpose and IBusInputHints, ibustypes.h of IBus 1.5; hidden text since 1.5.34, from Wayland's programs.
DIGITS, NUMBER, PHONE, URL, EMAIL, PASSWORD, PIN, TERMINAL = 2, 3, 4, 5, 6, 8, 9, 10
PRIVATE_HINT, HIDDEN_TEXT_HINT = 1 << 11, 1 << 12
_SECRET = frozenset({PASSWORD, PIN})
_SECRET_HINTS = PRIVATE_HINT | HIDDEN_TEXT_HINT
_NO_WORDS = frozenset({DIGITS, NUMBER, PHONE})
_NOT_KEPT = frozenset({URL, EMAIL})

FAKE = "fake"
"""IBus's own context, which has the focus while no program has."""
X_PROTOCOL = "xim"
"""Programs that speak X's old protocol: terminals mostly, which say nothing of their fields."""


class Offer(Enum):
    """When words are offered."""

    NEVER = auto()
    ON_REQUEST = auto()
    ALWAYS = auto()


@dataclass(frozen=True, slots=True)
class Field:
    """The field with the cursor.

    Attributes:
        program: as :func:`program_of` names it.
        purpose: IBus's number of what is typed there.
        hints: IBus's bits.
        surrounding: whether the program shows the text before the cursor.
        doubtful: whether it may be a program that is never learned from: it is not named, and such a one runs.
    """

    program: str = FAKE
    purpose: int = 0
    hints: int = 0
    surrounding: bool = False
    doubtful: bool = False


@dataclass(frozen=True, slots=True)
class Allowed:
    """What is allowed in a field.

    Attributes:
        keep: whether what is typed may become an example.
        echo: whether words are offered only after the program has shown a typed character.
    """

    offer: Offer
    keep: bool
    echo: bool = False


NOTHING = Allowed(Offer.NEVER, keep=False)


def program_of(client: str) -> str:
    """The program's name in IBus's name of a client; empty if the toolkit does not tell.

    >>> program_of("gtk3-im:Gedit"), program_of("QIBusInputContext"), program_of("xim")
    ('gedit', '', 'xim')
    """
    toolkit, _, name = client.lower().partition(":")
    if toolkit in (FAKE, X_PROTOCOL):
        return toolkit
    if name:
        return program_named(name)
    return toolkit if toolkit == "gnome-shell" else ""


def allowed_in(field: Field, settings: DesktopSettings) -> Allowed:
    """What is allowed in a field.

    >>> allowed_in(Field("gedit", surrounding=True), DesktopSettings())
    Allowed(offer=<Offer.ALWAYS: 3>, keep=True, echo=False)
    """
    program = field.program
    names = {program, program.rpartition(".")[2]}  # org.keepassxc.keepassxc
    if program == FAKE or field.purpose in _SECRET or field.hints & _SECRET_HINTS or names & settings.secret_programs:
        return NOTHING
    if field.purpose in _NO_WORDS:
        return NOTHING
    if field.purpose == TERMINAL or program == X_PROTOCOL or names & settings.terminals:
        return Allowed(Offer.ON_REQUEST, keep=False)
    if not field.surrounding:
        return Allowed(Offer.ALWAYS if names & settings.without_echo else Offer.ON_REQUEST, keep=False)
    kept = settings.keep and not field.doubtful and not names & settings.never_learned
    return Allowed(Offer.ALWAYS, kept and field.purpose not in _NOT_KEPT, echo=not program)
