from nightjar.coordinator.engine import label_service
from nightjar.coordinator.engine.driver import LISTEN_S
from nightjar.coordinator.records.inbox import Operated
from nightjar.coordinator.rounds.labelling import LabelRule
from nightjar.coordinator.rounds.lease import MOST_LABELS
from nightjar.coordinator.rounds.round import AbandonCause, Phase
from nightjar.coordinator.rounds.seats import SeatState
from nightjar.coordinator.tasks.operations import (
    BlockDevice,
    DropLabelRule,
    LabelDevice,
    OperationRefused,
    PauseTask,
    ResumeTask,
    SetLabelRule,
    UnblockDevice,
)
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import Receipt, Rejection, RejectionReason, Verdict
from tests.coordinator.engine.reporting import receipts, report
from tests.coordinator.fakes import Killed

A, B, C = DeviceId("a"), DeviceId("b"), DeviceId("c")


def operate(world, operation) -> bool:
    answers = []
    world.driver.handle(Operated(operation, "anna", answers.append))
    [changed] = answers
    return changed


def audited(world) -> list[tuple[str, str, str, str]]:
    with world.repository.transaction() as tx:
        return [(entry.action, entry.target, entry.before, entry.after) for entry in tx.audit(10)]


def test_a_paused_task_calls_off_a_round_that_waits_and_says_so_to_who_waited(make_world):
    world = make_world()
    world.check_in("a")
    assert operate(world, PauseTask("keyboard", "the model is being looked at"))
    state = world.tables.rounds[1]
    assert (state.phase, state.cause) == (Phase.ABANDONED, AbandonCause.CALLED_OFF)
    assert "the model is being looked at" in state.reason
    assert world.transport.to("a", Rejection)[-1].reason is RejectionReason.NO_TASK
    world.check_in("b")
    assert "the model is being looked at" in world.transport.to("b", Rejection)[-1].detail
    assert audited(world) == [("pause-task", "keyboard", "active", "paused: the model is being looked at")]


def test_devices_that_train_may_finish_when_the_task_is_paused(make_world):
    world = make_world()
    world.check_in("a", "b")
    operate(world, PauseTask("keyboard", "enough for today"))
    for device in ("a", "b"):
        world.receive(device, "report", report(world, device))
    world.work()
    assert world.phase_of(1) is Phase.COMMITTED
    assert 2 not in world.tables.rounds


def test_a_pause_outlives_the_process_and_ends_when_it_is_resumed(make_world):
    world = make_world()
    operate(world, PauseTask("keyboard", "night"))
    world.start()
    assert world.tables.rounds.keys() == {1}
    assert operate(world, ResumeTask("keyboard"))
    assert world.phase_of(2) is Phase.SELECTION
    world.check_in("a", "b")
    assert world.phase_of(2) is Phase.REPORTING


def test_what_is_so_already_changes_nothing_and_is_not_noted(make_world):
    world = make_world()
    assert not operate(world, ResumeTask("keyboard"))
    assert not operate(world, UnblockDevice(A))
    operate(world, PauseTask("keyboard", "first"))
    assert not operate(world, PauseTask("keyboard", "second"))
    assert len(audited(world)) == 1


def test_a_blocked_device_is_told_why_and_leaves_the_pool(make_world):
    world = make_world()
    world.check_in("a")
    operate(world, BlockDevice(A, "sends nonsense"))
    assert world.tables.rounds[1].pool == ()
    world.check_in("a")
    rejection = world.transport.to("a", Rejection)[-1]
    assert (rejection.reason, rejection.detail) == (RejectionReason.BLOCKED, "sends nonsense")
    assert rejection.retry_after_s >= 900
    operate(world, UnblockDevice(A))
    world.check_in("a")
    assert world.tables.rounds[1].pool == (A,)
    assert audited(world)[0] == ("unblock-device", "a", "blocked: sends nonsense", "not blocked")


def test_the_report_of_a_device_that_was_blocked_meanwhile_is_refused(make_world):
    world = make_world()
    world.check_in("a", "b")
    operate(world, BlockDevice(A, "stolen"))
    world.receive("a", "report", report(world, "a"))
    [receipt] = world.transport.to("a", Receipt)
    assert (receipt.verdict, receipt.code) == (Verdict.INVALID, "blocked")
    assert world.tables.rounds[1].seats[A].state is SeatState.REFUSED
    world.receive("b", "report", report(world, "b"))
    assert receipts(world, "b") == [Verdict.ACCEPTED]


def test_a_device_has_only_so_many_labels(make_world):
    world = make_world()
    world.check_in("a")
    assert operate(world, LabelDevice(A, add=("porch", "kitchen"), remove=("attic",)))
    assert world.tables.leases[A].labels == "kitchen porch"
    assert not operate(world, LabelDevice(A, add=("porch",)))
    refused = operate(world, LabelDevice(A, add=tuple(f"l{number}" for number in range(MOST_LABELS))))
    assert isinstance(refused, OperationRefused)
    assert world.tables.leases[A].labels == "kitchen porch"
    assert audited(world)[0] == ("label-device", "a", "none", "kitchen porch")


def test_a_rule_gives_its_label_to_devices_that_are_known_come_or_change(make_world):
    world = make_world()
    world.check_in("a", "b")
    operate(world, LabelDevice(A, add=("porch",)))
    assert operate(world, SetLabelRule(LabelRule(label="on-porch", labels=("porch",))))
    assert operate(world, SetLabelRule(LabelRule(label="named-c", device="c*")))
    assert [world.tables.leases[name].labels for name in (A, B)] == ["on-porch porch", ""]
    world.check_in("c")
    assert world.tables.leases[DeviceId("c")].labels == "named-c"
    operate(world, LabelDevice(B, add=("porch",)))
    operate(world, LabelDevice(A, remove=("porch",)))
    assert [world.tables.leases[name].labels for name in (A, B)] == ["", "on-porch porch"]
    assert not operate(world, SetLabelRule(LabelRule(label="named-c", device="c*")))
    assert operate(world, DropLabelRule("on-porch"))
    assert [world.tables.leases[name].labels for name in (A, B)] == ["", "porch"]
    assert world.tables.labelling.dropped == ()
    assert audited(world)[0] == ("drop-label-rule", "on-porch", "with label porch", "none")


def test_nobody_gives_or_takes_the_label_of_a_rule_by_hand(make_world):
    world = make_world()
    world.check_in("a")
    operate(world, SetLabelRule(LabelRule(label="small", maximum_memory_mb=1024)))
    for asked in (LabelDevice(A, add=("small",)), LabelDevice(A, remove=("small",))):
        refused = operate(world, asked)
        assert refused == OperationRefused("the label small is given by a rule; change the rule instead")
    assert isinstance(operate(world, DropLabelRule("large")), OperationRefused)


def test_a_rule_that_no_device_can_meet_is_refused(make_world):
    world = make_world()
    refused = operate(world, SetLabelRule(LabelRule(label="small", minimum_memory_mb=1024, maximum_memory_mb=512)))
    assert refused == OperationRefused("no device has memory from 1024 to 512 MB: expected the smaller number first")
    assert operate(world, SetLabelRule(LabelRule(label="small", minimum_memory_mb=512, maximum_memory_mb=512)))
    assert operate(world, SetLabelRule(LabelRule(label="large", minimum_memory_mb=1024)))


def test_a_rule_comes_to_a_large_fleet_in_parts_and_a_restart_goes_on(make_world, monkeypatch):
    monkeypatch.setattr(label_service, "AT_ONCE", 2)
    world = make_world()
    world.check_in("a", "b", "c", "d", "e")
    operate(world, SetLabelRule(LabelRule(label="all")))

    def labelled():
        return [lease.device for lease in world.tables.leases.values() if lease.labels]

    assert sorted(labelled()) == ["a", "b"]
    world.start()
    world.tick(LISTEN_S)
    world.tick()
    assert sorted(labelled()) == ["a", "b", "c", "d", "e"]
    assert world.tables.labelling.after is None


def test_a_device_can_be_blocked_before_it_ever_came(make_world):
    world = make_world()
    assert operate(world, BlockDevice(C, "lost in a train"))
    world.check_in("c")
    assert world.transport.to("c", Rejection)[-1].reason is RejectionReason.BLOCKED


def test_a_kill_leaves_an_operation_and_its_entry_or_neither(make_world):
    touches = 0
    while True:
        world, left = make_world(), touches

        def on_touch() -> None:
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1

        world.check_in("a")
        world.touch_with(on_touch)
        try:
            world.driver.handle(Operated(BlockDevice(A, "odd"), "anna"))
            return
        except Killed:
            world.touch_with(lambda: None)
            world.start()
            blocked = bool(world.tables.leases[A].blocked)
            assert blocked == bool(audited(world))
        touches += 1
