"""The start of a run as a fleet's operator makes it: ``python -m nightjar.models pretrain`` on public people's text.

Made once for each text and configuration, and kept beside the programs. The seed is that of the command, whatever the
seed of the run: a fleet has one start.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from nightjar.models.pretraining.written import CorpusMessages
from nightjar.models.shipped import MADE_FROM, Shipped, opened

SEED = 7
"""Seed of weights and order, as the command's."""


def pretrained(public: Mapping[str, Sequence[str]], others: Sequence[str], name: str, folder: Path) -> Shipped:
    """The first model of a run.

    Args:
        public: messages of each person whose text it is made of.
        others: names of everybody else; the model does not know them as words.
        name: of the configuration.
        folder: beneath which it is kept.

    Raises:
        ConfigError: a word list is not installed, or there is no such configuration.
        UnavailableError: the folder cannot be written.
    """
    text = _written(public, others)
    made = folder / f"{name}-{text.used_sha256[:16]}"
    if not (made / MADE_FROM).exists():
        from nightjar.models.pretraining.making import PretrainingOptions, pretrain_on  # imports TensorFlow

        command = "python -m nightjar.simulation learn"
        asked = PretrainingOptions(
            Path(), made, None, "en", SEED, "the public people of an experiment", command, names=(name,)
        )
        pretrain_on(text, asked, lambda _line: None, lambda _what, _done, _steps: None)
    return opened(made)


def _written(public: Mapping[str, Sequence[str]], others: Sequence[str]) -> CorpusMessages:
    digest = hashlib.sha256("\n".join(others).encode())
    for user, messages in public.items():
        for message in messages:
            digest.update(f"{user}\t{message}\n".encode())
    return CorpusMessages(
        users=tuple(public),
        people=np.repeat(np.arange(len(public)), [len(messages) for messages in public.values()]),
        texts=tuple(message for messages in public.values() for message in messages),
        outside=(),
        outside_people=0,
        others=tuple(others),
        before=None,
        text_sha256="",
        used_sha256=digest.hexdigest(),
    )
