"""The IBus engine: translates IBus's calls into events of the typing state, and its effects into IBus's calls.

Decides nothing. Typed text is in no log.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gi

gi.require_version("IBus", "1.0")
from gi.repository import GLib, IBus  # noqa: E402 - the version comes first

from nightjar.edge_agent.desktop.answers import paused_in, words_in  # noqa: E402
from nightjar.edge_agent.desktop.component import BUS_NAME, ENGINE  # noqa: E402
from nightjar.edge_agent.desktop.fields import program_of  # noqa: E402
from nightjar.edge_agent.desktop.known_field import TypingState  # noqa: E402
from nightjar.edge_agent.desktop.programs import PROMPTS  # noqa: E402
from nightjar.edge_agent.desktop.running_programs import any_runs  # noqa: E402
from nightjar.edge_agent.desktop.settings import DesktopSettings  # noqa: E402
from nightjar.edge_agent.desktop.suggester_line import SuggesterLine  # noqa: E402
from nightjar.edge_agent.desktop.typing_events import (  # noqa: E402
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
    TypingEffect,
    TypingEvent,
)
from nightjar.edge_agent.desktop.typing_state import step  # noqa: E402

PATH = "/org/freedesktop/IBus/Engine/Nightjar"
ASK_AGAIN_S = 1.0
"""How soon a suggester that did not answer yet is asked again, at a key."""
_MASK = IBus.ModifierType
_MODIFIERS = (
    ("Alt", _MASK.MOD1_MASK),
    ("Control", _MASK.CONTROL_MASK),
    ("Shift", _MASK.SHIFT_MASK),
    ("Super", _MASK.MOD4_MASK | _MASK.SUPER_MASK | _MASK.HYPER_MASK | _MASK.META_MASK),
)
_ALONE = frozenset({"Shift", "Control", "Alt", "Super", "Meta", "Hyper"})
_LOCKS = frozenset({"Caps_Lock", "Num_Lock", "Scroll_Lock", "Shift_Lock", "ISO_Level3_Shift", "ISO_Level5_Shift"})


class _WatchedLine(SuggesterLine):
    """A connection to the suggester, which all engines of this process share, in GLib's event loop."""

    def __init__(self, socket: Path) -> None:
        super().__init__(socket, time.monotonic, self._watch)
        self._watched = 0

    def _watch(self, descriptor: int | None) -> None:
        if self._watched:
            GLib.source_remove(self._watched)
            self._watched = 0
        if descriptor is not None:
            condition = GLib.IOCondition.IN | GLib.IOCondition.HUP | GLib.IOCondition.ERR
            self._watched = GLib.io_add_watch(descriptor, GLib.PRIORITY_DEFAULT, condition, self._readable)

    def _readable(self, *_: object) -> bool:
        watched = self._watched
        self.read()
        return self._watched == watched


class NightjarEngine(IBus.Engine):  # type: ignore[misc]
    """An engine; IBus has one or several, and says in which field the cursor is."""

    def __init__(
        self, connection: Any, path: str, settings: DesktopSettings, words: SuggesterLine, rest: SuggesterLine
    ) -> None:
        # IBus 1.5.27 and later name the program with the focus.
        named = hasattr(IBus.Engine.props, "has_focus_id")
        super().__init__(
            connection=connection, object_path=path, engine_name=ENGINE, **({"has_focus_id": True} if named else {})
        )
        self._state = TypingState(settings)
        self._unlearned = (settings.secret_programs | settings.never_learned) - PROMPTS
        self._table = IBus.LookupTable.new(settings.candidates, 0, False, False)
        self._table.set_orientation(IBus.Orientation.HORIZONTAL)
        # Complete, also where IBus has defaults: it cannot send a property without a label of each kind.
        self._switch = IBus.Property.new(
            "pause",
            IBus.PropType.TOGGLE,
            IBus.Text.new_from_string("Pause Nightjar"),
            "",
            IBus.Text.new_from_string("Offer nothing and learn nothing"),
            True,
            True,
            IBus.PropState.UNCHECKED,
            None,
        )
        self._switch.set_symbol(IBus.Text.new_from_string("N"))
        self._properties = IBus.PropList()
        self._properties.append(self._switch)
        # Words do not wait for what takes its time, such as keeping a message.
        self._words, self._rest = words, rest
        self._destroyed = self._wanted = self._told_once = False
        self._changed_s = self._asked_s = 0.0

    # --- to the core and back ---

    def take(self, event: TypingEvent) -> tuple[TypingEffect, ...]:
        """Take an event and do what follows from it."""
        was = self._state.paused
        self._state, effects = step(self._state, event)
        if self._state.paused != was:
            self._show_paused()
        for effect in effects:
            self._do(effect)
        return effects

    def _do(self, effect: TypingEffect) -> None:
        match effect:
            case AskWords(number, text):
                count = self._state.settings.candidates + 1
                request = {"do": "suggest", "text": text, "count": count, "language": self._language()}
                self._words.ask(request, lambda answer: self._answered(words_in(number, answer)), overtaken=True)
            case ShowCandidates(words):
                self._show(words)
            case ReplaceText(delete, insert, past):
                self._changed_s = time.monotonic()
                if delete:
                    self.delete_surrounding_text(-past - delete, delete)
                if insert:
                    self.commit_text(IBus.Text.new_from_string(insert))
            case KeepText(text, program):
                learn = {"do": "learn", "text": text, "program": program[:100], "language": self._language()}
                self._rest.ask(learn, lambda _: None)
            case PauseEverything(paused):
                self._rest.ask({"do": "pause", "paused": paused}, self._told)
            case ConsumeKey():
                pass  # the key's answer says it

    def _language(self) -> str:
        """The same for each request: another one lets the suggester read another lexicon."""
        return self._state.settings.language or _language()

    def _answered(self, event: TypingEvent) -> None:
        if not self._destroyed:  # IBus has let go of what an answer would be shown with
            self.take(event)

    def _told(self, answer: dict[str, Any] | None) -> None:
        paused = paused_in(answer)
        self._told_once = self._told_once or paused is not None
        if paused is not None:
            self._answered(PauseTold(paused))

    def _show(self, words: tuple[str, ...]) -> None:
        if not words:
            self.hide_lookup_table()
            return
        self._table.clear()
        for number, word in enumerate(words, 1):
            self._table.append_candidate(IBus.Text.new_from_string(word))
            self._table.set_label(number - 1, IBus.Text.new_from_string(str(number)))
        self.update_lookup_table(self._table, True)

    def _show_paused(self) -> None:
        self._switch.set_state(IBus.PropState.CHECKED if self._state.paused else IBus.PropState.UNCHECKED)
        self.update_property(self._switch)

    # --- from IBus ---

    def do_destroy(self) -> None:
        """IBus's: the engine is not needed any more."""
        self._destroyed = True
        IBus.Engine.do_destroy(self)

    def do_disable(self) -> None:
        """IBus's: another engine was chosen."""
        self.take(FieldLeft())

    def do_focus_in(self) -> None:
        """IBus's, before 1.5.27: the cursor came into a field of a program that is not named."""
        self._entered("")

    def do_focus_in_id(self, _path: str, client: str) -> None:
        """IBus's: the cursor came into a field."""
        self._entered(program_of(client))

    def _entered(self, program: str) -> None:
        self._wanted = False
        self.take(FieldEntered(program, doubtful=not program and any_runs(self._unlearned)))
        self.register_properties(self._properties)
        self._ask_paused()

    def _ask_paused(self) -> None:
        self._asked_s = time.monotonic()
        self._rest.ask({"do": "status"}, self._told)

    def do_focus_out(self) -> None:
        """IBus's, before 1.5.27: the cursor left the field."""
        self.take(FieldLeft())

    def do_focus_out_id(self, _path: str) -> None:
        """IBus's: the cursor left the field."""
        self.take(FieldLeft())

    def do_set_content_type(self, purpose: int, hints: int) -> None:
        """IBus's: what is typed in the field."""
        self.take(FieldDescribed(purpose=purpose, hints=hints))

    def do_set_capabilities(self, capabilities: int) -> None:
        """IBus's: what the program can do."""
        self.take(FieldDescribed(surrounding=bool(capabilities & IBus.Capabilite.SURROUNDING_TEXT)))

    def do_set_surrounding_text(self, text: Any, cursor: int, anchor: int) -> None:
        """IBus's: the text around the cursor."""
        self._changed_s = time.monotonic()
        shown = text.get_text()
        self.take(TextShown(shown[:cursor], shown[cursor : cursor + 1], cursor != anchor))

    def do_reset(self) -> None:
        """IBus's: the program drops what is composed, as at a click."""
        self.take(CursorMoved(time.monotonic() - self._changed_s))

    def do_set_cursor_location(self, right: int, down: int, width: int, height: int) -> None:
        """IBus's: where the program draws the cursor."""
        self.take(CursorMoved(time.monotonic() - self._changed_s, (right, down, width, height)))

    def do_candidate_clicked(self, place: int, _button: int, _modifiers: int) -> None:
        """IBus's: a candidate was touched."""
        self.take(CandidateTouched(place))

    def do_property_activate(self, name: str, state: int) -> None:
        """IBus's: the switch was used."""
        if name == "pause":
            paused = state == IBus.PropState.CHECKED
            self.take(PauseTold(paused, chosen=True))
            self._rest.ask({"do": "pause", "paused": paused}, self._told)

    def do_process_key_event(self, value: int, _code: int, modifiers: int) -> bool:
        """IBus's: a key was pressed or released. Whether the program does not get it."""
        if modifiers & _MASK.RELEASE_MASK:
            return False
        name = IBus.keyval_name(value) or ""
        if name in _LOCKS or name.rpartition("_")[0] in _ALONE:
            return False
        self._changed_s = time.monotonic()
        if not self._told_once and self._changed_s - self._asked_s > ASK_AGAIN_S:
            self._ask_paused()  # the agent had not started yet
        if not self._wanted:
            self._wanted = True
            # Not before: a program that has no text field ready would be taken for one that shows no text.
            self.get_surrounding_text()
        character = IBus.keyval_to_unicode(value)
        if not isinstance(character, str):
            character = chr(character)
        held = tuple(each for each, mask in _MODIFIERS if modifiers & mask)
        key = KeyPressed(name, character if character.isprintable() else "", held)
        return ConsumeKey() in self.take(key)


def _language() -> str:
    named = next((os.environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if os.environ.get(name)), "")
    tag = named.partition(".")[0].partition("@")[0].replace("_", "-")
    return "" if tag in ("C", "POSIX") else tag[:35]


class _Factory(IBus.Factory):  # type: ignore[misc]
    def __init__(self, bus: Any, create: Callable[[], NightjarEngine]) -> None:
        super().__init__(connection=bus.get_connection(), object_path=IBus.PATH_FACTORY)
        self._create = create

    def do_create_engine(self, _name: str) -> Any:
        """IBus's: an engine of this name is wanted."""
        return self._create()


class NoIBusError(Exception):
    """There is no IBus to serve."""


def serve(settings: DesktopSettings, socket: Path, engine_type: type[NightjarEngine] = NightjarEngine) -> None:
    """Serve IBus until it ends.

    Raises:
        NoIBusError: there is none.
    """
    IBus.init()
    bus = IBus.Bus()
    if not bus.is_connected():
        msg = "expected a running IBus, found none; start ibus-daemon"
        raise NoIBusError(msg)
    loop = GLib.MainLoop()
    bus.connect("disconnected", lambda *_: loop.quit())
    words, rest = _WatchedLine(socket), _WatchedLine(socket)
    count = iter(range(1, 1 << 31))

    def create() -> NightjarEngine:
        return engine_type(bus.get_connection(), f"{PATH}/{next(count)}", settings, words, rest)

    factory = _Factory(bus, create)
    bus.request_name(BUS_NAME, 0)
    loop.run()
    factory.destroy()
