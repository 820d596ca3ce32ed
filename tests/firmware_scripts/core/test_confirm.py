from dataclasses import replace

import pytest

from nightjar.firmware_scripts.core.confirm import differences, phrase, serial_objection, typed_matches
from nightjar.firmware_scripts.core.devices import parse_lsblk

CARD = parse_lsblk(
    '{"blockdevices": [{"name": "sdb", "maj:min": "8:16", "size": 31914983424, "model": "SD Reader", "serial": "12"}]}'
).by_name["sdb"]
TWIN = replace(CARD, name="sdc", path="/dev/sdc", number="8:32", serial="13")
EMPTY_SLOT = replace(CARD, name="sdd", path="/dev/sdd", size_bytes=0)


def test_model_and_size_are_typed():
    assert phrase(CARD, [CARD, EMPTY_SLOT]) == "SD Reader 31.9 GB"


def test_of_two_disks_that_look_the_same_the_name_is_typed_too():
    assert phrase(CARD, [CARD, TWIN]) == "SD Reader 31.9 GB sdb"
    assert phrase(TWIN, [CARD, TWIN]) == "SD Reader 31.9 GB sdc"


def test_a_disk_without_a_model_is_typed_by_its_name():
    assert phrase(replace(CARD, model=""), [CARD]) == "sdb 31.9 GB"


@pytest.mark.parametrize("typed", ["", "y", "yes", "SD Reader", "31.9 GB", "SD Reader 32 GB", "sdb"])
def test_nothing_short_of_the_phrase_confirms(typed):
    assert not typed_matches(typed, phrase(CARD, [CARD]))


def test_what_is_typed_can_be_typed():
    hostile = replace(CARD, model="\x1b[2JCard\nx")
    assert phrase(hostile, [hostile]).isprintable()


def test_the_serial_confirms():
    assert serial_objection(CARD, "12", [CARD, TWIN]) is None


@pytest.mark.parametrize(
    ("device", "expected", "disks"),
    [
        (CARD, "13", [CARD]),
        (CARD, "", [CARD]),
        (replace(CARD, serial=""), "", [CARD]),
        (CARD, "12", [CARD, replace(TWIN, serial="12")]),
    ],
)
def test_a_serial_that_is_wrong_missing_or_shared_confirms_nothing(device, expected, disks):
    assert serial_objection(device, expected, disks)


def test_an_empty_slot_of_the_same_reader_shares_its_serial_and_does_no_harm():
    assert serial_objection(CARD, "12", [CARD, EMPTY_SLOT]) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [("serial", "x"), ("model", "x"), ("size_bytes", 1), ("number", "8:99"), ("wwn", "x"), ("sequence", "7")],
)
def test_a_disk_that_changed_is_not_the_one_that_was_confirmed(field, value):
    changed = replace(CARD, **{field: value})
    assert differences(CARD, changed) == (field,)


def test_a_disk_that_did_not_change_is_the_one():
    assert differences(CARD, replace(CARD, mount_points=("/x",))) == ()
