import pytest

from nightjar.edge_agent.core.eligibility import Answer, Condition
from nightjar.edge_agent.shell.probes.power import Power

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
        ({"BAT0": BATTERY | {"status": "Full"}, "AC": MAINS_OFF}, Answer.NO),  # unplugged a moment ago
        ({"BAT0": BATTERY | {"status": "Full"}}, Answer.YES),
        ({"BAT0": BATTERY | {"status": "Charging"}}, Answer.YES),
        ({"BAT0": BATTERY | {"status": "Discharging"}, "AC": MAINS_OFF}, Answer.NO),
        ({"BAT0": BATTERY | {"status": "Not charging"}, "AC": MAINS_ON}, Answer.YES),  # a charge limit
        ({"BAT0": BATTERY | {"status": "Not charging"}, "AC": MAINS_OFF}, Answer.NO),
        ({"BAT0": BATTERY | {"status": "Discharging"}, "usb": {"type": "USB", "online": 1}}, Answer.NO),  # too weak
        ({"BAT0": BATTERY | {"status": "Charging"}, "usb": {"type": "USB_C", "online": 1}}, Answer.YES),
        ({"BAT0": BATTERY | {"status": "Not charging"}, "usb": {"type": "USB_PD", "online": 2}}, Answer.YES),
        ({"BAT0": BATTERY | {"status": "Unknown"}}, Answer.UNKNOWN),
        ({"BAT0": BATTERY | {"status": "Unknown"}, "AC": MAINS_ON}, Answer.YES),
        ({"BAT0": BATTERY | {"status": "Unknown"}, "AC": MAINS_OFF}, Answer.NO),
        ({"BAT0": BATTERY}, Answer.UNKNOWN),
        ({"BAT0": BATTERY | {"status": "Charging", "present": 0}, "AC": MAINS_OFF}, Answer.YES),  # an empty bay
        (
            {"BAT0": BATTERY | {"status": "Full"}, "BAT1": BATTERY | {"status": "Discharging"}, "AC": MAINS_OFF},
            Answer.NO,
        ),
        (
            {"BAT0": BATTERY | {"status": "Not charging"}, "BAT1": BATTERY | {"status": "Charging"}, "AC": MAINS_ON},
            Answer.YES,
        ),
        ({"hidpp_battery_0": MOUSE, "BAT0": BATTERY | {"status": "Charging"}, "AC": MAINS_ON}, Answer.YES),
    ],
)
def test_charging(tree, supplies, answer):
    for name, entries in supplies.items():
        tree.supply(name, **entries)
    reading = Power(tree.root, 0.3)()[Condition.CHARGING]
    assert reading.value is answer
    assert reading.reason
    assert reading.source


def test_no_power_information_at_all_is_unknown_unless_the_configuration_knows(tree):
    (tree.root / "sys/class/power_supply").rmdir()
    unknown = Power(tree.root, 0.3)()
    assert {reading.value for reading in unknown.values()} == {Answer.UNKNOWN}
    assert "conditions.always_powered" in unknown[Condition.CHARGING].reason
    known = Power(tree.root, 0.3, always_powered=True)()
    assert {reading.value for reading in known.values()} == {Answer.YES}


@pytest.mark.parametrize(
    ("capacities", "answer"),
    [([], Answer.YES), ([30], Answer.YES), ([29], Answer.NO), ([0], Answer.UNKNOWN), ([90, 20], Answer.YES)],
)
def test_battery_level(tree, capacities, answer):
    tree.supply("mouse", **MOUSE)
    for number, capacity in enumerate(capacities):
        tree.supply(f"BAT{number}", type="Battery", status="Charging", capacity=capacity)
    assert Power(tree.root, 0.3)()[Condition.BATTERY_HIGH].value is answer


def test_garbage_is_unknown_and_never_raises(tree):
    tree.supply("BAT0", type="Battery", status="\x00", capacity="many", temp="warm", present="perhaps")
    assert {reading.value for reading in Power(tree.root, 0.3)().values()} == {Answer.UNKNOWN}
