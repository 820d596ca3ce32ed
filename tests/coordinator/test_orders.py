"""What devices make of a coordinator's orders over restarts, restores, rollbacks and changes of its keys and clock."""

import shutil

import msgspec
import pytest

from nightjar.coordinator.engine.driver import ANNOUNCED_AGAIN_S
from nightjar.coordinator.engine.effect_runner import CLOCKS_APART_S
from nightjar.coordinator.records.inbox import Operated
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.schema import copy_sqlite
from nightjar.coordinator.storage.signing_key import KEY_FILE, change_key, load_signer, make_recovery_key, read_key
from nightjar.coordinator.tasks.operations import RollBack
from nightjar.edge_agent.link.trust import KnownKey
from nightjar.edge_agent.shell.signatures import signature_valid
from nightjar.wire import messages, topics
from nightjar.wire.errors import ConfigError, RemoteProtocolError
from tests.coordinator.engine.rounds_of_versions import hold_round
from tests.coordinator.fakes import FakeTransport, World
from tests.coordinator.model_folder import write_model


class Facts(dict):
    fact, remember = dict.get, dict.__setitem__


class Phone:
    """A device's memory of whom it obeys."""

    def __init__(self, world, *, synchronised=False):
        now_s = (lambda: world.clock.time_s) if synchronised else (lambda: None)
        keys = (world.signer.public, world.signer.recovery)
        self.trust = KnownKey("demo", "phone", Facts(), *keys, is_valid=signature_valid, now_s=now_s)

    def hears(self, order):
        """Obey an order of the coordinator's, as it was published."""
        kind, payload = order
        if kind == "announce":
            self.trust.announced(payload)
        self.trust.check(kind, payload)

    def refuses(self, order, code):
        with pytest.raises(RemoteProtocolError) as refused:
            self.hears(order)
        assert refused.value.code == code


class Kept(FakeTransport):
    """Keeps orders for everybody, and for the phone, as they are sent."""

    def __init__(self):
        super().__init__()
        self.orders = []

    def publish(self, topic, payload, *, retain=False):
        kind = topic.rsplit("/", 1)[1]
        if topic in {topics.announce("demo"), topics.down("demo", "phone", "assignment")}:
            self.orders.append((kind, payload))
        super().publish(topic, payload, retain=retain)


class SignedWorld(World):
    """Keeps its data in a folder."""

    def __init__(self, folder):
        self.folder = folder
        manifest, file = write_model(folder / "model"), folder / "coordinator.sqlite"
        super().__init__(manifest, folder / "model", lambda: Database(f"sqlite:///{file}"))

    def start(self):
        self.signer = load_signer(self.folder / "keys")
        if not isinstance(self.transport, Kept):
            self.transport = Kept()
        super().start()

    @property
    def announced(self):
        return [order for order in self.transport.orders if order[0] == "announce"][-1]

    def assigned(self):
        """An assignment for the phone, of a round that is then over."""
        self.learn()
        return [order for order in self.transport.orders if order[0] == "assignment"][-1]

    def learn(self):
        """A round, and the version that comes of it."""
        hold_round(self, "phone", "other")

    def back_up(self):
        copy_sqlite(self.folder / "coordinator.sqlite", self.folder / "backup.sqlite")

    def restore(self):
        self.repository.close()
        for path in self.folder.glob("coordinator.sqlite*"):
            path.unlink()
        shutil.copy(self.folder / "backup.sqlite", self.folder / "coordinator.sqlite")
        self.start()


@pytest.fixture
def world(tmp_path):
    world = SignedWorld(tmp_path)
    yield world
    world.repository.close()


def test_what_devices_were_told_before_is_refused_after_each_new_version(world):
    phone = Phone(world)
    told = [world.announced]
    for _ in range(3):
        world.clock.time_s += 60
        world.learn()
        told.append(world.announced)
        phone.hears(told[-1])
    for old in told[:-1]:
        phone.refuses(old, "rollback")
    phone.hears(told[-1])


def test_a_rollback_is_a_new_number_over_old_weights(world):
    phone = Phone(world)
    world.learn()
    bad = world.announced
    phone.hears(bad)
    world.driver.handle(Operated(RollBack("worse"), "ann", lambda _: None))
    back = messages.decode(*world.announced)
    assert (back.version, messages.decode(*bad).version) == (0, 1)
    assert back.number > messages.decode(*bad).number
    phone.hears(world.announced)
    phone.refuses(bad, "rollback")


@pytest.mark.parametrize("synchronised", [True, False])
def test_restored_from_an_old_backup_it_continues_above_every_number_ever_issued(world, synchronised):
    phone = Phone(world, synchronised=synchronised)
    world.back_up()
    for _ in range(5):
        world.clock.time_s += 60
        world.learn()
        phone.hears(world.announced)
    lost = world.announced
    for _ in range(2):  # the same backup, twice
        world.clock.time_s += 60
        world.restore()
        assert messages.decode(*world.announced).version == 0
        phone.hears(world.announced)
        phone.hears(world.assigned())
        phone.refuses(lost, "rollback")
        world.learn()
        lost = world.announced
        phone.hears(lost)


def test_a_clock_that_is_set_back_does_not_lower_the_number_and_signs_nothing_for_the_future(world):
    phone = Phone(world)
    phone.hears(world.announced)
    for now_s in (2**31 + 1.0, 1_000_000.0, 0.0):  # once the battery of its clock was empty
        world.clock.time_s = now_s
        world.learn()
        phone.hears(world.announced)
        world.start()
        phone.hears(world.announced)
        phone.hears(world.assigned())
    assert messages.decode(*world.announced).signed_s < 1000.0


def test_what_is_announced_is_said_again_before_it_is_over(world):
    phone = Phone(world, synchronised=True)
    first = world.announced
    phone.hears(first)
    for _ in range(40):
        world.tick(ANNOUNCED_AGAIN_S)
    assert messages.decode(*world.announced).not_after_s > world.clock.time_s
    phone.hears(world.announced)
    phone.refuses(first, "expired")


def test_devices_follow_a_key_that_was_changed_and_one_that_was_lost(world):
    keys, recovery = world.folder / "keys", world.folder / "recovery.pem"
    make_recovery_key(keys, recovery)
    world.start()
    phone, left_out = Phone(world), Phone(world)
    phone.hears(world.announced)
    change_key(keys, "demo", None, world.clock.time_s)
    world.start()
    phone.hears(world.announced)
    (keys / KEY_FILE).unlink()
    with pytest.raises(ConfigError, match="missing"):
        world.start()
    change_key(keys, "demo", read_key(recovery), world.clock.time_s)
    world.start()
    for each in (phone, left_out):
        each.hears(world.announced)
        each.hears(world.assigned())


def test_an_assignment_says_all_that_a_device_obeys(world):
    announced = messages.decode(*world.announced)
    asked = messages.decode(*world.assigned())
    settings, signed_s = world.config.task, world.clock.time_s
    said = (asked.task, asked.version, asked.manifest, asked.number)
    assert said == ("keyboard", 0, announced.manifest, announced.number)
    plan = msgspec.structs.replace(settings.plan.plan(settings.strategy.name), keystrokes=True)
    assert (asked.codec, asked.plan, asked.minimum) == (settings.codec.choice(), plan, settings.minimum)
    assert signed_s - 100 < asked.signed_s <= signed_s
    assert asked.not_after_s == asked.signed_s + asked.report_deadline_s + CLOCKS_APART_S
