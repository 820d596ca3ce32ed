"""Claim, key, certificate, first connection: with a real coordinator, and cut off at every step."""

import json

import pytest
import urllib3
from msgspec import structs

from nightjar.coordinator.storage.signing_key import load_signer
from nightjar.coordinator.tls.authority import Authority
from nightjar.edge_agent.enrolment import enrolling, keys
from nightjar.edge_agent.enrolment.enrolling import EnrolmentRefused, enrol, refreshed, renewed
from nightjar.edge_agent.enrolment.identity import CREDENTIAL, FOLDER, NEXT_KEY, held_identity, keep
from nightjar.wire.errors import UnavailableError
from tests.enrolment.world import Device, World

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with World(tmp_path_factory.mktemp("world"), "embedded") as found:
        yield found


def test_a_device_with_a_claim_gets_a_certificate_and_its_card_is_wiped(world, tmp_path):
    claim = world.claim("kitchen", device="pi-kitchen")
    secret = json.loads(claim.read_text())["claim"]
    user_data = tmp_path / "user-data"
    user_data.write_text(f"#cloud-config\nwrite_files: [{{content: '{secret}'}}]\nhostname: kitchen\n")
    done = enrol(tmp_path, claim, [user_data])
    assert (done.identity.device, done.identity.population, done.anew) == ("pi-kitchen", "demo", True)
    assert done.identity.coordinator_key == load_signer(world.config.data_dir).public
    assert not claim.exists()
    assert secret not in user_data.read_text()
    assert "hostname: kitchen" in user_data.read_text()
    assert world.standings()["pi-kitchen"] == ["active"]
    assert [each["target"] for each in world.audit("burn-claim")] == ["kitchen"]
    assert oct((tmp_path / FOLDER / CREDENTIAL).stat().st_mode & 0o777) == "0o600"
    assert not (tmp_path / FOLDER / NEXT_KEY).exists()
    assert secret not in world.log()
    assert not enrol(tmp_path, claim).anew  # again does no harm, though the claim is gone


def test_people_on_this_machine_may_look_without_certificates_and_nothing_more(world):
    assert world.config.page_url == f"http://127.0.0.1:{world.config.page_port}"

    def status(path):
        return urllib3.request("GET", world.config.page_url + path, timeout=10, retries=False).status

    assert status("/") == 200
    assert status("/api/v1/enrolment/self") == 401


def test_the_coordinator_names_devices_of_a_claim_for_several(world, tmp_path):
    claim = world.claim("shelf", prefix="pi", uses=2)
    kept = claim.read_bytes()
    names = set()
    for board in ("one", "two"):
        claim.write_bytes(kept)
        names.add(enrol(tmp_path / board, claim).identity.device)
    assert len(names) == 2
    assert all(name.startswith("pi-") for name in names)
    claim.write_bytes(kept)
    with pytest.raises(EnrolmentRefused, match="used by another key"):
        enrol(tmp_path / "three", claim)


class Cut(Exception):  # noqa: N818 - what happened, not what is wrong
    """The power."""


STEPS = ["next_key", "_ask", "keep", "refreshed", "remove_claim_file"]


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_a_device_that_loses_power_at_any_step_is_enrolled_once(world, tmp_path, monkeypatch, step, before):
    name = f"cut-{step.strip('_')}-{'before' if before else 'after'}".replace("_", "-")
    claim = world.claim(name, device=name)
    module = keys if step == "next_key" else enrolling
    whole = getattr(module, step)

    def cut(*arguments):
        if not before:
            whole(*arguments)
        raise Cut

    monkeypatch.setattr(module, step, cut)
    with pytest.raises(Cut):
        enrol(tmp_path, claim)
    monkeypatch.setattr(module, step, whole)
    done = enrol(tmp_path, claim)
    assert done.identity.device == name
    assert world.standings()[name] == ["active"]
    assert Device(world, tmp_path).request("GET", "/api/v1/enrolment/self").status == 200
    assert not claim.exists()


def test_a_stolen_claim_is_worth_nothing_once_its_device_was_there_and_is_audited(world, tmp_path):
    claim = world.claim("copied", device="pi-copied")
    stolen = tmp_path / "stolen.json"
    stolen.write_bytes(claim.read_bytes())
    enrol(tmp_path / "rightful", claim)
    with pytest.raises(EnrolmentRefused, match="used by another key"):
        enrol(tmp_path / "thief", stolen)
    assert held_identity(tmp_path / "thief") is None
    assert world.audit("refuse-claim")[0]["who"] == "claim copied"
    assert world.audit("refuse-claim")[0]["before"] == "claim-used"


def test_a_burnt_claim_is_refused_to_its_own_key_as_well(world, tmp_path, monkeypatch):
    claim = world.claim("replayed", device="pi-replayed")
    sent = []
    ask = enrolling._ask
    monkeypatch.setattr(enrolling, "_ask", lambda *request: sent.append(request) or ask(*request))
    enrol(tmp_path, claim)
    replay = next(request for request in sent if request[1] == "POST")
    with pytest.raises(EnrolmentRefused, match="in use"):
        ask(*replay)
    assert world.audit("refuse-claim")[0]["before"] == "claim-burnt"


@pytest.mark.parametrize(
    ("wanted", "said"),
    [({"hours": 1e-9}, "too old"), (None, "no such claim")],
    ids=["expired", "revoked"],
)
def test_an_old_or_revoked_claim_is_refused_and_audited(world, tmp_path, wanted, said):
    name = "old" if wanted else "revoked"
    claim = world.claim(name, **(wanted or {}))
    if wanted is None:
        world.ask("DELETE", f"/claims/{name}")
    with pytest.raises(EnrolmentRefused, match=said):
        enrol(tmp_path, claim)
    assert world.audit("refuse-claim")
    assert claim.exists()  # it may say to a person which one it was


def test_a_person_lets_a_device_in(world, tmp_path):
    claim = world.claim("by-hand", device="pi-by-hand", approval=True)
    for _ in range(2):
        with pytest.raises(UnavailableError, match="let it in"):
            enrol(tmp_path, claim)
    assert world.standings()["pi-by-hand"] == ["waiting"]
    (waiting,) = [each for each in world.ask("GET", "/enrolments")["items"] if each["device"] == "pi-by-hand"]
    world.ask("POST", f"/enrolments/{waiting['key']}/approve", {})
    assert enrol(tmp_path, claim).identity.device == "pi-by-hand"


def test_a_person_does_not_let_a_device_in(world, tmp_path):
    claim = world.claim("by-hand-no", device="pi-unwanted", approval=True)
    with pytest.raises(UnavailableError):
        enrol(tmp_path, claim)
    (waiting,) = [each for each in world.ask("GET", "/enrolments")["items"] if each["device"] == "pi-unwanted"]
    world.ask("POST", f"/enrolments/{waiting['key']}/refuse", {})
    with pytest.raises(EnrolmentRefused, match="revoked or refused"):
        enrol(tmp_path, claim)


def test_a_card_that_was_written_anew_ends_what_its_device_had_before(world, tmp_path):
    before = world.enrolled("pi-again")
    enrol(tmp_path, world.claim("second-card", device="pi-again"))
    assert sorted(world.standings()["pi-again"]) == ["active", "revoked"]
    assert before.request("GET", "/api/v1/enrolment/self").status == 403
    assert Device(world, tmp_path).request("GET", "/api/v1/enrolment/self").status == 200


def test_a_forgotten_device_comes_back_with_a_new_claim_only(world):
    device = world.enrolled("pi-forgotten")
    world.ask("POST", "/devices/pi-forgotten/forget", {})
    with pytest.raises(EnrolmentRefused, match="revoked"):
        enrol(device.data_dir, device.data_dir / "no-claim")
    assert enrol(device.data_dir, world.claim("welcome-back", device="pi-forgotten")).anew


def test_somebody_else_at_the_coordinators_address_gets_no_claim(world, tmp_path):
    claim = world.claim("misled", device="pi-misled")
    other = Authority(tmp_path / "other").certificates()[0]
    document = json.loads(claim.read_text()) | {"authority": other}
    claim.write_text(json.dumps(document))
    with pytest.raises(UnavailableError, match="its certificate is not accepted"):
        enrol(tmp_path / "device", claim)
    assert "pi-misled" not in world.standings()


def test_a_certificate_is_renewed_when_it_is_time_and_the_old_one_counts_until_it_ends(world):
    device = world.enrolled("pi-renewed")
    before, old = device.identity, device.context()
    assert not renewed(device.data_dir, before.renew_s - 1)
    assert before.renew_s == pytest.approx(before.expires_s - 30 * 86400, abs=5)
    assert renewed(device.data_dir, before.renew_s)
    assert world.standings()["pi-renewed"] == ["active", "active"]
    assert device.context().get_ca_certs() == old.get_ca_certs()
    assert device.request("GET", "/api/v1/enrolment/self").status == 200


@pytest.mark.parametrize("step", ["next_key", "_ask", "keep", "refreshed"])
def test_a_renewal_that_is_cut_off_is_made_good(world, monkeypatch, step):
    name = f"pi-cut-renewal-{step.strip('_').replace('_', '-')}"
    device = world.enrolled(name)
    due_s = device.identity.renew_s
    module = keys if step == "next_key" else enrolling
    whole = getattr(module, step)
    calls = []

    def cut(*arguments):
        calls.append(arguments)
        done = whole(*arguments)
        if step != "_ask" or arguments[1] == "POST":
            raise Cut
        return done

    monkeypatch.setattr(module, step, cut)
    with pytest.raises(Cut):
        renewed(device.data_dir, due_s)
    monkeypatch.setattr(module, step, whole)
    renewed(device.data_dir, due_s)
    assert set(world.standings()[name]) == {"active"}
    assert len(world.standings()[name]) <= 3  # the second call may find the new one due as well
    assert device.request("GET", "/api/v1/enrolment/self").status == 200


def test_the_owners_key_comes_with_the_claim_and_with_nothing_that_the_coordinator_says_later(world, tmp_path):
    claim = world.claim("owned", device="pi-owned")
    said = json.loads(claim.read_text())
    claim.write_text(json.dumps(said | {"owner_key": "ab" * 32}))
    assert enrol(tmp_path, claim).identity.owner_key == "ab" * 32
    held = held_identity(tmp_path)
    assert refreshed(tmp_path, held).owner_key == "ab" * 32
    keep(tmp_path, structs.replace(held, owner_key=""), None)
    assert refreshed(tmp_path, held_identity(tmp_path)).owner_key == ""
