"""A text field of a program that IBus serves: ``/usr/bin/python3 ibus_field.py ENGINE``, for ``benchmarks.desk``.

Debian's Python runs it, which has ``gi``, so it imports nothing of ours. Each line on standard input is a JSON object,
``{"do": "begin"}`` for an empty field or ``{"do": "press", "key": NAME}``; each line of output says what is shown
then: ``candidates``, ``text`` and ``ms``, from the key to the last candidates.
"""

import importlib
import json
import sys
import time
from typing import Any

GLib: Any = None
IBus: Any = None


BETWEEN_S = 1.0
"""The pause between two messages, while the first is learned."""
FIRST_S = 1.5
"""How long to wait for candidates after a key."""
HIDDEN_S = 0.06
"""How long to wait after they were hidden: engines hide the former ones before they show others."""
SHOWN_S = 0.012
"""How long to wait after candidates, for others that replace them."""
BUSY_S = 5.0
"""How long an engine may say that it is busy."""
READY_S = 20.0
_BUSY = "\N{HOURGLASS WITH FLOWING SAND}"
"""In the auxiliary text of typing-booster while it looks for candidates."""
_MARKS = str.maketrans("", "", "\u202a\u202c")
"""Marks of direction, which typing-booster puts around a candidate."""


class DrivenField:
    """The field: text with the cursor at its end, and the candidates that are shown."""

    def __init__(self, engine: str) -> None:
        IBus.init()
        self._bus: Any = IBus.Bus()
        self._context: Any = None
        self._text = self._preedit = ""
        self._shown: list[str] = []
        self._busy = False
        self._changed_s, self._until_s = 0.0, 0.0
        can = IBus.Capabilite
        context = self._bus.create_input_context("gtk3-im:desk")
        context.connect("commit-text", lambda _c, text: self._insert(text.get_text()))
        context.connect("update-preedit-text", lambda _c, text, _at, visible: self._compose(text.get_text(), visible))
        context.connect("hide-preedit-text", lambda _c: self._compose("", visible=False))
        context.connect("update-lookup-table", lambda _c, table, visible: self._show(table, visible))
        context.connect("update-auxiliary-text", lambda _c, text, visible: self._note(text.get_text(), visible))
        context.connect("hide-auxiliary-text", lambda _c: self._note("", visible=False))
        context.connect("hide-lookup-table", lambda _c: self._show(None, visible=False))
        context.connect("delete-surrounding-text", lambda _c, offset, count: self._delete(offset, count))
        context.connect("forward-key-event", lambda _c, value, _code, state: self._edit(value, state))
        context.set_capabilities(
            can.FOCUS | can.PREEDIT_TEXT | can.AUXILIARY_TEXT | can.LOOKUP_TABLE | can.SURROUNDING_TEXT
        )
        context.focus_in()
        until_s = time.monotonic() + READY_S
        while not self._bus.set_global_engine(engine):
            if time.monotonic() > until_s:
                sys.exit(f"IBus does not start the engine {engine}")
            time.sleep(0.2)
        self._context = context
        # The person comes into the field anew: IBus names the program only then.
        context.focus_out()
        self._wait()
        context.focus_in()
        self._wait()
        # IBus drops the text that is shown first, before the engine's question for it has come.
        for key in ("x", "BackSpace"):
            self.press(key)
            self._wait(BETWEEN_S)

    def begin(self) -> None:
        """Empty the field, as a program does when a message was sent; what is offered then stays until it is hidden."""
        if self._text or self._preedit:
            self._text = self._preedit = ""
            self._context.reset()
            self._report()
        self._wait(BETWEEN_S)

    def press(self, key: str) -> float:
        """Press and release a key; returns the milliseconds to the last candidates, 0 without any."""
        value = IBus.unicode_to_keyval(key) if len(key) == 1 else IBus.keyval_from_name(key)
        self._changed_s, begun_s = 0.0, time.monotonic()
        if not self._context.process_key_event(value, 0, 0):
            self._edit(value, 0)
        self._wait()
        took_ms = 1e3 * (self._changed_s - begun_s) if self._changed_s and self._shown else 0.0
        self._context.process_key_event(value, 0, IBus.ModifierType.RELEASE_MASK)
        return took_ms

    def shown(self) -> dict[str, Any]:
        """What a person sees."""
        return {"candidates": self._shown, "text": self._text + self._preedit}

    def _wait(self, first_s: float = FIRST_S) -> None:
        begun_s = time.monotonic()
        self._until_s = begun_s + first_s
        loop = GLib.MainContext.default()
        while time.monotonic() < (begun_s + BUSY_S if self._busy else self._until_s):
            if not loop.iteration(False):
                time.sleep(0.0005)

    def _note(self, text: str, visible: bool) -> None:
        was, self._busy = self._busy, visible and _BUSY in text
        if was and not self._busy:
            self._until_s = time.monotonic() + SHOWN_S

    def _compose(self, text: str, visible: bool) -> None:
        """Show what an engine keeps to itself until it inserts it."""
        self._preedit = text if visible else ""

    def _insert(self, text: str) -> None:
        self._text += text
        self._report()

    def _delete(self, offset: int, count: int) -> None:
        begin = len(self._text) + offset
        self._text = self._text[: max(0, begin)] + self._text[max(0, begin) + count :]
        self._report()

    def _edit(self, value: int, state: int) -> None:
        if state & IBus.ModifierType.RELEASE_MASK:
            return
        character = IBus.keyval_to_unicode(value)
        character = character if isinstance(character, str) else chr(character)
        if IBus.keyval_name(value) == "BackSpace":
            self._text = self._text[:-1]
        elif character.isprintable():
            self._text += character
        self._report()

    def _report(self) -> None:
        if self._context is not None:
            end = len(self._text)
            self._context.set_surrounding_text(IBus.Text.new_from_string(self._text), end, end)

    def _show(self, table: Any, visible: bool) -> None:
        now_s = time.monotonic()
        if table is None or not visible:
            self._shown = []
            self._until_s = now_s + HIDDEN_S
            return
        count = min(table.get_number_of_candidates(), table.get_page_size())
        self._shown = [table.get_candidate(number).get_text().translate(_MARKS) for number in range(count)]
        self._changed_s, self._until_s = now_s, now_s + SHOWN_S


def main() -> None:
    """Answer each line."""
    global GLib, IBus  # this module can be looked at where Debian's bindings are missing
    importlib.import_module("gi").require_version("IBus", "1.0")
    GLib, IBus = (importlib.import_module(f"gi.repository.{name}") for name in ("GLib", "IBus"))
    field = DrivenField(sys.argv[1])
    for line in sys.stdin:
        asked, took_ms = json.loads(line), 0.0
        if asked["do"] == "begin":
            field.begin()
        else:
            took_ms = field.press(asked["key"])
        print(json.dumps({**field.shown(), "ms": took_ms}), flush=True)


if __name__ == "__main__":
    main()
