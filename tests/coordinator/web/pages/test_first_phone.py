"""Before the first phone: the commands that bring one, with an address at which it finds this machine, and a claim."""

import base64
import json
import re
import subprocess
import sys

import pytest
from msgspec import structs

from nightjar.coordinator.access import Role
from nightjar.coordinator.config import EnrolmentConfig, TransportSecurity
from nightjar.coordinator.rounds.lease import Lease
from nightjar.coordinator.web.pages.first_phone import first_phone, own_address
from nightjar.wire.identifiers import DeviceId
from tests.coordinator.web.conftest import DESKTOP, PHONE, Served
from tests.coordinator.web.test_api import Service
from tests.coordinator.web.test_in_a_browser import axe  # noqa: F401 - a fixture
from tests.coordinator.web.test_login import OURS, log_in


@pytest.fixture
def service(tmp_path):
    made = Service(tmp_path, transport=TransportSecurity.TLS)
    made.open_issuer(tmp_path)
    with made.database.connection() as tx:
        tx.exec_driver_sql("DELETE FROM devices")
    yield made
    made.database.close()


@pytest.mark.parametrize(
    ("host", "names", "address", "url", "alone"),
    [
        ("127.0.0.1", (), "192.168.1.5", "https://127.0.0.1:8080", True),
        ("0.0.0.0", (), "192.168.1.5", "https://192.168.1.5:8080", False),
        ("::", (), "192.168.1.5", "https://192.168.1.5:8080", False),
        ("0.0.0.0", ("pi.example",), "192.168.1.5", "https://pi.example:8080", False),
        ("10.9.9.9", (), "192.168.1.5", "https://10.9.9.9:8080", False),
    ],
)
def test_a_phone_is_told_an_address_that_leads_here(service, host, names, address, url, alone):
    config = structs.replace(service.ports.config, host=host, enrolment=EnrolmentConfig(names=names))
    found = first_phone(config, address)
    assert (found.url, found.alone) == (url, alone)
    assert f"--url {url} " in found.make


def test_a_machine_without_a_network_is_told_by_its_name(service):
    config = structs.replace(service.ports.config, host="0.0.0.0")
    assert first_phone(config, "").url.startswith("https://")
    assert "0.0.0.0" not in first_phone(config, "").url
    assert own_address() == "" or re.fullmatch(r"[\d.]+", own_address())


@pytest.mark.parametrize("path", ["/", "/devices"])
def test_whoever_looks_reads_the_two_commands_and_an_admin_makes_the_claim_there(service, path):
    page = service.ask("GET", path).text
    phone = first_phone(service.ports.config)
    assert f"<code>{phone.make}</code>" in page
    assert "<code>nightjar-agent enrol --config agent.toml --claim phone-1.json &amp;&amp; nightjar-agent run" in page
    assert "Make its claim" not in page
    browser, _ = log_in(service, Role.ADMIN)
    assert "Make its claim" in browser.get(path).text
    answer = browser.post("/claims", data={"device": "phone-1"}, headers=OURS)
    assert answer.status_code == 201
    saved = re.search(r'download="phone-1.json" href="data:application/json;base64,([^"]+)"', answer.text)[1]
    claim = json.loads(base64.b64decode(saved))
    assert claim["url"] == phone.url
    assert phone.url in answer.text
    assert "nightjar-agent enrol --config agent.toml --claim phone-1.json" in answer.text
    (kept,) = service.ports.issuer.register.claims()
    assert (kept.name, kept.device) == ("phone-1", "phone-1")
    again = browser.post("/claims", data={"device": "phone-1"}, headers=OURS)
    assert again.status_code == 409
    assert 'name="device" maxlength="64" placeholder="one device by its name" autocomplete="off" value="phone-1"' in (
        again.text
    )


def test_the_commands_are_commands(service):
    """Their options exist; what they then do is tested where they are."""
    phone = first_phone(service.ports.config)
    for line in (phone.make, *phone.use("phone-1").split(" && ")):
        program, *words = line.split()
        package = {"nightjar-coordinator": "nightjar.coordinator", "nightjar-agent": "nightjar.edge_agent"}[program]
        called = [sys.executable, "-m", package, *words, "--help"]
        done = subprocess.run(called, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert all(each in done.stdout for each in words if each.startswith("--"))


def test_a_device_that_was_only_named_is_not_the_first(service):
    with service.database.transaction() as tx:
        tx.save_lease(Lease(device=DeviceId("phone-1"), labels="kitchen"))
    assert "No phone has been here yet" in service.ask("GET", "/").text
    with service.database.transaction() as tx:
        tx.save_lease(Lease(device=DeviceId("phone-1"), state="offline", last_seen_s=1.0))
    service.app.extensions["census"]._latest = None
    assert "No phone has been here yet" not in service.ask("GET", "/").text


@pytest.mark.browser
@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["wide", "narrow"])
def test_the_first_page_of_an_admin_is_accessible_and_leads_to_the_code(look, axe, tmp_path, viewport):  # noqa: F811
    served = Served(tmp_path, lived=False, enrols=True)
    with served.service.database.connection() as tx:
        tx.exec_driver_sql("DELETE FROM devices")
    with served.on():
        page = look(served, "/", Role.ADMIN, viewport)
        assert axe.run(page).violations_count == 0
        assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]
        page.get_by_role("button", name="Make its claim").click()
        assert page.get_by_role("img", name="QR code").bounding_box()["width"] > 200
        assert axe.run(page).violations_count == 0
        assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]
    served.close()
