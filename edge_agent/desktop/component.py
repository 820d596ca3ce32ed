"""What IBus must know of the engine: the component file for ``/usr/share/ibus/component``."""

from __future__ import annotations

from xml.sax.saxutils import escape

ENGINE = "nightjar"
BUS_NAME = "org.freedesktop.IBus.Nightjar"
LONG_NAME = "Nightjar (word prediction)"
DESCRIPTION = "Next words, completion and correction in every program; learns on this device"


def component_xml(command: str, version: str, setup: str = "") -> str:
    """The component file.

    Args:
        command: what IBus runs to start the engine; it adds nothing.
        version: of the engine.
        setup: what IBus runs for the engine's preferences; empty for none.
    """
    parts = {
        "name": BUS_NAME, "description": DESCRIPTION, "exec": command, "version": version, "author": "Nightjar",
        "license": "Apache-2.0", "homepage": "", "textdomain": "nightjar-ibus",
    }  # fmt: skip
    engine = {
        "name": ENGINE, "language": "other", "license": "Apache-2.0", "author": "Nightjar", "icon": "input-keyboard",
        "layout": "default", "longname": LONG_NAME, "description": DESCRIPTION, "rank": "1", "symbol": "N",
        **({"setup": setup} if setup else {}),
    }  # fmt: skip
    lines = ['<?xml version="1.0" encoding="utf-8"?>', "<component>", *_lines(parts, 2), "  <engines>", "    <engine>"]
    return "\n".join([*lines, *_lines(engine, 6), "    </engine>", "  </engines>", "</component>", ""])


def _lines(parts: dict[str, str], indent: int) -> list[str]:
    return [f"{' ' * indent}<{name}>{escape(value)}</{name}>" for name, value in parts.items()]
