import pytest

from nightjar.coordinator.access import Role
from nightjar.coordinator.web.admission import REFUSALS_PER_MINUTE
from tests.coordinator.web.test_api import HOUR_S, Service

OURS = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def service(tmp_path):
    made = Service(tmp_path, public_reading=False)
    yield made
    made.database.close()


def log_in(service, role=Role.OPERATOR, **options):
    browser = service.app.test_client()
    answer = browser.post("/login", data={"token": service.token(role), **options}, headers=OURS)
    assert answer.status_code == 303
    return browser, answer


def test_a_page_asks_for_a_token_and_leads_back_to_itself(service):
    answer = service.ask("GET", "/rounds?phase=abandoned")
    assert answer.status_code == 401
    assert 'name="back" value="/rounds?phase=abandoned"' in answer.text
    _, answer = log_in(service, back="/rounds?phase=abandoned")
    assert answer.headers["Location"] == "/rounds?phase=abandoned"


def test_the_cookie_is_for_us_alone_and_does_not_hold_the_token(service):
    _, answer = log_in(service)
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith("nightjar=")
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "nj_" not in cookie


def test_over_tls_the_cookie_is_only_for_tls(service):
    data = {"token": service.token(Role.VIEWER)}
    answer = service.app.test_client().post("/login", data=data, headers=OURS, base_url="https://x")
    assert "Secure" in answer.headers["Set-Cookie"]


def test_a_token_that_ends_or_is_revoked_ends_what_the_browser_may(service):
    browser, _ = log_in(service)
    assert browser.get("/audit").status_code == 200
    service.tokens.remove("operator", "test", service.world.clock.now_s())
    assert browser.get("/audit").status_code == 401
    browser, _ = log_in(service, Role.ADMIN)
    service.world.clock.time_s += HOUR_S
    assert browser.get("/audit").status_code == 401


def test_another_process_knows_no_cookie_of_the_last(service, tmp_path):
    browser, answer = log_in(service)
    other = Service(tmp_path / "other", public_reading=False)
    value = answer.headers["Set-Cookie"].split(";")[0]
    assert other.app.test_client().get("/audit", headers={"Cookie": value}).status_code == 401
    other.database.close()
    assert browser.post("/logout", headers=OURS).status_code == 303
    assert browser.get("/audit").status_code == 401


@pytest.mark.parametrize(
    ("headers", "taken"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Origin": "http://localhost"}, True),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost"}, False),
        ({"Origin": "https://elsewhere.example"}, False),
        ({"Origin": "null"}, False),
        ({}, False),
    ],
    ids=str,
)
def test_a_form_is_taken_from_a_page_of_ours_only(service, headers, taken):
    browser, _ = log_in(service)
    answer = browser.post("/devices/a/block", data={"reason": "odd"}, headers=headers)
    assert answer.status_code == (303 if taken else 403)
    with service.database.transaction() as tx:
        assert tx.lease("a").blocked == ("odd" if taken else "")


def test_the_cookie_opens_no_form_of_another_page_to_the_api(service):
    browser, _ = log_in(service)
    answer = browser.post("/api/v1/devices/a/block", data='{"reason": "odd"}', content_type="text/plain")
    assert answer.status_code == 415


def test_a_wrong_token_is_said_and_who_guesses_is_slowed_down(service):
    def guess():
        return service.client.post("/login", data={"token": "nj_x"}, headers=OURS)

    assert "This token is not known" in guess().text
    statuses = [guess().status_code for _ in range(REFUSALS_PER_MINUTE)]
    assert (statuses[0], statuses[-1]) == (401, 429)


@pytest.mark.parametrize("back", ["//elsewhere.example", "https://elsewhere.example", "/\\elsewhere.example", "x\n"])
def test_nobody_is_led_elsewhere(service, back):
    assert log_in(service, back=back)[1].headers["Location"] == "/"
