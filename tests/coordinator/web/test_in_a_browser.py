"""Every page in headless Chromium: what a person sees, reaches with the keyboard, presses, and sees change."""

from __future__ import annotations

import importlib.util

import pytest

from nightjar.coordinator.access import Role
from nightjar.coordinator.web.server import serving
from tests.coordinator.web.conftest import DESKTOP, PHONE

WIDER_PHONE = {"width": 390, "height": 844}

pytestmark = pytest.mark.browser

PAGES = [
    "/",
    "/rounds",
    "/rounds?phase=abandoned",
    "/rounds/30",
    "/rounds/31",
    "/devices",
    "/devices?name=phone-00",
    "/devices?name=nobody",
    "/devices/phone-003",
    "/devices/phone-119",
    "/models",
    "/models/27",
    "/releases",
    "/tasks",
    "/tasks/keyboard",
    "/audit",
    "/enrolments",
    "/tokens",
    "/login",
    "/nothing-here",
]


@pytest.fixture(scope="module")
def axe():
    if importlib.util.find_spec("axe_playwright_python") is None:
        pytest.skip("no axe in this environment: install requirements/dev.txt to test the pages with it")
    from axe_playwright_python.sync_playwright import Axe

    return Axe()


@pytest.mark.parametrize(
    ("scheme", "viewport"), [("light", DESKTOP), ("dark", PHONE)], ids=["light", "dark and narrow"]
)
def test_axe_finds_nothing_and_nothing_sticks_out(lived, look, axe, scheme, viewport):
    look.expected.append("404")
    page = look(lived, "/", Role.ADMIN, viewport, color_scheme=scheme)
    for path in PAGES:
        page.goto(lived.url + path)
        page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
        assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"], path
        found = axe.run(page)
        assert found.violations_count == 0, f"{path}: {found.generate_report()}"
        assert page.title().endswith("· Nightjar demo")


@pytest.mark.parametrize("path", ["/", "/rounds", "/devices", "/models", "/tasks", "/devices/a"])
def test_what_is_empty_says_so_and_is_accessible(fresh, look, axe, path):
    page = look(fresh, path, color_scheme="dark")
    found = axe.run(page)
    assert found.violations_count == 0, found.generate_report()


def test_the_four_questions_are_answered_at_one_look(lived, look):
    page = look(lived)
    assert [h.inner_text() for h in page.locator(".questions h2").all()] == [
        "Is it learning?",
        "What does it cost?",
        "Is it healthy?",
        "What is out?",
    ]
    figures = [each.inner_text() for each in page.locator("#learning .figure").all()]
    said = ("56.4 ± 5.2 % of the keystrokes saved", "23.5 % top-1 recall on devices", "27.2 % top-1 recall")
    assert [figure.startswith(words) for figure, words in zip(figures, said, strict=True)] == [True] * 3, figures
    assert "eligible now" in page.locator("#health .figure").inner_text()
    assert "per report" in page.locator("#cost .figure").inner_text()
    assert page.locator("#out").get_by_role("link", name="version 27").count() == 2
    assert page.locator(".chart svg[role=img]").count() == 4
    assert page.locator("#now").get_by_role("link", name="phone-009").count() == 1


def test_every_number_leads_to_what_it_is_made_of(lived, look):
    page = look(lived)
    page.locator("#learning .figure a").first.click()
    page.get_by_role("heading", name="Version 27").wait_for()
    page.get_by_role("link", name="21 reports").click()
    page.get_by_role("heading", name="Round 30").wait_for()
    page.locator("#seats tbody a").first.click()
    page.wait_for_url("**/devices/phone-*")
    page.goto(lived.url)
    page.locator("#out").get_by_role("link", name="version 27").last.click()
    page.get_by_role("heading", name="Devices").wait_for()
    page.wait_for_load_state()
    assert page.locator("tbody tr").count() == 50
    page.get_by_role("link", name="More").click()
    page.get_by_role("link", name="First").wait_for()


def test_everything_is_reached_and_pressed_with_the_keyboard_alone(fresh, look):
    page = look(fresh, "/login?back=/devices/a")
    page.wait_for_function("document.activeElement.name === 'token'")
    page.keyboard.type(fresh.tokens[Role.OPERATOR])
    page.keyboard.press("Enter")
    page.wait_for_url(fresh.url + "/devices/a")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.name") == "reason":
            break
    page.keyboard.type("sends nonsense")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Block this device"
    page.keyboard.press("Enter")
    page.get_by_text("blocked", exact=True).wait_for()
    assert fresh.service.ask("GET", "/api/v1/devices/a").json["blocked"] == "sends nonsense"


def test_on_a_phone_the_whole_menu_and_the_recall_are_in_sight_and_a_cut_table_has_an_edge(lived, look):
    width = WIDER_PHONE["width"]
    page = look(lived, "/models", Role.ADMIN, WIDER_PHONE)
    boxes = [link.bounding_box() for link in page.locator("header nav a").all()]
    assert len(boxes) == 9
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= width for box in boxes)
    page.goto(f"{lived.url}/models/0")
    box = page.get_by_role("columnheader", name="Top-1").bounding_box()
    assert box["x"] + box["width"] <= width
    background = page.locator(".scroll").first.evaluate("e => getComputedStyle(e).backgroundAttachment")
    assert background == "local, local, scroll, scroll"


def test_on_a_phone_each_row_of_a_list_is_a_card_with_all_its_cells_in_sight_and_named(lived, look):
    page = look(lived, "/", Role.ADMIN, WIDER_PHONE)
    paths = (
        "/",
        "/rounds",
        "/rounds/30",
        "/devices",
        "/devices/phone-003",
        "/models",
        "/tasks",
        "/audit",
        "/tokens",
        "/enrolments",
    )
    for path in paths:
        page.goto(lived.url + path)
        cells = page.locator(".cards td:visible").evaluate_all(
            "all => all.map(e => [e.getBoundingClientRect().right, e.dataset.label])"
        )
        assert len(cells) > 3, path
        assert all(right <= WIDER_PHONE["width"] and label for right, label in cells), path
    page.goto(lived.url + "/rounds")
    recall = page.locator(".cards td[data-label=Top-1]:visible").first
    assert recall.bounding_box()["y"] < WIDER_PHONE["height"]
    assert recall.evaluate("e => getComputedStyle(e, '::before').content") == '"Top-1 "'


def test_on_a_phone_the_login_has_room_between_field_and_button(lived, look):
    page = look(lived, "/login", viewport=WIDER_PHONE)
    field, button = page.get_by_label("Token").bounding_box(), page.get_by_role("button").bounding_box()
    assert field["height"] < 60
    assert button["y"] >= field["y"] + field["height"] + 8


def test_what_happens_arrives_on_an_open_page(fresh, look):
    page = look(fresh)
    page.locator("#now", has_text="waiting: 1 of 2 phones eligible").wait_for()
    page.evaluate("window.same = true")
    fresh.service.world.check_in("b")
    page.locator("#now", has_text="2 phones at work").wait_for()
    assert page.evaluate("window.same"), "without a new page"


def test_what_somebody_reads_or_types_in_stays(fresh, look):
    page = look(fresh, "/devices/a", Role.OPERATOR)
    page.fill("[name=reason]", "half a sen")
    fresh.service.world.check_in("b")
    page.wait_for_timeout(4000)  # news came, and was not taken over
    assert page.input_value("[name=reason]") == "half a sen"
    page.locator("h1").click()  # and lets go of the field
    fresh.service.world.check_in("c")
    page.wait_for_timeout(4000)
    assert page.input_value("[name=reason]") == "half a sen"


def test_a_form_that_is_refused_is_in_sight_with_what_was_typed_and_why(fresh, look, axe):
    look.expected.append("409")
    page = look(fresh, "/tasks", Role.OPERATOR, PHONE)
    page.get_by_label("Name").fill("night")
    page.get_by_label("Kind").select_option("evaluate")
    page.get_by_label("At least").fill("9")
    page.get_by_role("button", name="Create").click()
    said = page.get_by_role("alert")
    said.wait_for()
    assert "expected at most goal" in said.inner_text()
    assert 0 <= said.bounding_box()["y"] < PHONE["height"]
    assert (page.get_by_label("Name").input_value(), page.get_by_label("Kind").input_value()) == ("night", "evaluate")
    assert axe.run(page).violations_count == 0
    page.get_by_label("At least").fill("2")
    page.get_by_role("button", name="Create").click()
    page.get_by_role("heading", name="Task night").wait_for()


def test_a_coordinator_that_is_gone_is_said_and_one_that_is_back_is_seen(look, tmp_path):
    from tests.coordinator.web.conftest import Served

    look.expected.append("ERR_")
    served = Served(tmp_path, lived=False)
    with served.on():
        page = look(served)
        page.locator("#now", has_text="waiting: 1 of 2").wait_for()
    page.get_by_text("The coordinator does not answer").wait_for()
    with serving(served.service.app, "127.0.0.1", served.port):
        page.locator("#stale").wait_for(state="hidden")
    served.close()


def test_without_script_a_page_looks_again_by_itself(fresh, look):
    page = look(fresh, java_script_enabled=False)
    assert page.locator("noscript meta[http-equiv=refresh]").count() == 1
    assert page.locator("#now", has_text="waiting: 1 of 2 phones eligible").count() == 1


def test_a_viewer_sees_no_buttons_and_an_admin_makes_a_token_that_is_shown_once(fresh, look):
    page = look(fresh, "/tasks/keyboard", Role.VIEWER)
    assert page.get_by_role("button", name="Pause").count() == 0
    page = look(fresh, "/tokens", Role.ADMIN)
    page.get_by_label("Name").fill("anna")
    page.get_by_role("button", name="Create").click()
    characters = page.locator(".token").inner_text()
    assert fresh.service.ask("GET", "/api/v1/task", characters).status_code != 401
    page.goto(fresh.url + "/tokens")
    assert characters not in page.content()
    page.get_by_role("row", name="anna").get_by_label("for good").check()
    page.get_by_role("button", name="Revoke anna").click()
    page.get_by_role("button", name="Revoke anna").wait_for(state="detached")
    assert fresh.service.ask("GET", "/api/v1/audit", characters).status_code == 401
