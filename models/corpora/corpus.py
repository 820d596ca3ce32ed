"""A corpus: users and their messages in order, as raw text that is not split into words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Corpus:
    """Messages by user.

    Attributes:
        name: source of the text, for display.
        users: user -> messages, oldest first; users in the order of the source, each with at least one message.
        skipped_rows: rows of a file that had no user or no text.
    """

    name: str
    users: Mapping[str, tuple[str, ...]]
    skipped_rows: int = 0
