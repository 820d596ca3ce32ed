"""The engine's settings: ``~/.config/nightjar/ibus.toml``, each of which may be left out."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from nightjar.edge_agent.desktop.programs import NEVER_LEARNED, SECRET_PROGRAMS, TERMINALS, WITHOUT_ECHO

FIGURES = ("in-words", "always", "never")
MOST_CANDIDATES = 9
"""As many as there are figures to choose with."""


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
    ask_key: str = "Control+Shift+space"
    pause_key: str = "Control+Alt+n"
    terminals: frozenset[str] = TERMINALS
    secret_programs: frozenset[str] = SECRET_PROGRAMS
    never_learned: frozenset[str] = NEVER_LEARNED
    without_echo: frozenset[str] = WITHOUT_ECHO


def settings_from(table: Mapping[str, Any]) -> tuple[DesktopSettings, list[str]]:
    """The settings of a table, and its faults in words; a setting with a fault keeps its default.

    The lists of programs add to the defaults: a mistake may offer too little, and keeps nothing too much.

    >>> settings_from({"candidates": 5, "autocorrect": "yes"})[1]
    ['autocorrect: expected true or false, got str']
    """
    default, chosen, faults = DesktopSettings(), {}, []
    known = {field.name: getattr(default, field.name) for field in fields(DesktopSettings)}
    for name, value in table.items():
        if name not in known:
            faults.append(f"{name}: expected one of {', '.join(sorted(known))}")
        elif fault := _fault(name, value, known[name]):
            faults.append(f"{name}: {fault}, got {type(value).__name__}")
        elif isinstance(known[name], frozenset):
            chosen[name] = known[name] | {program.lower() for program in value}
        else:
            chosen[name] = value
    return DesktopSettings(**chosen), faults


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
        case _:
            return "" if isinstance(value, str) else "expected a text"


def read_settings(path: Path) -> tuple[DesktopSettings, list[str]]:
    """The settings of a file, and its faults; the defaults without one."""
    try:
        with path.open("rb") as file:
            return settings_from(tomllib.load(file))
    except FileNotFoundError:
        return DesktopSettings(), []
    except (OSError, ValueError) as error:  # TOMLDecodeError and UnicodeDecodeError are ValueErrors
        return DesktopSettings(), [f"expected a readable TOML file: {error}"]


def settings_path(environment: Mapping[str, str], home: Path) -> Path:
    """Where the settings are: ``nightjar/ibus.toml`` in the person's configuration."""
    return Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "nightjar" / "ibus.toml"


def socket_path(environment: Mapping[str, str], home: Path, settings: DesktopSettings) -> Path:
    """Where the suggester listens: as the variable, then the settings say, else of the person's own agent."""
    named = environment.get("NIGHTJAR_SUGGESTER_SOCKET") or settings.socket
    if named:
        return Path(named)
    return Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share") / "nightjar" / "suggester" / "socket"
