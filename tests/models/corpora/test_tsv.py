from pathlib import Path

import pytest

from nightjar.models.corpora import load
from nightjar.wire.errors import CorpusError


def write(folder: Path, data: bytes) -> str:
    path = folder / "messages.tsv"
    path.write_bytes(data)
    return str(path)


def test_columns_are_found_by_name_and_others_are_ignored(tmp_path: Path) -> None:
    path = write(tmp_path, b"time\ttext\tuser\n1\thello there\tben\n2\tbye\tana\n3\tagain\tben\n")
    corpus = load(path, seed=1)
    assert corpus.users == {"ben": ("hello there", "again"), "ana": ("bye",)}
    assert list(corpus.users) == ["ben", "ana"]
    assert corpus.skipped_rows == 0
    assert corpus.name == "messages.tsv"


def test_rows_without_user_or_text_are_skipped_and_counted(tmp_path: Path) -> None:
    path = write(tmp_path, b"user\ttext\nben\thello\n\tnobody\nana\t\nana\t  \nshort\n\nben\tbye\n")
    corpus = load(path, seed=1)
    assert corpus.users == {"ben": ("hello", "bye")}
    assert corpus.skipped_rows == 5


def test_windows_line_ends_byte_order_mark_and_tabs_in_the_text(tmp_path: Path) -> None:
    path = write(tmp_path, b"\xef\xbb\xbfuser\ttext\r\nben\tone\ttwo\r\nben\tlast")
    assert load(path, seed=1).users == {"ben": ("one\ttwo", "last")}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty"),
        (b"\n\n", "empty line"),
        (b"text\nhello\n", r"line 1: .*without user"),
        (b"hello world\nhello again\n", r"line 1: .*without user and text"),
        (b"ben\thello\nana\thi\n", r"line 1: .*without user and text"),
        (b"user\ttext\n", "no row"),
        (b"user\ttext\n\thello\nben\t\n", r"no row .*2 rows"),
        (b"user\ttext\nben\tok\nben\tcaf\xe9\n", "line 3: expected UTF-8, got the byte 0xe9"),
        ("user\ttext\nben\thi\n".encode("utf-16"), "line 1: expected UTF-8"),
    ],
)
def test_a_bad_file_says_where_and_what_to_do(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        load(write(tmp_path, data), seed=1)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"no corpus file .*nothing.tsv"):
        load(str(tmp_path / "nothing.tsv"), seed=1)
    with pytest.raises(CorpusError, match="folder"):
        load(str(tmp_path), seed=1)
    with pytest.raises(CorpusError, match="cannot read"):
        load(write(tmp_path, b"") + "/below", seed=1)
    with pytest.raises(CorpusError, match="folder"):
        load("", seed=1)


def test_a_file_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, b"user\ttext\nben\thi\n")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)  # root may read everything, so the mode bits would not do
    with pytest.raises(CorpusError, match="Permission denied"):
        load(path, seed=1)
