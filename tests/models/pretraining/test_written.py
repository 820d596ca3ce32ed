from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from nightjar.models.pretraining.written import written
from nightjar.wire.errors import ConfigError, CorpusError

ROWS = (
    "user\ttime\ttext\n"
    "ana\t2014-12-31T23:59\thello there\n"
    "ben\t2015-01-01T00:00\tgood morning\n"
    "ana\t2015-02-01T08:00\tlater\n"
)


def corpus(folder: Path, text: str) -> Path:
    path = folder / "corpus.tsv"
    path.write_text(text)
    return path


def test_only_text_before_the_date_is_used_and_only_people_without_any_are_outside(tmp_path: Path) -> None:
    path = corpus(tmp_path, ROWS)
    found = written(path, "2015-01-01")
    assert (found.users, found.people.tolist(), found.texts) == (("ana",), [0], ("hello there",))
    assert (found.outside, found.outside_people, found.others) == (("good morning",), 1, ("ben",))
    assert found.text_sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert found.used_sha256 == hashlib.sha256(b"ana\thello there\n").hexdigest()


def test_without_a_date_all_is_used_and_the_date_is_the_day_after_the_last_message(tmp_path: Path) -> None:
    found = written(corpus(tmp_path, ROWS), None)
    assert (len(found.texts), found.outside, found.before) == (3, (), "2015-02-02")
    assert written(corpus(tmp_path, "user\ttext\nana\thello\n"), None).before is None


@pytest.mark.parametrize(
    ("text", "before", "message"),
    [
        (ROWS, "yesterday", "--before: expected a date such as"),
        (ROWS, "2004-01-01", "no words before 2004-01-01"),
        ("user\ttext\nana\thello\n", "2015-01-01", r"line 2: --before needs a column time"),
        ("user\ttime\ttext\nana\tnoon\thello\n", "2015-01-01", r"line 2: .*got 'noon'"),
        ("user\ttime\ttext\nana\tnoon\thello\n", None, "expected dates"),
        ("user\ttext\nana\t:-)\n", None, "has no words"),
        ("", None, "empty"),
        ("hello\n", None, "without user and text"),
    ],
)
def test_a_corpus_that_cannot_be_used_says_why(tmp_path: Path, text: str, before: str | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        written(corpus(tmp_path, text), before)


def test_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "corpus.tsv"
    path.write_bytes(b"user\ttext\nana\tcaf\xe9\n")
    with pytest.raises(CorpusError, match="line 2: expected UTF-8"):
        written(path, None)
