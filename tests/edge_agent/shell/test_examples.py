"""What a device says about its examples when it checks in."""

from __future__ import annotations

import pytest
import structlog

from nightjar.edge_agent.shell.examples import DeviceExamples


class Messages:
    def count(self):
        return 2

    def texts(self):
        return ["hello", "there"]


def test_a_device_without_a_folder_has_its_messages_and_no_examples_of_other_task_types():
    examples = DeviceExamples(Messages())
    assert examples.count() == 2
    assert examples.task_types() == ("classification:no-examples", "keyboard")
    assert examples.source().texts == ["hello", "there"]


def test_a_folder_is_counted_and_its_problem_is_said_until_it_is_mended(tmp_path):
    folder = tmp_path / "examples"
    examples = DeviceExamples(Messages(), folder)
    assert examples.task_types()[0] == "classification:unreadable"
    folder.mkdir()
    (folder / "a.csv").write_text("height,label\ntall,cat\n")
    with structlog.testing.capture_logs() as logs:
        assert examples.task_types()[0] == "classification:not-a-number"
        assert examples.count() == 2
    assert [each["why"] for each in logs if "tall" in each["why"]]
    (folder / "a.csv").write_text("height,label\n1,cat\n2,dog\n3,cat\n")
    assert examples.task_types()[0] == "classification"
    assert examples.count() == 5


@pytest.mark.parametrize("name", ["keyboard", "classification"])
def test_our_own_task_types_are_there(name):
    from nightjar.models.task_types import installed

    assert installed()[name].fault == ""
