"""Text for training and evaluation, as messages by user: invented people, the Python reference, or a file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nightjar.models.corpora.corpus import Corpus
from nightjar.models.corpora.personas import MESSAGES, PEOPLE, personas
from nightjar.models.corpora.pydoc import pydoc
from nightjar.models.corpora.split import Participant, Split, split
from nightjar.models.corpora.tsv import tsv

__all__ = ["Corpus", "Participant", "Split", "load", "split", "write_messages"]


def load(name_or_path: str, seed: int, *, people: int = PEOPLE, messages: int = MESSAGES) -> Corpus:
    """Load a corpus: ``personas``, ``pydoc``, or the path of a tab-separated file.

    Only ``personas`` uses the other arguments (:func:`nightjar.models.corpora.personas.personas`).

    Raises:
        CorpusError: the corpus cannot be read, or holds no text.
    """
    match name_or_path:
        case "personas":
            return personas(seed, people, messages)
        case "pydoc":
            return pydoc()
        case path:
            return tsv(Path(path))


def write_messages(path: Path, messages: Iterable[str]) -> None:
    """Write a person's messages, one a line, as an emulated phone reads them (``emulator.messages``)."""
    path.write_text("".join(f"{' '.join(message.split())}\n" for message in messages), encoding="utf-8")
