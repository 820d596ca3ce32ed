"""The page of enrolment: who waits, claims and keys, and what its buttons leave in the register and the audit log."""

import base64
import html
import json
import re

import pytest
from msgspec.structs import replace

from nightjar.coordinator.access import Role
from nightjar.coordinator.enrolment.certificate_issuer import claim_hash
from nightjar.coordinator.enrolment.claims import Claim, ClaimRefused, KeyState
from nightjar.coordinator.versions.rollout import Rollout, Stage
from tests.coordinator.web.conftest import DESKTOP, PHONE, Served
from tests.coordinator.web.test_api import NOW_S, Service
from tests.coordinator.web.test_in_a_browser import axe  # noqa: F401 - a fixture
from tests.coordinator.web.test_roles import OURS

KEY, OTHER = 64 * "a", 64 * "b"
SHELF = Claim(
    name="shelf", sha256=claim_hash("shelf"), prefix="pi", uses=20, uses_left=20, approval=True, created_s=NOW_S,
    expires_s=NOW_S * 2,
)  # fmt: skip


class Office:
    """A coordinator with a claim by hand and a key that waits; asked with a token."""

    def __init__(self, folder) -> None:
        self.service = Service(folder, unlimited=True)
        self.register = self.service.open_issuer(folder)
        self.register.add_claim(SHELF, "test")
        self.register.redeem(SHELF.sha256, KEY, "", "192.0.2.7", self.service.world.clock.now_s())
        self.tokens = {role: self.service.token(role, f"{role.value}-anna") for role in Role}

    def get(self, path="/enrolments", role=Role.ADMIN) -> str:
        answer = self.service.ask("GET", path, self.tokens[role])
        assert answer.status_code == 200
        return answer.text

    def post(self, path, **form):
        headers = {**OURS, "Authorization": f"Bearer {self.tokens[Role.ADMIN]}"}
        with self.service.client.post(path, data=form, headers=headers) as answer:
            answer.get_data()
        return answer

    def newest_change(self) -> tuple:
        with self.service.database.transaction() as tx:
            (entry,) = tx.audit(1)
        return entry.who, entry.action, entry.target, entry.before, entry.after


@pytest.fixture
def issuer(tmp_path):
    made = Office(tmp_path)
    yield made
    made.service.database.close()


def test_without_certificates_the_page_says_that_nobody_enrols(tmp_path):
    service = Service(tmp_path)
    page = service.ask("GET", "/enrolments", service.token(Role.OPERATOR))
    assert "does not enrol devices" in page.text
    service.database.close()


def test_every_page_says_that_somebody_waits_and_the_page_says_who(issuer):
    assert "1 waiting" in issuer.get("/devices", Role.OPERATOR)
    assert "waiting</span>" not in issuer.get("/devices", Role.VIEWER), "who may not look at the list"
    page = issuer.get(role=Role.OPERATOR)
    assert all(said in page for said in ("pi-aaaaaaaa", "192.0.2.7", "shelf", "takes an admin's token"))
    assert "Let in</button>" not in page


def test_the_page_of_a_device_says_its_standing_and_what_to_do(issuer):
    assert "enrolment approve pi-aaaaaaaa" in html.unescape(issuer.get("/devices/pi-aaaaaaaa", Role.VIEWER))
    issuer.post(f"/enrolments/{KEY}/refuse", sure="yes")
    page = issuer.get("/devices/pi-aaaaaaaa")
    assert "enrol-token create" in page
    assert "Forget it" not in page, "it is forgotten"


def test_the_page_of_a_device_says_which_version_it_reports_though_another_has_the_same_weights(issuer):
    with issuer.service.database.transaction() as tx:
        first = tx.version(0)
        rolled_back = Rollout(stage=Stage.ROLLED_BACK)
        tx.add_version(replace(first, version=1, task="a", rollout=rolled_back))
        tx.add_version(replace(first, version=2, task="b"))
        tx.save_lease(replace(tx.lease("a"), weights="f" * 64, version=1))
    page = issuer.get("/devices/a", Role.VIEWER)
    assert "version 1</a> of a, rolled back" in page
    assert "of b" not in page


def test_an_admin_lets_a_device_in_and_it_stands_in_the_log(issuer):
    assert "Let pi-aaaaaaaa in" in issuer.get()
    assert issuer.post(f"/enrolments/{KEY}/approve").status_code == 303
    assert issuer.register.credential(KEY).standing is KeyState.GRANTED
    assert issuer.newest_change() == ("admin-anna", "approve", "pi-aaaaaaaa", "waiting", "granted")
    assert "1 waiting" not in issuer.get()
    assert issuer.post(f"/enrolments/{KEY}/approve").status_code == 404, "it does not wait any more"


def test_an_admin_refuses_a_device_and_it_stands_in_the_log(issuer):
    assert issuer.post(f"/enrolments/{KEY}/refuse", sure="yes").status_code == 303
    assert issuer.register.credential(KEY).standing is KeyState.REVOKED
    assert issuer.newest_change() == ("admin-anna", "refuse", "pi-aaaaaaaa", "waiting", "revoked")
    assert isinstance(issuer.register.redeem(SHELF.sha256, KEY, "", "", NOW_S), ClaimRefused)


def test_a_claim_that_was_made_on_the_page_is_told_once_and_lets_its_device_in(issuer):
    made = issuer.post("/claims", name="kitchen", device="pi-kitchen", prefix="device", uses="1", hours="2")
    assert made.status_code == 201
    saved = re.search(r'href="data:application/json;base64,([^"]+)"', made.text)[1]
    carried = json.loads(base64.b64decode(saved))
    assert set(carried) == {"claim", "url", "authority"}
    assert "<svg" in made.text
    assert carried["claim"] not in issuer.get()
    assert issuer.newest_change() == ("admin-anna", "create-claim", "kitchen", "none", "1 to let in")
    now_s = issuer.service.world.clock.now_s()
    verdict = issuer.register.redeem(claim_hash(carried["claim"]), OTHER, "", "192.0.2.8", now_s)
    assert (verdict.device, verdict.standing) == ("pi-kitchen", KeyState.GRANTED)
    assert issuer.post("/claims", name="kitchen", uses="1", hours="2").status_code == 409
    approved = issuer.post("/claims", name="hall", prefix="pi", uses="3", hours="0.5", approval="true")
    assert approved.status_code == 201
    assert {each.name: each.approval for each in issuer.register.claims()} == {
        "hall": True,
        "kitchen": False,
        "shelf": True,
    }


@pytest.mark.parametrize("wrong", [{"uses": "0"}, {"hours": "x"}, {"device": "pi/1"}, {"more": "1"}, {"name": ""}])
def test_a_claim_that_cannot_be_is_refused_and_nothing_is_made(issuer, wrong):
    assert issuer.post("/claims", **{"name": "new", "uses": "1", "hours": "2", **wrong}).status_code in {404, 422}
    assert [each.name for each in issuer.register.claims()] == ["shelf"]


def test_a_revoked_claim_lets_nobody_in_any_more(issuer):
    assert issuer.post("/claims/shelf/revoke", sure="yes").status_code == 303
    assert issuer.newest_change() == ("admin-anna", "revoke-claim", "shelf", "19 to let in", "none")
    assert isinstance(issuer.register.redeem(SHELF.sha256, OTHER, "", "", NOW_S), ClaimRefused)
    assert issuer.post("/claims/shelf/revoke", sure="yes").status_code == 404


def test_a_device_is_forgotten_from_its_page_or_from_the_list_of_keys(issuer):
    assert "Forget it" in issuer.get("/devices/a")
    assert "Forget it" not in issuer.get("/devices/a", Role.OPERATOR)
    issuer.register.decide(KEY, "test", NOW_S, approved=True)
    assert "Forget pi-aaaaaaaa" in issuer.get()
    assert issuer.post("/devices/pi-aaaaaaaa/forget", sure="yes").status_code == 303
    assert issuer.register.credential(KEY).standing is KeyState.REVOKED
    assert issuer.newest_change() == ("admin-anna", "revoke", "pi-aaaaaaaa", "enrolled", "revoked")
    assert "Forget pi-aaaaaaaa" not in issuer.get()


def test_keys_are_listed_page_by_page(issuer):
    for number in range(70):
        issuer.register.renew(claim_hash(str(number)), f"pi-{number}", "", "", NOW_S - 1 - number // 2)
    seen, path = [], "/enrolments"
    while path:
        page = issuer.get(path)
        seen += re.findall(r'<td[^>]* class="hash">(\w{16})</td>', page.split('id="keys"')[1])
        older = re.search(r'href="(/enrolments\?[^"]+)">Older', page)
        path = older and older[1].replace("&amp;", "&")
    assert sorted(seen) == sorted([KEY[:16], *(claim_hash(str(number))[:16] for number in range(70))])


@pytest.fixture
def waited_for(tmp_path):
    """A coordinator behind an address, with a device that waits."""
    served = Served(tmp_path, lived=False, enrols=True)
    register = served.service.ports.issuer.register
    register.add_claim(SHELF, "test")
    register.redeem(SHELF.sha256, KEY, "", "192.0.2.7", served.service.world.clock.now_s())
    with served.on():
        yield served
    served.close()


@pytest.mark.browser
def test_a_person_makes_a_claim_and_lets_a_device_in_with_the_keyboard_alone(waited_for, look, axe):  # noqa: F811
    for scheme, viewport in (("light", DESKTOP), ("dark", PHONE)):
        page = look(waited_for, "/enrolments", Role.ADMIN, viewport, color_scheme=scheme)
        assert axe.run(page).violations_count == 0
        page.get_by_label("Name of the claim").fill(f"claim-{scheme}")
        page.keyboard.press("Enter")
        page.get_by_text("it is shown this once").wait_for()
        with page.expect_download() as saved:
            page.get_by_role("link", name="Save the claim file").click()
        assert saved.value.suggested_filename == f"claim-{scheme}.json"
        assert json.loads(saved.value.path().read_text()).keys() == {"claim", "url", "authority"}
        assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]
        assert page.get_by_role("img", name="QR code").bounding_box()["width"] > 200
        found = axe.run(page)
        assert found.violations_count == 0, found.generate_report()
    page.goto(waited_for.url + "/enrolments")
    page.get_by_role("button", name="Let pi-aaaaaaaa in").focus()
    page.keyboard.press("Enter")
    page.get_by_text("Nobody. Devices wait only").wait_for()
    register = waited_for.service.ports.issuer.register
    assert register.credential(KEY).standing is KeyState.GRANTED
    assert {each.name for each in register.claims()} == {"claim-dark", "claim-light", "shelf"}
