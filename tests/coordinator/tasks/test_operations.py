import pytest

from nightjar.coordinator.tasks.operations import OperationRefused, PauseTask, ResumeTask, StopTask, change_of
from nightjar.coordinator.tasks.task import OVER, Paused, Resumed, Task, TaskStatus, TaskStopped

CHANGES = {
    PauseTask("a", "why"): (TaskStatus.PAUSED, Paused(9.0, "why", "ann")),
    StopTask("a", "why"): (TaskStatus.STOPPED, TaskStopped(9.0, "why", "ann")),
    ResumeTask("a"): (TaskStatus.ACTIVE, Resumed(9.0)),
}


@pytest.mark.parametrize("status", TaskStatus)
@pytest.mark.parametrize("operation", CHANGES, ids=lambda each: type(each).__name__)
def test_an_operation_changes_a_task_that_is_not_over_and_is_not_so_already(operation, status):
    wanted, event = CHANGES[operation]
    task = Task(name="a", number=1, created_s=0.0, status=status, reason="done")
    answer = change_of(operation, task, "", "ann", 9.0)
    if status is wanted:
        assert answer is None
    elif status in OVER:
        assert answer == OperationRefused(f"the task a is {status.value}: done; make a new one")
    else:
        assert answer == event


def test_limits_forbid_only_to_resume():
    paused = Task(name="a", number=1, created_s=0.0, status=TaskStatus.PAUSED)
    refused = change_of(ResumeTask("a"), paused, "too dense", "ann", 9.0)
    assert refused == OperationRefused("[limits] of the configuration do not allow the task a: too dense")
    assert isinstance(change_of(StopTask("a", "why"), paused, "too dense", "ann", 9.0), TaskStopped)
