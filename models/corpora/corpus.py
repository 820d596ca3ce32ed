"""What a corpus is: people, and what each of them typed, in order. Raw text; cutting it into words is not done here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Corpus:
    """Messages by user.

    Attributes:
        name: where it is from, for people.
        users: user -> messages, oldest first, in the order of the source; nobody is without one.
        skipped_rows: rows of a file that had no user or no text.
    """

    name: str
    users: Mapping[str, tuple[str, ...]]
    skipped_rows: int = 0
