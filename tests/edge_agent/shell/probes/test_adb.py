import pytest

from nightjar.edge_agent.core.eligibility import Answer, Condition
from nightjar.edge_agent.shell.probes.adb import Adb, phone_from
from nightjar.wire.errors import UnavailableError
from tests.edge_agent.shell.probes.fake_device import settled

BATTERY = """Current Battery Service state:
  AC powered: true
  USB powered: false
  Wireless powered: false
  Max charging current: 0
  status: 2
  health: 2
  present: true
  level: 90
  scale: 100
  voltage: 4200
  temperature: 281
  technology: Li-ion
"""
SAID = {
    "battery": BATTERY,
    "deviceidle": "ACTIVE\n",
    "power": "POWER MANAGER (dumpsys power)\n\nPower Manager State:\n  mWakefulness=Asleep\n",
    "netstats": (
        "Active interfaces:\n  iface=rmnet0 ident=[{type=MOBILE, metered=true, defaultNetwork=false}]\n"
        '  iface=wlan0 ident=[{type=WIFI, networkId="x", metered=false, defaultNetwork=true}]\n'
    ),
    "thermalservice": "IsStatusOverride: false\nThermal Status: 0\n",
}


def phone(programs, **changes):
    def dumpsys(command):
        assert command[:3] == ("adb", "-s", "serial-7")
        said = (SAID | changes)[command[5]]
        if isinstance(said, Exception):
            raise said
        return said

    programs.answers["adb"] = dumpsys
    return settled(Adb("serial-7", 0.3, 45.0, programs))


def test_a_phone_that_may_train(programs):
    readings = phone(programs)
    assert {reading.value for reading in readings.values()} == {Answer.YES}
    assert {reading.source for reading in readings.values()} == {"adb serial-7"}


@pytest.mark.parametrize(
    ("changes", "condition", "answer"),
    [
        ({"battery": BATTERY.replace("AC powered: true", "AC powered: false")}, Condition.CHARGING, Answer.NO),
        ({"battery": BATTERY.replace("status: 2", "status: 3")}, Condition.CHARGING, Answer.NO),
        ({"battery": BATTERY.replace("status: 2", "status: 5")}, Condition.CHARGING, Answer.YES),
        ({"battery": BATTERY.replace("status: 2", "status: 4")}, Condition.CHARGING, Answer.YES),
        ({"battery": BATTERY.replace("level: 90", "level: 29")}, Condition.BATTERY_HIGH, Answer.NO),
        ({"battery": BATTERY.replace("level: 90", "level: 0")}, Condition.BATTERY_HIGH, Answer.UNKNOWN),
        ({"battery": BATTERY.replace("temperature: 281", "temperature: 460")}, Condition.COOL, Answer.NO),
        ({"battery": "nothing known"}, Condition.CHARGING, Answer.UNKNOWN),
        ({"thermalservice": "Thermal Status: 2"}, Condition.COOL, Answer.NO),
        ({"thermalservice": "Thermal Status: 1"}, Condition.COOL, Answer.YES),
        ({"thermalservice": "Can't find service: thermalservice"}, Condition.COOL, Answer.YES),
        ({"power": "  mWakefulness=Awake"}, Condition.IDLE, Answer.NO),
        ({"power": "  mWakefulness=Dozing"}, Condition.IDLE, Answer.YES),
        ({"power": "  mWakefulness=Awake", "deviceidle": "IDLE\n"}, Condition.IDLE, Answer.YES),
        ({"power": UnavailableError("slow"), "deviceidle": UnavailableError("slow")}, Condition.IDLE, Answer.UNKNOWN),
        ({"netstats": SAID["netstats"].replace("metered=false, d", "metered=true, d")}, Condition.UNMETERED, Answer.NO),
        ({"netstats": "Active interfaces:\n"}, Condition.UNMETERED, Answer.UNKNOWN),
    ],
)
def test_condition(programs, changes, condition, answer):
    assert phone(programs, **changes)[condition].value is answer


def test_a_phone_that_pretends_says_so(programs):
    pretended = BATTERY.replace("state:\n", "state:\n  (UPDATES STOPPED -- use 'reset' to restart)\n")
    assert "dumpsys battery reset" in phone(programs, battery=pretended)[Condition.CHARGING].source


def test_a_phone_that_went_away_is_unknown_and_why(programs):
    readings = phone(programs, battery=UnavailableError("adb ended with status 1: device 'serial-7' not found"))
    assert {reading.value for reading in readings.values()} == {Answer.UNKNOWN}
    assert "not found" in readings[Condition.CHARGING].reason


def test_hostile_output_never_raises():
    for text in ("", "\x00" * 1000, "level: 99999999999999999999", "status: 77\nscale: 0\nlevel: 5"):
        found = phone_from(text, text, text, text, text)
        assert (found.plugged, found.awake, found.metered) == (None, None, None)
