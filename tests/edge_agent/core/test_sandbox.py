"""What is open without a sandbox: told of every setting that our units have, and of nothing else."""

import re
from pathlib import Path

import pytest

from nightjar.edge_agent.core.sandbox import PROTECTIONS, lacking, open_without_systemd, unit_of, wanted

ROOT = Path(__file__).parents[3]
SYSTEM = ROOT / "edge_agent" / "nightjar-agent.service"
PERSON = ROOT / "firmware_scripts" / "debian" / "nightjar-agent.service"
# Settings of a sandbox whose loss opens nothing by itself, or that are for errors and limits.
OTHERS = {"AmbientCapabilities", "SystemCallErrorNumber", "RemoveIPC", "KeyringMode", "RestrictPreventExitStatus"}
SANDBOX = re.compile(r"^((?:Protect|Private|Restrict|Lock|Memory|SystemCall|Capability|NoNew|DeviceP)\w+)=(.*)$", re.M)


def settings(unit):
    """As systemd shows them: a list that is given in several lines is one."""
    found = {name: value for name, value in SANDBOX.findall(unit.read_text()) if name not in {*OTHERS, "MemoryMax"}}
    return found | {"SystemCallFilter": "read write"}


@pytest.mark.parametrize(("unit", "of_a_person"), [(SYSTEM, False), (PERSON, True)])
def test_our_units_lack_nothing_and_without_any_setting_the_words_name_it(unit, of_a_person):
    shown = settings(unit)
    assert lacking(shown, of_a_person=of_a_person) == ()
    assert shown.keys() == wanted(of_a_person=of_a_person).keys()
    lists = {"SystemCallFilter", "RestrictAddressFamilies"}
    for name in shown:
        lost = "" if name in lists else "cap_sys_admin" if name == "CapabilityBoundingSet" else "no"
        (missing,) = lacking({**shown, name: lost}, of_a_person=of_a_person)
        assert f"{name}=" in missing
        assert any(missing.startswith(each.open) for each in PROTECTIONS)


def test_a_list_that_only_forbids_and_a_systemd_that_knows_nothing_of_a_setting_are_no_sandbox():
    shown = settings(SYSTEM)
    assert lacking(shown | {"SystemCallFilter": "~ptrace"}, of_a_person=False)
    assert lacking({name: value for name, value in shown.items() if value}, of_a_person=False) == ()
    assert len(lacking({}, of_a_person=False)) == len(PROTECTIONS)


def test_beside_a_persons_unit_is_open_what_only_the_systems_closes():
    beside = set(open_without_systemd(of_a_person=True))
    assert beside == {each.open for each in PROTECTIONS if each.of_the_system and not each.of_a_person}
    assert beside < set(open_without_systemd())


@pytest.mark.parametrize(
    "cgroups", ["", "0::/", "1:name=systemd:/user.slice\n", "0::/a.service/../x\0.service", "0::/user@7.service"]
)
def test_no_service_is_named_where_there_is_none(cgroups):
    assert unit_of(cgroups) is None
