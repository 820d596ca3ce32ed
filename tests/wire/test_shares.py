import json
from pathlib import Path

import pytest

from wire.canary import is_canary
from wire.identifiers import DeviceId, Sha256
from wire.shares import share_of

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "v1" / "shares.json").read_text())


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{vector['division']}-{vector['device']}")
def test_a_device_falls_where_it_always_fell(vector):
    assert share_of(vector["division"], DeviceId(vector["device"])) == int(vector["bits"], 16) / 2**53


def test_shares_are_in_range_and_differ():
    places = {share_of("x", DeviceId(f"d{number}")) for number in range(1000)}
    assert len(places) == 1000
    assert all(0 <= place < 1 for place in places)


@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
def test_a_canary_is_a_share_like_any_other(share):
    manifest = Sha256("5" * 64)
    for number in range(200):
        device = DeviceId(f"d{number}")
        assert is_canary(device, manifest, share) == (share_of(manifest, device) < share)
