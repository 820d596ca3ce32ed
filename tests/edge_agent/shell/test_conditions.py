"""The reader of a Linux device, on trees built here."""

import os

import pytest

from edge_agent.core.eligibility import Answer, Condition
from edge_agent.shell.conditions import Limits, SystemConditions, TypingActivity

CORES = os.cpu_count() or 1


def limits(**changes):
    usual = {
        "minimum_battery": 0.3,
        "maximum_battery_c": 45.0,
        "maximum_processor_c": 80.0,
        "idle_after_s": 60.0,
        "maximum_load": 0.7,
        "metered": False,
        "always_powered": False,
    }
    return Limits(**(usual | changes))


class Device:
    def __init__(self, root):
        self.root = root
        self.now_s, self.processor_s = 0.0, 0.0
        (root / "sys/class/power_supply").mkdir(parents=True)
        self.load(0.0)

    def load(self, value):
        (self.root / "proc").mkdir(exist_ok=True)
        (self.root / "proc/loadavg").write_text(f"{value} 0.5 0.5 1/200 999\n")

    def supply(self, name, **entries):
        folder = self.root / "sys/class/power_supply" / name
        folder.mkdir()
        for key, value in entries.items():
            (folder / key).write_text(f"{value}\n")

    def zone(self, number, millidegrees):
        folder = self.root / f"sys/class/thermal/thermal_zone{number}"
        folder.mkdir(parents=True)
        (folder / "temp").write_text(f"{millidegrees}\n")

    def terminal(self, name, accessed_s):
        path = self.root / "dev" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (accessed_s, accessed_s))

    def conditions(self, **changes):
        self.typing = TypingActivity(lambda: self.now_s)
        return SystemConditions(
            limits(**changes),
            self.typing,
            self.root,
            processor_s=lambda: self.processor_s,
            now_s=lambda: self.now_s,
            wall_s=lambda: 1_000_000.0 + self.now_s,
        )

    def read(self, condition, **changes):
        return self.conditions(**changes).read()[condition]


@pytest.fixture
def device(tmp_path):
    return Device(tmp_path)


BATTERY = {"type": "Battery", "present": 1, "capacity": 80}
MAINS_ON, MAINS_OFF = {"type": "Mains", "online": 1}, {"type": "Mains", "online": 0}
MOUSE = {"type": "Battery", "scope": "Device", "status": "Discharging", "capacity": 5, "online": 1}


@pytest.mark.parametrize(
    ("supplies", "answer"),
    [
        ({}, Answer.YES),  # a board on a cable
        ({"AC": MAINS_ON}, Answer.YES),
        ({"hidpp_battery_0": MOUSE}, Answer.YES),  # a board with a wireless mouse
        ({"BAT0": BATTERY | {"status": "Charging"}, "AC": MAINS_ON}, Answer.YES),
        ({"BAT0": BATTERY | {"status": "Full"}, "AC": MAINS_ON}, Answer.YES),
        ({"BAT0": BATTERY | {"status": "Charging"}}, Answer.YES),
        ({"BAT0": BATTERY | {"status": "Discharging"}, "AC": MAINS_OFF}, Answer.NO),
        ({"BAT0": BATTERY | {"status": "Not charging"}, "AC": MAINS_ON}, Answer.YES),  # a charge limit
        ({"BAT0": BATTERY | {"status": "Not charging"}, "AC": MAINS_OFF}, Answer.NO),
        ({"BAT0": BATTERY | {"status": "Discharging"}, "usb": {"type": "USB", "online": 1}}, Answer.NO),  # too weak
        ({"BAT0": BATTERY | {"status": "Charging"}, "usb": {"type": "USB_C", "online": 1}}, Answer.YES),
        ({"BAT0": BATTERY | {"status": "Unknown"}}, Answer.UNKNOWN),
        ({"BAT0": BATTERY | {"status": "Unknown"}, "AC": MAINS_ON}, Answer.YES),
        ({"BAT0": BATTERY}, Answer.UNKNOWN),
        ({"BAT0": BATTERY | {"status": "Charging", "present": 0}, "AC": MAINS_OFF}, Answer.YES),  # an empty bay
        (
            {"BAT0": BATTERY | {"status": "Full"}, "BAT1": BATTERY | {"status": "Discharging"}, "AC": MAINS_OFF},
            Answer.NO,
        ),
        ({"hidpp_battery_0": MOUSE, "BAT0": BATTERY | {"status": "Charging"}, "AC": MAINS_ON}, Answer.YES),
    ],
)
def test_charging(device, supplies, answer):
    for name, entries in supplies.items():
        device.supply(name, **entries)
    reading = device.read(Condition.CHARGING)
    assert reading.value is answer
    assert reading.reason


def test_no_power_information_at_all_is_unknown_unless_the_configuration_knows(tmp_path, device):
    (tmp_path / "sys/class/power_supply").rmdir()
    assert device.read(Condition.CHARGING).value is Answer.UNKNOWN
    assert device.read(Condition.CHARGING, always_powered=True).value is Answer.YES


@pytest.mark.parametrize(
    ("capacities", "answer"),
    [([], Answer.UNKNOWN), ([30], Answer.YES), ([29], Answer.NO), ([0], Answer.UNKNOWN), ([90, 20], Answer.YES)],
)
def test_battery_level(device, capacities, answer):
    device.supply("mouse", **MOUSE)
    for number, capacity in enumerate(capacities):
        device.supply(f"BAT{number}", type="Battery", status="Charging", capacity=capacity)
    assert device.read(Condition.BATTERY_HIGH).value is answer


@pytest.mark.parametrize(
    ("battery_tenths", "zones", "answer"),
    [
        (None, [], Answer.UNKNOWN),
        (None, [55_000], Answer.YES),
        (None, [55_000, 80_500], Answer.NO),
        (None, [0, -273_000], Answer.UNKNOWN),
        (460, [], Answer.NO),
        (450, [], Answer.YES),
        (300, [81_000], Answer.NO),
        (460, [40_000], Answer.NO),
    ],
)
def test_heat(device, battery_tenths, zones, answer):
    if battery_tenths is not None:
        device.supply("BAT0", type="Battery", status="Full", temp=battery_tenths)
    for number, millidegrees in enumerate(zones):
        device.zone(number, millidegrees)
    assert device.read(Condition.COOL).value is answer


@pytest.mark.parametrize("metered", [True, False])
def test_metered_as_configured(device, metered):
    assert device.read(Condition.UNMETERED, metered=metered).value is (Answer.NO if metered else Answer.YES)


@pytest.mark.parametrize(("per_core", "answer"), [(0.1, Answer.YES), (0.69, Answer.YES), (0.8, Answer.NO)])
def test_load(device, per_core, answer):
    device.load(per_core * CORES)
    assert device.read(Condition.IDLE).value is answer


def test_without_a_load_average_idleness_is_unknown(device):
    (device.root / "proc/loadavg").unlink()
    assert device.read(Condition.IDLE).value is Answer.UNKNOWN


def test_our_own_training_is_not_somebody_elses_load(device):
    conditions = device.conditions()
    for second in range(300):
        device.now_s, device.processor_s = float(second), float(second) * CORES
        device.load(CORES * (1 - 2.718 ** (-second / 60)))
        assert conditions.read()[Condition.IDLE].value is Answer.YES
    device.load(2.0 * CORES)
    assert conditions.read()[Condition.IDLE].value is Answer.NO


@pytest.mark.parametrize(("idle_s", "answer"), [(10, Answer.NO), (61, Answer.YES)])
@pytest.mark.parametrize("name", ["tty1", "pts/0"])
def test_a_terminal_that_was_typed_on(device, name, idle_s, answer):
    device.terminal(name, 1_000_000.0 - idle_s)
    device.terminal("tty", 1_000_000.0)
    assert device.read(Condition.IDLE).value is answer


def test_typing_on_our_own_keyboard_is_use(device):
    conditions = device.conditions()
    assert conditions.read()[Condition.IDLE].value is Answer.YES
    device.typing.note()
    assert conditions.read()[Condition.IDLE].value is Answer.NO
    device.now_s += 61
    assert conditions.read()[Condition.IDLE].value is Answer.YES


def test_garbage_everywhere_is_unknown_and_never_raises(device):
    device.supply("BAT0", type="Battery", status="\x00", capacity="many", temp="warm", present="perhaps")
    device.zone(0, "hot")
    (device.root / "proc/loadavg").write_text("")
    readings = device.conditions().read()
    assert {c for c, r in readings.items() if r.value is Answer.UNKNOWN} == {
        Condition.CHARGING,
        Condition.BATTERY_HIGH,
        Condition.COOL,
        Condition.IDLE,
    }


def test_this_machine_can_be_read():
    assert set(SystemConditions(limits(), TypingActivity()).read()) == set(Condition) - {Condition.HAS_EXAMPLES}
