"""The engine's settings: ``~/.config/nightjar/ibus.toml``, each of which may be left out."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from nightjar.edge_agent.desktop.programs import NEVER_LEARNED, SECRET_PROGRAMS, TERMINALS, WITHOUT_ECHO
from nightjar.host.files import read_file

FIGURES = ("in-words", "always", "never")
MOST_CANDIDATES = 9
"""As many as there are figures to choose with."""
MOST_BYTES = 1 << 16
"""Of the file; a thousand programs fit."""
_TAG = re.compile(r"(?:[a-z]{2,3}(?:-[a-z0-9]{1,8}){0,3})?", re.IGNORECASE)
"""Of a language (BCP 47), at most as long as the suggester takes; empty for the session's."""
_MODIFIERS = frozenset({"control", "shift", "alt", "super"})
_KEY = re.compile(r"[a-z0-9_]+")
"""As X names keys: ``n``, ``F12``, ``period``."""


@dataclass(frozen=True, slots=True)
class DesktopSettings:
    """What a person may choose.

    Attributes:
        socket: of the suggester; empty for the one of the person's own agent.
        language: a tag such as ``de-AT``; empty for the session's.
        candidates: shown at once.
        next_words: whether words are offered before their first letter.
        figures: when a figure chooses a candidate: ``in-words`` (after a letter), ``always`` or ``never``.
        autocorrect: whether a space or full stop takes the correction of a slip.
        keep: whether anything that is typed in programs is kept.
        ask_key: shows candidates in terminals, once.
        pause_key: pauses everything, and goes on.
        terminals: programs in which nothing is offered unless asked for, and nothing is kept.
        secret_programs: programs in which nothing is offered or kept at all.
        never_learned: programs in which words are offered and nothing is kept.
        without_echo: programs that do not show an engine what stands before the cursor, and keep password fields from
            it: words are offered, never corrected, and nothing is kept.
    """

    socket: str = ""
    language: str = ""
    candidates: int = 3
    next_words: bool = True
    figures: str = "in-words"
    autocorrect: bool = False
    keep: bool = True
    ask_key: str = "Control+Shift+space"
    pause_key: str = "Control+Alt+n"
    terminals: frozenset[str] = TERMINALS
    secret_programs: frozenset[str] = SECRET_PROGRAMS
    never_learned: frozenset[str] = NEVER_LEARNED
    without_echo: frozenset[str] = WITHOUT_ECHO


UNREADABLE = DesktopSettings(keep=False)
"""Of a file that nobody can read: it may name programs that are never learned from."""


def settings_from(table: Mapping[str, Any]) -> tuple[DesktopSettings, list[str]]:
    """The settings of a table, and its faults in words; a setting with a fault keeps its default.

    The lists of programs add to the defaults. A fault that may hide a program from them lets nothing be kept.

    >>> settings_from({"candidates": 5, "autocorrect": "yes"})[1]
    ['autocorrect: expected true or false, got str']
    """
    default, chosen, faults, hidden = DesktopSettings(), {}, [], False
    known = {field.name: getattr(default, field.name) for field in fields(DesktopSettings)}
    for name, value in table.items():
        if name not in known:
            faults.append(f"{name}: expected one of {', '.join(sorted(known))}")
            hidden = True  # perhaps a list
        elif fault := _fault(name, value, known[name]):
            faults.append(f"{name}: {fault}, got {type(value).__name__}")
            hidden = hidden or name == "keep" or isinstance(known[name], frozenset)
        elif isinstance(known[name], frozenset):
            chosen[name] = known[name] | {program_named(program) for program in value}
        else:
            chosen[name] = value
    settings = DesktopSettings(**chosen)
    return replace(settings, keep=settings.keep and not hidden), faults


def program_named(program: str) -> str:
    """A program as toolkits name it, of what a person or a toolkit calls it.

    >>> program_named("/usr/bin/KeePassXC"), program_named("org.keepassxc.KeePassXC.desktop")
    ('keepassxc', 'org.keepassxc.keepassxc')
    """
    return program.strip().rpartition("/")[2].lower().removesuffix(".desktop")


def _fault(name: str, value: object, default: object) -> str:
    match default:
        case bool():
            return "" if isinstance(value, bool) else "expected true or false"
        case int():
            right = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_CANDIDATES
            return "" if right else f"expected a number from 1 to {MOST_CANDIDATES}"
        case frozenset():
            right = isinstance(value, list) and all(isinstance(each, str) for each in value)
            return "" if right else "expected a list of names of programs"
        case _ if name == "figures":
            return "" if value in FIGURES else f"expected one of {', '.join(FIGURES)}"
        case _ if name == "language":
            right = isinstance(value, str) and _TAG.fullmatch(value) is not None
            return "" if right else "expected a tag such as de-AT"
        case _ if name.endswith("_key"):
            right = isinstance(value, str) and _is_combination(value)
            return "" if right else "expected a key as X names it, such as Control+Alt+n"
        case _:
            return "" if isinstance(value, str) and "\0" not in value else "expected a text"


def combination(keys: str) -> str:
    """Keys in one spelling, whatever the case and the order of the modifiers.

    >>> combination("Ctrl + Alt + N") == combination("Alt+Control+n")
    True
    """
    *modifiers, name = (key.strip() for key in keys.lower().split("+"))
    return "+".join((*sorted("control" if modifier == "ctrl" else modifier for modifier in modifiers), name))


def _is_combination(keys: str) -> bool:
    *modifiers, name = combination(keys).split("+")
    return _MODIFIERS.issuperset(modifiers) and name not in _MODIFIERS and _KEY.fullmatch(name) is not None


def read_settings(path: Path) -> tuple[DesktopSettings, list[str]]:
    """The settings of a file, and its faults; the defaults without one."""
    try:
        data = read_file(path, MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            return UNREADABLE, [f"expected at most {MOST_BYTES} bytes"]
        return settings_from(tomllib.loads(data.decode()))
    except FileNotFoundError:
        return DesktopSettings(), []
    except (OSError, ValueError, RecursionError) as error:  # TOMLDecodeError and UnicodeDecodeError are ValueErrors
        return UNREADABLE, [f"expected a readable TOML file: {error}"]


def settings_path(environment: Mapping[str, str], home: Path) -> Path:
    """Where the settings are: ``nightjar/ibus.toml`` in the person's configuration."""
    return Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "nightjar" / "ibus.toml"


def socket_path(environment: Mapping[str, str], home: Path, settings: DesktopSettings) -> Path:
    """Where the suggester listens: as the variable, then the settings say, else of the person's own agent."""
    named = environment.get("NIGHTJAR_SUGGESTER_SOCKET") or settings.socket
    if named:
        return Path(named)
    return Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share") / "nightjar" / "suggester" / "socket"
