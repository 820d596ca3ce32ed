"""A run of the benchmark of desks that was cut off goes on with who was not typed yet."""

import pytest

from nightjar.benchmarks.desk_record import DeskRecord, DeskSetting, TypedPerson
from nightjar.edge_agent.core.keystrokes import Replayed
from nightjar.wire.errors import CorpusError

SETTING = DeskSetting("a", "b", 3_000, 7)
ADA = TypedPerson("nightjar", 0, Replayed(3, 1, 2, 12, 7), [4.5], 1, 0, 120.0)


def test_people_who_were_typed_are_in_the_file_for_a_later_run(tmp_path):
    path = tmp_path / "so-far"
    DeskRecord(path, SETTING).add(ADA)
    again = DeskRecord(path, SETTING)
    assert again.of("nightjar", 0) == ADA
    assert again.of("presage", 0) is None
    assert again.all_of("nightjar") == [ADA]


def test_a_line_that_was_cut_off_is_dropped_and_the_next_is_whole(tmp_path):
    path = tmp_path / "so-far"
    DeskRecord(path, SETTING).add(ADA)
    path.write_bytes(path.read_bytes() + b'{"predictor":"nigh')
    DeskRecord(path, SETTING).add(TypedPerson("presage", 0, Replayed(1)))
    assert len(DeskRecord(path, SETTING).all_of("presage")) == 1


def test_figures_of_another_setting_are_refused(tmp_path):
    path = tmp_path / "so-far"
    DeskRecord(path, SETTING)
    with pytest.raises(CorpusError, match="name another file"):
        DeskRecord(path, DeskSetting("a", "b", 3_000, 8))


@pytest.mark.parametrize("content", [b"", b"no JSON\n", b"[]\n"])
def test_a_file_of_something_else_is_refused_and_left_as_it_is(tmp_path, content):
    path = tmp_path / "so-far"
    path.write_bytes(content)
    with pytest.raises(CorpusError, match="name another file"):
        DeskRecord(path, SETTING)
    assert path.read_bytes() == content


def test_without_a_file_the_figures_are_kept_in_memory():
    record = DeskRecord(None, SETTING)
    record.add(ADA)
    assert record.all_of("nightjar") == [ADA]
