from coordinator.core.lease import Lease, checked_in, heard, status_changed
from wire.identifiers import DeviceId
from wire.messages import CheckIn, Status

LEASE = Lease(device=DeviceId("a"), last_seen_s=10.0)


def test_a_check_in_tells_what_the_device_holds():
    message = CheckIn(agent_version="0.1.0", runtime="none", examples=7, emulated=True, weights="0" * 64)
    lease = checked_in(LEASE, message, 20.0)
    assert (lease.online, lease.last_seen_s, lease.examples, lease.emulated) == (True, 20.0, 7, True)
    assert lease.weights == "0" * 64


def test_a_status_is_a_sign_of_life_unless_the_broker_had_kept_it():
    status = Status(online=True, state="training", reason="round 3")
    assert status_changed(LEASE, status, 20.0, retained=False).last_seen_s == 20.0
    kept = status_changed(LEASE, status, 20.0, retained=True)
    assert (kept.last_seen_s, kept.state, kept.reason) == (10.0, "training", "round 3")


def test_a_last_will_is_no_sign_of_life():
    lease = status_changed(heard(LEASE, 20.0), Status(online=False), 30.0, retained=False)
    assert (lease.online, lease.state, lease.last_seen_s) == (False, "offline", 20.0)
