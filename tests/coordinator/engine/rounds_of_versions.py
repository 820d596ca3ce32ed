"""Rounds on a world of fakes, and what became of their versions."""

import msgspec
import pytest

from nightjar.coordinator.records.inbox import Operated
from nightjar.coordinator.versions.rollout import Stage
from nightjar.coordinator.versions.trial_policy import TrialPolicy
from nightjar.wire import frame as frames
from nightjar.wire.codec.codecs import to_name
from nightjar.wire.frame import KeyboardEvaluation, LocalEvaluation
from nightjar.wire.messages import Announcement, CheckIn, Work
from nightjar.wire.shares import is_canary
from tests.coordinator.engine.reporting import delta
from tests.coordinator.fake_device import report_frame
from tests.coordinator.fakes import Killed
from tests.coordinator.model_folder import LAYOUT

GOOD, BAD = 20, 2
"""Of 100 held-out words, foreseen."""
TRIAL = TrialPolicy(share=0.5, devices=2, hours=1.0)


def stage(world, version):
    return world.tables.versions[version].rollout.stage


def reason(world, version):
    return world.tables.versions[version].rollout.reason


def announced(world):
    return [message for _, message, _ in world.transport.sent if isinstance(message, Announcement)][-1]


def found(hits):
    return LocalEvaluation(100, hits, 2 * hits, hits, 2 * hits, 5.0, 4.5)


def report(world, device, value=0.01, hits=GOOD, gain=None, over=None):
    """What was asked for: an update with figures beside it, or figures alone.

    With a ``gain``, the device has a keyboard with the announced version, or as it says version ``over``, which saves
    30 % of the keystrokes; the version of the round saves so many points more.
    """
    asked = world.assignment(device)
    written = frames.decode(report_frame(asked, delta(value), LAYOUT, evaluation=found(hits)))
    if gain is not None and asked.plan.keystrokes:
        compared = announced(world).version if over is None else over
        keyboard = KeyboardEvaluation(1000, 300 + round(10 * gain), compared, 300)
        written = msgspec.structs.replace(written, keyboard=keyboard)
    if asked.work is Work.EVALUATE:
        written = msgspec.structs.replace(written, codec=frames.NO_UPDATE, payload=b"")
    world.receive(device, "report", frames.encode_report(written))


def check_in(world, *devices):
    for device in devices:
        offer = CheckIn(
            agent_version="0.1.0", runtime="none", examples=10, kinds=("train", "evaluate"), codecs=to_name()
        )
        world.say(device, offer)


def hold_round(world, *devices, hits=GOOD, gain=None):
    """The devices check in, are selected, and report."""
    check_in(world, *devices)
    world.tick(61.0)
    for device in devices:
        report(world, device, hits=hits, gain=gain)
    world.work()


def in_canary(world, version, count):
    """Names of devices that try a version."""
    manifest = world.tables.versions[version].manifest
    names = [f"phone-{i}" for i in range(200)]
    return [n for n in names if is_canary(n, manifest, TRIAL.share)][:count], [
        n for n in names if not is_canary(n, manifest, TRIAL.share)
    ][:count]


def operate(world, operation):
    answers = []
    world.driver.handle(Operated(operation, "ann", answers.append))
    return answers[0]


def stages(world):
    return [world.tables.versions[number].rollout.stage for number in sorted(world.tables.versions)]


def bases(world):
    return [world.tables.rounds[number].base_version for number in sorted(world.tables.rounds)]


def begin_trial(make_world):
    world = make_world(rollout=TRIAL)
    hold_round(world, "a", "b")
    assert (stage(world, 0), stage(world, 1)) == (Stage.CURRENT, Stage.CANARY)
    return world


def status_of(world):
    return world.tables.tasks["keyboard"].state.status


def killed_at_any_touch(begin, story, over):
    """Tell a story in new worlds that are killed at every seventh touch and started again, and then until it is over.

    Yields the number of touches before the kill, and the world; in the last one the story was not killed.
    """
    for touches in range(0, 400, 7):
        world, left, killed = begin(), [touches], False

        def touch(left=left):
            left[0] -= 1
            if left[0] < 0:
                raise Killed

        world.touch_with(touch)
        try:
            story(world)
        except Killed:
            killed = True
            world.touch_with(lambda: None)
            world.start()
            world.listen()
            for _ in range(4):
                if not over(world):
                    story(world)
        world.touch_with(lambda: None)
        yield touches, world
        if not killed:
            return
    pytest.fail("the story has more touches than that")
