from __future__ import annotations

from pathlib import Path

import pytest

from nightjar.models.pretraining.word_rule import Language, ranked_words
from nightjar.models.pretraining.written import CorpusMessages, written

LANGUAGE = Language({"rose", "we", "meet"}, {"we": 0.02, "meet": 0.01, "hello": 0.001})


def text(folder: Path, rows: list[tuple[str, str]]) -> CorpusMessages:
    path = folder / "corpus.tsv"
    path.write_text("user\ttext\n" + "".join(f"{user}\t{message}\n" for user, message in rows))
    return written(path, None)


def test_a_word_of_enough_people_and_a_common_word_are_allowed(tmp_path: Path) -> None:
    rows = [(f"p{n}", "sudo") for n in range(3)] + [("p0", "kubectl")] * 9
    assert ranked_words(text(tmp_path, rows), LANGUAGE, least_people=3) == ["sudo", "we", "meet", "hello"]


@pytest.mark.parametrize("written_as", ["xara", "xara: hi", "ask |Xara|"])
def test_a_nickname_is_not_allowed_however_many_people_type_it(tmp_path: Path, written_as: str) -> None:
    rows = [(f"p{n}", written_as) for n in range(5)] + [("|Xara|", "we meet")]
    assert "xara" not in ranked_words(text(tmp_path, rows), LANGUAGE, least_people=3)


def test_a_nickname_that_is_a_dictionary_word_is_allowed(tmp_path: Path) -> None:
    rows = [(f"p{n}", "a rose") for n in range(3)] + [("rose", "we meet")]
    assert "rose" in ranked_words(text(tmp_path, rows), LANGUAGE, least_people=3)


def test_who_is_addressed_is_named_even_if_nobody_has_that_nickname(tmp_path: Path) -> None:
    rows = [(f"p{n}", "zedd: we meet") for n in range(5)]
    assert "zedd" not in ranked_words(text(tmp_path, rows), LANGUAGE, least_people=3)


def test_part_of_a_nickname_is_named_only_if_it_is_seldom_typed_otherwise(tmp_path: Path) -> None:
    rows = [("jo_php", "we meet")] + [(f"p{n}", "jo_php uses php and php") for n in range(3)]
    allowed = ranked_words(text(tmp_path, rows), LANGUAGE, least_people=3)
    assert "php" in allowed
    assert "jo" not in allowed
