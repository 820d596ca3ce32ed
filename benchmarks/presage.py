"""Debian's ``presage`` as a predictor for comparison: smoothed n-grams, trained on the same text.

It uses the C interface of ``libpresage1v5``, and ``text2ngram`` for training. The product does not depend on it.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

SUGGESTIONS = 3
_LIBRARY = "libpresage.so.1"
_STREAM = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_PREDICTOR = "Presage.Predictors.DefaultSmoothedNgramPredictor"
_USER = "Presage.Predictors.UserSmoothedNgramPredictor"


def installed() -> bool:
    """Whether the library and ``text2ngram`` are installed."""
    try:
        ctypes.CDLL(_LIBRARY)
    except OSError:
        return False
    return shutil.which("text2ngram") is not None


def train(texts: Sequence[str], folder: Path) -> Path:
    """Count unigrams, bigrams and trigrams of messages into a database for presage's predictor; cached for each text.

    ``text2ngram`` counts; its own SQLite output takes an hour for a million trigrams, so the database is written here.
    """
    lines = "\n".join(texts) + "\n"
    database = folder / f"{hashlib.sha256(lines.encode()).hexdigest()[:12]}.db"
    if database.exists():
        return database
    folder.mkdir(parents=True, exist_ok=True)
    text, fresh = folder / "text.txt", database.with_suffix(".new")
    text.write_text(lines)
    fresh.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(fresh)) as connection:
        for order, columns in enumerate((["word"], ["word_1", "word"], ["word_2", "word_1", "word"]), 1):
            kinds = ", ".join(f"{column} TEXT" for column in columns)
            names = ", ".join(columns)
            connection.execute(f"CREATE TABLE _{order}_gram ({kinds}, count INTEGER, UNIQUE({names}))")
            places = ", ".join("?" * (order + 1))
            connection.executemany(
                f"INSERT OR IGNORE INTO _{order}_gram VALUES ({places})",  # noqa: S608 - our own names
                _counted(text, order),
            )
        connection.commit()
    fresh.replace(database)
    return database


def _counted(text: Path, order: int) -> Iterator[list[str]]:
    """The n-grams of a file with their counts, parsed from the output of ``text2ngram``."""
    command = ["text2ngram", "-n", str(order), "-l", "-f", "tsv", "-o", os.devnull, str(text)]
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, stdout=pipe, stderr=nothing, text=True, errors="replace") as child:  # noqa: S603 - fixed
        for line in child.stdout or ():
            parts = line.rstrip("\n").lstrip("#").split("\t")
            if len(parts) == order + 1 and parts[-1].isdigit():
                yield parts


class Presage:
    """The predictor of presage, with a database that :func:`train` has made.

    ``own`` is a database file for what one person types. With it, presage has the predictors of its default
    configuration that learn: n-grams of the person, and the latest words.
    """

    def __init__(self, database: Path, own: Path | None = None) -> None:
        self._library = ctypes.CDLL(_LIBRARY)
        self._past = ctypes.create_string_buffer(b"")
        self._future = ctypes.create_string_buffer(b"")
        # Kept referenced, because the library calls them during its whole life.
        self._streams = (
            _STREAM(lambda _: ctypes.addressof(self._past)),
            _STREAM(lambda _: ctypes.addressof(self._future)),
        )
        self._handle = ctypes.c_void_p()
        past, future = self._streams
        _check(self._library.presage_new(past, None, future, None, ctypes.byref(self._handle)))
        learning = {} if own is None else {f"{_USER}.DBFILENAME": str(own), f"{_USER}.LEARN": "true"}
        further = " UserSmoothedNgramPredictor DefaultRecencyPredictor" if learning else ""
        for name, value in {
            f"{_PREDICTOR}.DBFILENAME": str(database),
            **learning,
            "Presage.PredictorRegistry.PREDICTORS": f"DefaultSmoothedNgramPredictor{further}",
            "Presage.ContextTracker.ONLINE_LEARNING": "no",
            "Presage.Selector.SUGGESTIONS": str(SUGGESTIONS),
            # Its default: a word that was passed over is not offered again for the same word. Ours does likewise.
            "Presage.Selector.REPEAT_SUGGESTIONS": "no",
        }.items():
            _check(self._library.presage_config_set(self._handle, name.encode(), value.encode()))

    def suggest(self, text: str) -> list[str]:
        """Suggestions for the text before the caret, in lower case."""
        self._past = ctypes.create_string_buffer(text.encode())
        result = ctypes.POINTER(ctypes.c_char_p)()
        _check(self._library.presage_predict(self._handle, ctypes.byref(result)))
        found = []
        for i in range(1 << 10):
            word = result[i]
            if word is None:
                break
            found.append(word.decode(errors="replace").lower())
        self._library.presage_free_string_array(result)
        return found

    def learn(self, message: str) -> None:
        """Count the n-grams of a message that was sent."""
        _check(self._library.presage_learn(self._handle, f"{message} ".encode()))

    def close(self) -> None:
        """Free the library's memory and close the databases."""
        self._library.presage_free(self._handle)


def _check(status: int) -> None:
    if status:
        msg = f"presage failed with code {status}"
        raise RuntimeError(msg)
