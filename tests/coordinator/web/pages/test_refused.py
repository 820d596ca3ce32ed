"""Forms that are refused: whatever refuses them, the answer is their page with what was typed."""

import dataclasses
import html
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.coordinator.access import Role
from nightjar.coordinator.enrolment.claims import Claim
from nightjar.coordinator.versions.releases import Release
from nightjar.coordinator.versions.rollout import Rollout, Stage
from nightjar.coordinator.web.admission import REFUSALS_PER_MINUTE
from nightjar.coordinator.web.app import create_app
from nightjar.coordinator.web.pages.refused import MOST_KEPT, filled_in
from nightjar.wire.errors import UnavailableError
from tests.coordinator.web.test_api import Service
from tests.coordinator.web.test_login import OURS, log_in

PAGES = ["/tasks", "/tasks/keyboard", "/devices/a", "/models/0", "/enrolments", "/tokens", "/releases"]
NOT_KEPT = {"pages.log_in", "pages.log_out"}
"""A token is not sent back, and there is nothing to type before leaving."""


class Forms(HTMLParser):
    """The forms of a page: action -> control -> value, as a browser would send them, without hidden ones."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: dict[str, dict[str, str]] = {}
        self.kinds: dict[tuple[str, str], str] = {}
        self.choices: dict[tuple[str, str], list[str]] = {}
        self._action = self._select = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        here = dict(attrs)
        if tag == "form" and here.get("method") == "post":
            self._action = here["action"]
            self.found.setdefault(self._action, {})
        elif tag == "input" and here.get("name", "sure") != "sure" and self._action and here.get("type") != "hidden":
            self.kinds[self._action, here["name"]] = here.get("type", "text")
            if here.get("type") != "checkbox" or "checked" in here:
                self.found[self._action][here["name"]] = here.get("value", "")
        elif tag == "select" and self._action:
            self._select = here["name"]
            self.kinds[self._action, self._select] = "select"
        elif tag == "option" and self._action:
            self._chosen = "selected" in here
            self._value = here.get("value")

    def handle_data(self, data):
        if self._select and data.strip():
            value = data.strip() if self._value is None else self._value
            self.choices.setdefault((self._action, self._select), []).append(value)
            if self._chosen:
                self.found[self._action][self._select] = value

    def handle_endtag(self, tag):
        if tag == "form":
            self._action = ""
        elif tag == "select":
            self._select = ""


def typed(forms, action):
    """Other values than those that the page proposes."""
    values = {}
    for (of, name), kind in forms.kinds.items():
        if of == action:
            values[name] = {
                "number": "17",
                "checkbox": "true",
                "select": forms.choices.get((of, name), [""])[-1],
            }.get(kind, f"typed <{name}> & \"more\" 'words'")
    return values


@pytest.fixture
def service(tmp_path):
    made = Service(tmp_path, public_reading=False)
    made.open_issuer(tmp_path)
    yield made
    made.database.close()


def all_forms(browser):
    for page in PAGES:
        answer = browser.get(page)
        assert answer.status_code == 200, page
        forms = Forms(answer.text)
        for action in forms.found:
            if action != "/logout":
                yield page, action, typed(forms, action)


def following(service, leader="the other host"):
    """The application on a host that does not lead: it refuses every change."""
    app = create_app(dataclasses.replace(service.ports, leader=lambda: leader))
    app.secret_key = service.app.secret_key
    return app


def heading(page):
    return re.search("<h1.*?</h1>", page, re.DOTALL)[0]


def test_a_viewer_whose_form_is_refused_does_not_see_a_page_for_administrators(service):
    viewer, _ = log_in(service, Role.VIEWER)
    assert viewer.get("/tokens").status_code == 403
    answer = viewer.post("/tokens", data={"name": "x"}, headers=OURS)
    assert (answer.status_code, heading(answer.text)) == (403, "<h1>Not for this token</h1>")


def test_a_stranger_who_asks_too_often_sees_no_page(tmp_path):
    """The rate limit refuses before it is asked who sends the form."""
    made = Service(tmp_path, public_reading=False)
    stranger = made.app.test_client()
    answers = (stranger.post("/tokens", data={"name": "x"}, headers=OURS) for _ in range(10 * REFUSALS_PER_MINUTE))
    answer = next(each for each in answers if each.status_code == 429)
    made.database.close()
    assert heading(answer.text) == "<h1>Too often</h1>"


def test_every_form_says_on_which_page_it_is(service):
    for rule in service.app.url_map.iter_rules():
        if rule.endpoint.startswith("pages.") and "POST" in rule.methods and rule.endpoint not in NOT_KEPT:
            page = service.app.view_functions[rule.endpoint].form_on
            (shown,) = service.app.url_map.iter_rules(f"pages.{page}")
            assert shown.arguments <= rule.arguments


def test_every_form_keeps_what_was_typed_whatever_refuses_it(service):
    browser, _ = log_in(service, Role.ADMIN)
    cookie = browser.get_cookie("nightjar").value
    follower = following(service).test_client()
    follower.set_cookie("nightjar", cookie)
    tried = 0
    for page, action, values in all_forms(browser):
        answer = follower.post(action, data=values, headers=OURS)
        assert answer.status_code == 503
        assert Forms(answer.text).found[action] == values, (page, action)
        assert "Only the other host makes changes now" in answer.text
        assert "live.js" not in answer.text, "it would fetch the address of the form"
        assert "refresh" not in answer.text
        tried += len(values)
        if any("<" in value for value in values.values()):  # most take no such characters
            answer = browser.post(action, data=values, headers=OURS)
            assert answer.status_code in {303, 404, 409, 422}, action
            if answer.status_code != 303:
                assert Forms(answer.text).found[action] == values, (page, action)
    assert tried > 15


def test_a_form_that_the_driver_refuses_is_shown_again_and_can_be_mended(service):
    browser, _ = log_in(service)
    values = {"name": "night", "kind": "evaluate", "rounds": "3", "goal": "4", "minimum": "9"}
    answer = browser.post("/tasks", data=values, headers=OURS)
    assert answer.status_code == 409
    forms = Forms(answer.text)
    assert forms.found["/tasks"] == values
    assert "minimum: expected at most goal" in html.unescape(answer.text).replace("Minimum", "minimum")
    sent = forms.found["/tasks"] | {"minimum": "2"}
    assert browser.post("/tasks", data=sent, headers=OURS).status_code == 303


def test_a_tick_of_confirmation_is_not_repeated(service):
    browser, _ = log_in(service)
    page = browser.post("/tasks/keyboard/stop", data={"reason": "x" * 300}, headers=OURS).text
    form = re.search(r'<form[^>]*action="/tasks/keyboard/stop".*?</form>', page, re.DOTALL)[0]
    assert "x" * 300 in form
    assert re.search(r'<input type="checkbox" name="sure" value="yes" required>', form)


@pytest.mark.parametrize("tick", [{}, {"sure": ""}, {"sure": "no"}])
def test_what_cannot_be_undone_is_refused_without_its_tick(service, tick):
    now_s = service.world.clock.now_s()
    with service.database.transaction() as tx:
        tx.save_releases((Release(version="0.2.0", rollout=Rollout(stage=Stage.CURRENT)),))
    register = service.ports.issuer.register
    claim = Claim(name="shelf", sha256="shelf", approval=True, uses=3, created_s=now_s, expires_s=now_s + 9000)
    register.add_claim(claim, "test")
    register.redeem("shelf", "f" * 64, "", "192.0.2.7", now_s)
    browser, _ = log_in(service, Role.ADMIN)
    with service.database.transaction() as view:
        before = view.audit(1)
    forms = [
        (action, inside)
        for page in PAGES
        for action, inside in re.findall(r'<form[^>]*action="([^"]*)"[^>]*>(.*?)</form>', browser.get(page).text, re.S)
    ]
    ticked = {action for action, inside in forms if 'name="sure"' in inside}
    kinds = {re.sub(r"^/(\w+)/[^/]*", r"\1", action) for action in ticked}
    assert kinds == {"tasks/stop", "releases", "tokens/revoke", "claims/revoke", "enrolments/refuse", "devices/forget"}
    values = {"/tasks/keyboard/stop": {"reason": "x"}, "/releases/0.2.0": {"reason": "x", "action": "rollback"}}
    for action in sorted(ticked):
        answer = browser.post(action, data=values.get(action, {}) | tick, headers=OURS)
        assert answer.status_code == 422, action
        assert "tick the box" in answer.text
    with service.database.transaction() as view:
        assert view.audit(1) == before, "nothing was done"


def test_a_form_whose_page_cannot_be_shown_holds_what_was_typed(service, monkeypatch):
    browser, _ = log_in(service)

    def away(*_args, **_options):
        raise UnavailableError("gone")

    # Whoever asks is still known, as after a switch-over in the middle of a request.
    monkeypatch.setattr("nightjar.coordinator.web.pages.tasks.task_rows", away)
    values = {"name": "night", "kind": "train", "rounds": "0", "goal": "4", "minimum": "9"}
    answer = browser.post("/tasks", data=values, headers=OURS)
    assert answer.status_code == 409
    assert Forms(answer.text).found["/tasks"] == values


def test_whoever_must_log_in_first_finds_the_form_as_it_was(service):
    browser = service.app.test_client()
    answer = browser.post("/tasks/keyboard/stop", data={"reason": "it learned enough"}, headers=OURS)
    assert answer.status_code == 401
    assert 'name="back" value="/tasks/keyboard"' in answer.text
    answer = browser.post("/login", data={"token": "wrong", "back": "/tasks/keyboard"}, headers=OURS)
    assert 'name="back" value="/tasks/keyboard"' in answer.text
    token = service.token(Role.OPERATOR)
    answer = browser.post("/login", data={"token": token, "back": "/tasks/keyboard"}, headers=OURS)
    assert answer.headers["Location"] == "/tasks/keyboard"
    answer = browser.get("/tasks/keyboard")
    assert Forms(answer.text).found["/tasks/keyboard/stop"] == {"reason": "it learned enough"}
    assert "send it again" in answer.text
    assert "it learned enough" not in browser.get("/tasks/keyboard").text


@pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": "cross-site"}, {}])
def test_another_site_puts_no_words_into_a_form(service, headers):
    browser = service.app.test_client()
    answer = browser.post("/tasks/keyboard/stop", data={"reason": "planted"}, headers=headers)
    assert "Set-Cookie" not in answer.headers
    browser, _ = log_in(service)
    answer = browser.post("/tasks/keyboard/stop", data={"reason": "planted"}, headers=headers)
    assert answer.status_code == 403
    assert "planted" not in answer.text
    assert "planted" not in browser.get("/tasks/keyboard").text


def test_a_form_larger_than_a_cookie_is_not_kept_over_a_login(service):
    answer = service.app.test_client().post("/tasks/keyboard/stop", data={"reason": "x" * MOST_KEPT}, headers=OURS)
    assert answer.status_code == 401
    assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize(("path", "role"), [("/tokens", "admin"), ("/audit", "operator"), ("/rounds", "viewer")])
def test_the_login_names_the_role_that_the_page_takes(service, path, role):
    page = service.ask("GET", path).text
    assert f"with the role {role}" in page
    assert f"--role {role}<" in page


@given(st.text(), st.text())
def test_no_value_leaves_its_attribute(value, refusal):
    page = '<form action="/a"><input name="b" value="1"></form><form action="/c"><input name="b"></form>'
    again = Forms(filled_in(page.replace("<form", '<form method="post"'), "/a", {"b": value}, refusal))
    kept = value.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "�")
    assert again.found["/a"]["b"].replace("\r\n", "\n").replace("\r", "\n").replace("\0", "�") == kept
    assert again.found["/c"]["b"] == ""
    assert set(again.found) == {"/a", "/c"}
