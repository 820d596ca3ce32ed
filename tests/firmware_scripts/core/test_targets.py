import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.firmware_scripts.core.rules import CAN_BE_ALLOWED, Rule
from nightjar.firmware_scripts.core.targets import MachineState, judge, judge_all, parse_machine
from tests.firmware_scripts.make_machines import MACHINES

FOLDER = Path(__file__).parents[1] / "machines"
IN_USE = {rule for rule in Rule if rule.startswith(("holds-", "held-"))} | {Rule.MOUNTED, Rule.SWAP, Rule.ROOT_UNKNOWN}


def described(name):
    folder = FOLDER / name
    return parse_machine(*((folder / file).read_text() for file in ("lsblk.json", "mountinfo", "swaps")))


def rules(machine):
    return {v.device.path: sorted({reason.rule.value for reason in v.reasons}) for v in judge_all(machine)}


def machines():
    return sorted(folder.name for folder in FOLDER.iterdir())


@pytest.mark.parametrize("name", machines())
def test_a_described_machine_is_judged_as_expected(name):
    expected = json.loads((FOLDER / name / "expected.json").read_text())
    assert rules(described(name)) == {target["path"]: target["rules"] for target in expected["targets"]}
    assert all(target["allowed"] == (not target["rules"]) for target in expected["targets"])


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_a_made_machine_is_on_disk_as_the_generator_writes_it(name):
    for file, text in MACHINES[name].files().items():
        assert (FOLDER / name / file).read_text(encoding="utf-8") == text, "run make_machines.py"


def test_there_are_forty_machines_and_every_rule_of_a_disk_refuses_one():
    assert len(machines()) >= 40
    named = {rule for name in machines() for found in rules(described(name)).values() for rule in found}
    # Partitions and mapped devices are in no list of disks; the rest is found when a disk is opened.
    elsewhere = {
        "is-partition", "is-mapped", "not-listed", "too-small", "sector-size", "busy", "no-permission", "changed",
        "not-a-target",
    }  # fmt: skip
    assert named == {rule.value for rule in Rule} - elsewhere


def test_a_partition_and_a_mapped_device_are_refused_when_somebody_names_them():
    machine = described("lvm-root")
    named = {d.name: {r.rule for r in judge(machine, d).reasons} for d in machine.devices.by_name.values()}
    assert {Rule.IS_PARTITION, Rule.HOLDS_BOOT} <= named["sda1"]
    assert {Rule.IS_MAPPED, Rule.HOLDS_ROOT} <= named["dm-1"]
    assert Rule.IS_PARTITION in named["sdb2"]


@pytest.mark.parametrize("name", machines())
def test_no_disk_in_use_could_be_allowed_by_name(name):
    for verdict in judge_all(described(name)):
        found = {reason.rule for reason in verdict.reasons}
        if found & IN_USE:
            assert found - CAN_BE_ALLOWED


@pytest.mark.parametrize("name", machines())
def test_a_mount_more_never_allows_a_disk(name):
    machine = described(name)
    before = {v.device.path for v in judge_all(machine) if v.allowed}
    fewer = MachineState(machine.devices, machine.mounts[:1] + machine.mounts, machine.swaps)
    assert {v.device.path for v in judge_all(fewer) if v.allowed} <= before


@given(st.data())
def test_a_mount_of_any_device_refuses_every_disk_under_it(data):
    machine = described(data.draw(st.sampled_from(machines())))
    device = data.draw(st.sampled_from(sorted(machine.devices.by_name.values(), key=lambda d: d.name)))
    from nightjar.firmware_scripts.core.mounts import Mount

    busier = MachineState(
        machine.devices, (Mount(device.number, "/x", "ext4", "x", ""), *machine.mounts), machine.swaps
    )
    refused = {v.device.name: {r.rule for r in v.reasons} for v in judge_all(busier)}
    for name in machine.devices.under(device.name):
        assert Rule.MOUNTED in refused.get(name, {Rule.MOUNTED})


def test_reasons_hold_nothing_that_a_terminal_obeys():
    text = (FOLDER / "card-mounted-by-desktop" / "lsblk.json").read_text().replace("sdb1", "sd\\u001b[2Jb1")
    mounts = (FOLDER / "card-mounted-by-desktop" / "mountinfo").read_text().replace("bootfs", "\\033]0;x\\007")
    for verdict in judge_all(parse_machine(text, mounts, "Filename\n")):
        assert all(reason.text.isprintable() for reason in verdict.reasons)
