import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.firmware_scripts.core.devices import MAX_DEVICES, parse_lsblk
from nightjar.wire.errors import RemoteProtocolError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["name", "children", "size", "rm", "x"]), inner),
    max_leaves=20,
)


@pytest.mark.parametrize(
    "text",
    ["", "null", "[]", "{}", '{"blockdevices": 3}', '{"blockdevices": [3]}', '{"blockdevices": [{"size": 1}]}',
     '{"blockdevices": [{"name": "sda", "children": "x"}]}', '{"blockdevices":' + "[" * 100_000],
)  # fmt: skip
def test_what_lsblk_would_never_print_is_refused(text):
    with pytest.raises(RemoteProtocolError):
        parse_lsblk(text)


@given(JSON)
def test_any_json_gives_devices_or_a_refusal(value):
    try:
        devices = parse_lsblk(json.dumps({"blockdevices": [value]}))
    except RemoteProtocolError:
        return
    for device in devices.by_name.values():
        assert device.name
        assert device.size_bytes is None or device.size_bytes >= 0


@pytest.mark.slow
def test_more_devices_than_any_machine_has_are_refused():
    many = [{"name": f"sd{n}"} for n in range(MAX_DEVICES + 1)]
    with pytest.raises(RemoteProtocolError):
        parse_lsblk(json.dumps({"blockdevices": many}))


def test_a_deep_chain_of_children_is_followed_to_its_disk():
    device = {"name": "top"}
    for depth in range(200):
        device = {"name": f"d{depth}", "children": [device]}
    devices = parse_lsblk(json.dumps({"blockdevices": [device]}))
    assert "d199" in devices.under("top")


def test_devices_that_claim_to_be_their_own_parents_do_not_hang_us():
    devices = parse_lsblk(json.dumps({"blockdevices": [{"name": "a", "pkname": "b"}, {"name": "b", "pkname": "a"}]}))
    assert devices.under("a") == {"a", "b"}
    assert devices.whole() == ()


def test_numbers_and_flags_of_old_versions_are_text():
    old = {"name": "sda", "size": "31914983424", "rm": "1", "ro": "0", "maj:min": "  8:0  "}
    device = parse_lsblk(json.dumps({"blockdevices": [old]})).by_name["sda"]
    assert (device.size_bytes, device.removable, device.read_only, device.number) == (31914983424, True, False, "8:0")


@pytest.mark.parametrize("size", [None, True, -1, 1.5, "1e9", "", "9" * 30, [], {}])
def test_a_size_that_is_no_number_of_bytes_is_unknown(size):
    assert parse_lsblk(json.dumps({"blockdevices": [{"name": "a", "size": size}]})).by_name["a"].size_bytes is None


@pytest.mark.parametrize("flag", [None, 0, 1, "yes", [], 1.0])
def test_a_flag_that_is_no_flag_is_unknown(flag):
    assert parse_lsblk(json.dumps({"blockdevices": [{"name": "a", "rm": flag}]})).by_name["a"].removable is None
