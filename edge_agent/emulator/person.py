"""The person of an emulated phone: their messages are put into the example store as if they had been typed there."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from wire.errors import ConfigError


class OnceStore(Protocol):
    """A store that knows what it was given before."""

    def add_once(self, name: str, texts: list[str]) -> bool:
        """Keep a whole set of messages, unless that was done before."""


def read_messages(path: Path) -> list[str]:
    """A person's messages: a text file with one message a line; empty lines are left out.

    Raises:
        ConfigError: the file cannot be read, is not UTF-8 or has no message.
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
    """Put a person's messages into the store, once in the life of the phone.

    Returns:
        How many were added now: none after a restart.

    Raises:
        ConfigError: as :func:`read_messages`.
    """
    messages = read_messages(path)
    return len(messages) if store.add_once("person", messages) else 0
