"""Every route, asked with every kind of device credential: all denied but what a device is for."""

import dataclasses

import pytest

from nightjar.coordinator.config import TransportSecurity
from nightjar.coordinator.enrolment.certificate_issuer import CertificateIssuer
from nightjar.coordinator.enrolment.claims import Claim, Credential, KeyState
from nightjar.coordinator.enrolment.register import Register
from nightjar.coordinator.tls.authority_process import Unsigned
from nightjar.coordinator.tls.front import SERIAL
from nightjar.coordinator.web.app import create_app
from nightjar.wire.errors import UnavailableError
from tests.coordinator.web.test_api import NOW_S, Service

CREDENTIALS = ["none", "claim", "claim as password", "unknown", "revoked", "blocked", "waiting", "valid"]
FOR_EVERYBODY = {"health", "static", "static_file", "api.enrol", "api.renew_expired"}
FOR_DEVICES = {"artifact", "signed_program", "release_metadata", "api.myself", "api.renew"}
DENIED = {401, 403}
CLAIM = "njc_" + 43 * "x"


class NoSigner:
    def ask(self, question):
        raise UnavailableError(f"nobody signs {Unsigned.__name__} here")


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    made = Service(tmp_path_factory.mktemp("service"), transport=TransportSecurity.TLS, public_reading=False)
    register = Register(made.database)
    register.add_claim(
        Claim(name="c", sha256=64 * "0", uses=5, uses_left=5, created_s=0.0, expires_s=NOW_S * 2), "test"
    )
    for number, standing in enumerate(KeyState):
        _hold(register, made, standing, number)
    _hold(register, made, KeyState.ACTIVE, 9, device="kept-out")
    made.ports.post(_blocked("kept-out"))
    issuer = CertificateIssuer(made.ports.config, register, NoSigner(), made.ports.clock, "ab" * 32)
    app = create_app(dataclasses.replace(made.ports, issuer=issuer))
    app.extensions["limiter"].pop().enabled = False
    made.app, made.client = app, app.test_client()
    yield made
    made.database.close()


def _blocked(device):
    from nightjar.coordinator.records.inbox import Operated
    from nightjar.coordinator.tasks.operations import BlockDevice

    return Operated(BlockDevice(device, "test"), "test", lambda _done: None)


def _hold(register, made, standing, number, device="") -> None:
    import sqlalchemy as sa
    from msgspec import structs

    from nightjar.coordinator.storage.tables import credentials

    held = Credential(
        key=f"{number:064d}",
        device=device or f"device-{standing.value}",
        claim="c",
        standing=standing,
        csr="",
        serial=str(1000 + number),
        address="192.0.2.1",
        requested_s=NOW_S,
        expires_s=NOW_S * 2,
    )
    with made.database.connection() as tx:
        tx.execute(sa.insert(credentials).values({**structs.asdict(held), "standing": standing.value}))


def serial_of(credential: str) -> str:
    numbers = {standing.value: number for number, standing in enumerate(KeyState)}
    known = {"unknown": 77, "valid": numbers["active"], "blocked": 9, **numbers}
    return str(1000 + known[credential]) if credential in known else ""


def routes(app):
    for rule in app.url_map.iter_rules():
        path = rule.rule
        for argument in rule.arguments:
            converter = "int:" if f"<int:{argument}>" in path else ""
            filling = {"sha256": 64 * "0", "key": 64 * "0"}.get(argument, "1" if converter else "a")
            path = path.replace(f"<{converter}{argument}>", filling).replace(f"<path:{argument}>", "a.css")
        for method in sorted(rule.methods - {"HEAD", "OPTIONS"}):
            yield rule.endpoint, method, path


@pytest.mark.parametrize("credential", CREDENTIALS)
def test_every_route_is_denied_but_those_that_are_for_devices(service, credential):
    opened = {}
    for endpoint, method, path in routes(service.app):
        headers = {"Authorization": f"Bearer {CLAIM}"} if credential == "claim" else {}
        auth = ("any", CLAIM) if credential == "claim as password" else None
        with service.client.open(
            path, method=method, headers=headers, auth=auth, json={}, environ_overrides={SERIAL: serial_of(credential)}
        ) as answer:
            if answer.status_code not in DENIED:
                opened[endpoint] = answer.status_code
    allowed = FOR_EVERYBODY | (FOR_DEVICES if credential == "valid" else set())
    assert set(opened) - {"login", "sign_in", "pages.login"} <= allowed
    assert set(opened) >= {"health", "api.enrol"} | (FOR_DEVICES if credential == "valid" else set())


def test_a_route_cannot_be_opened_by_a_header_that_says_who_somebody_is(service):
    for name in ("Nightjar-Serial", "nightjar.serial", "X-SSL-Client-Serial", "Remote-Port"):
        with service.client.get(f"/artifacts/{64 * '0'}", headers={name: serial_of("valid")}) as answer:
            assert answer.status_code == 401


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/x-www-form-urlencoded"])
def test_an_enrolment_that_is_no_json_is_refused_in_words(service, content_type):
    answer = service.client.post("/api/v1/enrolment", data=b"claim=x", content_type=content_type)
    assert answer.status_code == 415
    assert "application/json" in answer.json["detail"]
    assert service.client.post("/api/v1/enrolment", data=b"[]", content_type="application/json").status_code == 422
