"""Every route of the application and every role: who can do what. A route that is not listed here fails the test."""

import re

import pytest

from nightjar.coordinator.access import Role
from tests.coordinator.web.test_api import Service

EVERYBODY, DEVICES = "everybody", "devices"
WHO = [None, Role.VIEWER, Role.OPERATOR, Role.ADMIN]

ROUTES = {
    ("GET", "/"): Role.VIEWER,
    ("GET", "/rounds"): Role.VIEWER,
    ("GET", "/rounds/<int:number>"): Role.VIEWER,
    ("GET", "/devices"): Role.VIEWER,
    ("GET", "/devices/<name>"): Role.VIEWER,
    ("POST", "/devices/<name>/block"): Role.OPERATOR,
    ("POST", "/devices/<name>/labels"): Role.OPERATOR,
    ("POST", "/devices/<name>/unblock"): Role.OPERATOR,
    ("GET", "/models"): Role.VIEWER,
    ("GET", "/models/<int:number>"): Role.VIEWER,
    ("POST", "/models/<int:number>/promote"): Role.OPERATOR,
    ("POST", "/models/<int:number>/take-back"): Role.OPERATOR,
    ("GET", "/releases"): Role.VIEWER,
    ("POST", "/releases/<version>"): Role.OPERATOR,
    ("GET", "/tuf/<name>"): EVERYBODY,
    ("GET", "/tasks"): Role.VIEWER,
    ("POST", "/tasks"): Role.OPERATOR,
    ("GET", "/tasks/<name>"): Role.VIEWER,
    ("POST", "/tasks/<name>/pause"): Role.OPERATOR,
    ("POST", "/tasks/<name>/resume"): Role.OPERATOR,
    ("POST", "/tasks/<name>/stop"): Role.OPERATOR,
    ("POST", "/devices/<name>/forget"): Role.ADMIN,
    ("GET", "/enrolments"): Role.OPERATOR,
    ("POST", "/enrolments/<key>/approve"): Role.ADMIN,
    ("POST", "/enrolments/<key>/refuse"): Role.ADMIN,
    ("POST", "/claims"): Role.ADMIN,
    ("POST", "/claims/<name>/revoke"): Role.ADMIN,
    ("GET", "/audit"): Role.OPERATOR,
    ("GET", "/tokens"): Role.ADMIN,
    ("POST", "/tokens"): Role.ADMIN,
    ("POST", "/tokens/<name>/revoke"): Role.ADMIN,
    ("GET", "/live"): Role.VIEWER,
    ("GET", "/login"): EVERYBODY,
    ("POST", "/login"): EVERYBODY,
    ("POST", "/logout"): EVERYBODY,
    ("GET", "/static/<path:filename>"): EVERYBODY,
    ("GET", "/healthz"): EVERYBODY,
    ("GET", "/artifacts/<sha256>"): EVERYBODY,
    ("GET", "/programs/<sha256>"): EVERYBODY,
    ("GET", "/api/v1/counters"): Role.VIEWER,
    ("GET", "/metrics"): Role.VIEWER,
    ("GET", "/docs/openapi.json"): Role.VIEWER,
    ("GET", "/api/v1/tasks"): Role.VIEWER,
    ("GET", "/api/v1/tasks/<name>"): Role.VIEWER,
    ("POST", "/api/v1/tasks"): Role.OPERATOR,
    ("POST", "/api/v1/tasks/<name>/pause"): Role.OPERATOR,
    ("POST", "/api/v1/tasks/<name>/resume"): Role.OPERATOR,
    ("POST", "/api/v1/tasks/<name>/stop"): Role.OPERATOR,
    ("GET", "/api/v1/rounds"): Role.VIEWER,
    ("GET", "/api/v1/rounds/<int:number>"): Role.VIEWER,
    ("GET", "/api/v1/versions"): Role.VIEWER,
    ("GET", "/api/v1/baselines"): Role.VIEWER,
    ("GET", "/api/v1/releases"): Role.VIEWER,
    ("GET", "/api/v1/releases/<version>"): Role.VIEWER,
    ("POST", "/api/v1/releases/<version>"): Role.OPERATOR,
    ("GET", "/api/v1/versions/<int:number>"): Role.VIEWER,
    ("POST", "/api/v1/versions/<int:number>/promote"): Role.OPERATOR,
    ("POST", "/api/v1/versions/rollback"): Role.OPERATOR,
    ("GET", "/api/v1/devices"): Role.VIEWER,
    ("GET", "/api/v1/devices/<name>"): Role.VIEWER,
    ("POST", "/api/v1/devices/<name>/block"): Role.OPERATOR,
    ("POST", "/api/v1/devices/<name>/labels"): Role.OPERATOR,
    ("POST", "/api/v1/devices/<name>/unblock"): Role.OPERATOR,
    ("POST", "/api/v1/devices/<name>/forget"): Role.ADMIN,
    ("GET", "/api/v1/label-rules"): Role.VIEWER,
    ("POST", "/api/v1/label-rules"): Role.OPERATOR,
    ("DELETE", "/api/v1/label-rules/<label>"): Role.OPERATOR,
    ("GET", "/api/v1/audit"): Role.OPERATOR,
    ("GET", "/api/v1/tokens"): Role.ADMIN,
    ("POST", "/api/v1/tokens"): Role.ADMIN,
    ("DELETE", "/api/v1/tokens/<name>"): Role.ADMIN,
    ("GET", "/api/v1/claims"): Role.OPERATOR,
    ("POST", "/api/v1/claims"): Role.ADMIN,
    ("DELETE", "/api/v1/claims/<name>"): Role.ADMIN,
    ("POST", "/api/v1/enrolment"): EVERYBODY,
    ("POST", "/api/v1/enrolment/expired"): EVERYBODY,
    ("GET", "/api/v1/enrolment/self"): DEVICES,
    ("POST", "/api/v1/enrolment/self"): DEVICES,
    ("GET", "/api/v1/enrolments"): Role.OPERATOR,
    ("POST", "/api/v1/enrolments/<key>/approve"): Role.ADMIN,
    ("POST", "/api/v1/enrolments/<key>/refuse"): Role.ADMIN,
}
VALUES = {
    "number": "0",
    "name": "a",
    "sha256": "0" * 64,
    "filename": "nightjar.css",
    "key": "0" * 64,
    "version": "0.2.0",
    "label": "small",
}
BODIES = {
    "pause": {"reason": "night"},
    "stop": {"reason": "enough"},
    "block": {"reason": "odd"},
    "tasks": {"name": "second"},
    "tokens": {"name": "new", "role": "viewer"},
    "label-rules": {"label": "small"},
    "<version>": {"action": "start", "reason": "new"},
}
OURS = {"Sec-Fetch-Site": "same-origin"}


def address(rule: str) -> str:
    return re.sub(r"<(?:\w+:)?(\w+)>", lambda found: VALUES[found[1]], rule)


def test_the_table_of_routes_is_complete(tmp_path):
    service = Service(tmp_path)
    found = {
        (method, rule.rule)
        for rule in service.app.url_map.iter_rules()
        for method in rule.methods - {"HEAD", "OPTIONS"}
    }
    service.database.close()
    assert found == set(ROUTES)


@pytest.fixture(scope="module")
def services(tmp_path_factory):
    """A coordinator that shows nothing to strangers, and a token of each role."""
    service = Service(tmp_path_factory.mktemp("roles"), unlimited=True, public_reading=False)
    yield service, {role: service.token(role) for role in WHO}
    service.database.close()


@pytest.mark.parametrize("role", WHO, ids=lambda role: role.value if role else "nobody")
@pytest.mark.parametrize(("method", "rule"), ROUTES, ids=lambda value: value)
def test_a_role_can_do_exactly_what_it_may(services, method, rule, role):
    service, tokens = services
    service.posted.clear()
    headers = dict(OURS)
    if role is not None:
        headers["Authorization"] = f"Bearer {tokens[role]}"
    body = BODIES.get(rule.rsplit("/", 1)[1], {})
    options = {} if method == "GET" else {"json": body} if rule.startswith("/api") else {"data": body}
    with service.client.open(address(rule), method=method, headers=headers, **options) as answer:
        if rule != "/live":  # it goes on and on
            answer.get_data()
    wanted = ROUTES[method, rule]
    refused = answer.status_code in {401, 403}
    if wanted is EVERYBODY or (isinstance(wanted, Role) and role is not None and role.may(wanted)):
        assert not refused or rule == "/login", answer.text
    else:
        assert answer.status_code == (403 if isinstance(wanted, Role) and role is not None else 401)
        assert not service.posted


@pytest.mark.parametrize("rule", sorted(rule for method, rule in ROUTES if method == "POST" and "/api/" not in rule))
def test_every_form_is_taken_from_a_page_of_ours_only(services, rule):
    service, tokens = services
    service.posted.clear()
    headers = {"Authorization": f"Bearer {tokens[Role.ADMIN]}", "Sec-Fetch-Site": "cross-site"}
    body = BODIES.get(rule.rsplit("/", 1)[1], {})
    answer = service.client.post(address(rule), data=body, headers=headers)
    assert (answer.status_code, service.posted) == (403, [])
    assert "not sent from a page" in answer.text


@pytest.mark.parametrize("rule", sorted(rule for method, rule in ROUTES if method == "GET" and "/api/" not in rule))
def test_a_person_who_may_not_look_is_asked_to_log_in_and_a_program_is_told_so(services, rule):
    service, _ = services
    if isinstance(ROUTES["GET", rule], Role):
        answer = service.client.get(address(rule))
        for_programs = rule in {"/metrics", "/docs/openapi.json"}
        assert answer.content_type == ("application/problem+json" if for_programs else "text/html; charset=utf-8")


@pytest.mark.parametrize("role", WHO[1:], ids=lambda role: role.value)
def test_a_browser_that_is_logged_in_may_what_its_token_may_and_no_more(services, role):
    service, tokens = services
    browser = service.app.test_client()
    logged_in = browser.post("/login", data={"token": tokens[role], "back": "/audit"}, headers=OURS)
    assert (logged_in.status_code, logged_in.headers["Location"]) == (303, "/audit")
    for (method, rule), wanted in ROUTES.items():
        if method == "GET" and isinstance(wanted, Role) and rule != "/live":
            answer = browser.get(address(rule))
            assert (answer.status_code in {401, 403}) == (not role.may(wanted)), rule


def test_a_role_that_nobody_wrote_down_is_not_handed_out(services):
    """A view that says nothing takes a viewer's token at least."""
    service, _ = services
    for rule in service.app.url_map.iter_rules():
        view = service.app.view_functions[rule.endpoint]
        marked = hasattr(view, "needs") or hasattr(view, "open_to_all") or hasattr(view, "for_devices")
        known = rule.endpoint in {
            "health",
            "static",
            "artifact",
            "signed_program",
            "release_metadata",
            "prometheus",
            "openapi_docs",
        }
        assert marked or known, rule
