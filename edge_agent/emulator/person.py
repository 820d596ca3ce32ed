"""The user of an emulated phone: puts their messages into the example store as if they had been typed on the phone."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from wire.errors import ConfigError


class OnceStore(Protocol):
    """A store that adds a named set of messages only once."""

    def add_once(self, name: str, texts: list[str]) -> bool:
        """Store a set of messages, unless this was done before; return whether they were added."""


def read_messages(path: Path) -> list[str]:
    """Read a person's messages from a text file with one message per line; empty lines are skipped.

    Raises:
        ConfigError: the file cannot be read, is not UTF-8, or has no message.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        msg = f"emulator.messages: expected a UTF-8 text file with one message a line, got: {path}: {error}"
        raise ConfigError(msg) from error
    messages = [line.strip() for line in lines if line.strip()]
    if not messages:
        msg = f"emulator.messages: expected one message a line, got none in {path}"
        raise ConfigError(msg)
    return messages


def move_in(store: OnceStore, path: Path) -> int:
    """Put a person's messages into the store, once in the lifetime of the phone.

    Returns:
        Number of messages added by this call: 0 after a restart.

    Raises:
        ConfigError: the file cannot be read, is not UTF-8, or has no message.
    """
    messages = read_messages(path)
    return len(messages) if store.add_once("person", messages) else 0
