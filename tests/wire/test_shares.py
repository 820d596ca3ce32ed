import hashlib
import json
from pathlib import Path

import pytest

from nightjar.wire.identifiers import DeviceId
from nightjar.wire.shares import is_canary, share_of

GOLDEN = Path(__file__).parents[1] / "vectors" / "v1"
VECTORS = json.loads((GOLDEN / "shares.json").read_text())
CANARIES = json.loads((GOLDEN / "canaries.json").read_text())
MANIFEST = "5" * 64


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{vector['division']}-{vector['device']}")
def test_a_device_falls_where_it_always_fell(vector):
    assert share_of(vector["division"], DeviceId(vector["device"])) == int(vector["bits"], 16) / 2**53


def test_shares_are_in_range_and_differ():
    places = {share_of("x", DeviceId(f"d{number}")) for number in range(1000)}
    assert len(places) == 1000
    assert all(0 <= place < 1 for place in places)


@pytest.mark.parametrize("vector", CANARIES, ids=lambda v: f"{v['manifest'][:4]}-{v['device'][:14]}")
def test_golden_canaries(vector):
    drawn = hashlib.sha256(f"{vector['manifest']}\0{vector['device']}".encode()).digest()[:8]
    assert drawn.hex() == vector["drawn"]
    for share, expected in vector["tries"].items():
        assert is_canary(vector["device"], vector["manifest"], float(share)) is expected


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
def test_the_share_of_the_devices_is_kept(share):
    among = sum(is_canary(f"phone-{i}", MANIFEST, share) for i in range(10_000))
    assert abs(among - 10_000 * share) < 4 * (10_000 * share * (1 - share)) ** 0.5


def test_a_larger_share_takes_nobody_out():
    devices = [f"phone-{i}" for i in range(500)]
    few = {device for device in devices if is_canary(device, MANIFEST, 0.1)}
    assert few < {device for device in devices if is_canary(device, MANIFEST, 0.3)}


def test_another_version_is_tried_by_others():
    devices = [f"phone-{i}" for i in range(1000)]
    one, other = ({d for d in devices if is_canary(d, manifest, 0.2)} for manifest in ("1" * 64, "2" * 64))
    assert 0 < len(one & other) < 80
