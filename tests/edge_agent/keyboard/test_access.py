"""Who uses the page without a mouse, without eyes, in the dark, or on a small screen."""

from __future__ import annotations

import importlib.util

import pytest

from tests.edge_agent.keyboard.screen import DESKTOP, PHONE, TALL_PHONE

pytestmark = pytest.mark.browser

# Text and the ground it stands on; computed colours, so that a later rule cannot slip past.
CONTRASTS = """() => {
  const luminance = colour => {
    const [r, g, b] = colour.match(/[0-9.]+/g).slice(0, 3).map(v => v / 255)
      .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = node => {
    for (; node; node = node.parentElement) {
      const colour = getComputedStyle(node).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const low = [];
  let seen = 0;
  for (const node of document.querySelectorAll("body *")) {
    const ownText = [...node.childNodes].some(child => child.nodeType === 3 && child.textContent.trim());
    if (!ownText || !node.checkVisibility({visibilityProperty: true})) continue;
    const style = getComputedStyle(node);
    const colour = node.namespaceURI.endsWith("svg") ? style.fill : style.color;
    const [a, b] = [luminance(colour), luminance(ground(node))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    seen += 1;
    if (contrast < 4.5) low.push(`${node.className || node.tagName} ${contrast.toFixed(2)}`);
  }
  return [seen, low];
}"""


def show_everything(screen, bench):
    """As much as can be on the page at once: messages, a fault, a chart, a marked word, a pressed key, emoji."""
    for _ in range(15):
        bench.store.note_recall(1, 30, 5, 10)
    screen.write("hello how are you")
    screen.press("Enter")
    screen.page.get_by_role("listitem").filter(has_text="hello how are you").wait_for()
    bench.store.paused = True
    screen.write("not kept")
    screen.press("Enter")
    screen.page.locator(".not-kept").wait_for()
    bench.store.paused = False
    screen.page.get_by_text("Training on the messages kept here").wait_for()
    screen.page.locator("#chart svg").wait_for()
    screen.write("helmt")
    screen.wait_until_marked("helmet")
    screen.key("Emoji").click()
    screen.page.locator("#emoji-found button").first.wait_for()
    screen.page.evaluate("""() => {
        document.getElementById("notice").textContent = "A fault";
        document.getElementById("notice").className = "notice fault";
        document.querySelector(".key[data-letter]").classList.add("down");
    }""")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [PHONE, TALL_PHONE, DESKTOP], ids=["phone", "tall-phone", "desktop"])
def test_all_text_can_be_read(open_page, bench, scheme, viewport):
    screen = open_page(viewport, color_scheme=scheme, reduced_motion="reduce")
    show_everything(screen, bench)
    seen, low = screen.page.evaluate(CONTRASTS)
    assert seen > 60
    assert low == []
    screen.page.get_by_role("button", name="Delete everything…").click()
    assert screen.page.evaluate(CONTRASTS)[1] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_axe_finds_nothing(open_page, bench, scheme, viewport):
    if importlib.util.find_spec("axe_playwright_python") is None:
        pytest.skip("no axe in this environment: install requirements/dev.txt to test the page with it")
    from axe_playwright_python.sync_playwright import Axe

    screen = open_page(viewport, color_scheme=scheme, reduced_motion="reduce")
    show_everything(screen, bench)
    found = Axe().run(screen.page)
    assert found.violations_count == 0, found.generate_report()
    screen.page.get_by_role("button", name="Delete everything…").click()
    found = Axe().run(screen.page)
    assert found.violations_count == 0, found.generate_report()


def test_every_control_has_a_role_and_a_name(open_page):
    page = open_page().page
    for role, name in [
        ("main", None),
        ("complementary", "What happens here"),
        ("textbox", "Message"),
        ("button", "Send"),
        ("button", "Undo"),
        ("group", "Suggestions"),
        ("group", "Keyboard"),
        ("button", "Emoji"),
        ("log", "Sent in this session"),
        ("switch", "Pause learning"),
        ("switch", "Space takes the marked word"),
        ("combobox", "Language"),
        ("combobox", "Keys"),
        ("button", "Delete everything…"),
        ("heading", "How good it is on your words"),
    ]:
        assert page.get_by_role(role, name=name, exact=True).count() == 1, (role, name)
    names = page.locator(".key").evaluate_all("keys => keys.map(key => key.getAttribute('aria-label'))")
    assert "" not in names
    assert len(set(names)) == len(names)
    assert {"comma", "full stop", "question mark", "Shift", "Backspace", "Space", "Send message"} <= set(names)


def test_suggestions_are_said_once_the_typing_rests(open_page):
    screen = open_page()
    screen.listen()
    screen.write("hello how ")
    screen.page.wait_for_function("() => heard.includes('Suggestions: are, is, about')")
    assert len(screen.heard()) <= 3  # not one for each of ten keys


def test_keyboard_alone_reaches_everything_and_is_never_trapped(open_page):
    screen = open_page()
    screen.write("x")
    screen.press("Escape")
    screen.wait_for_words(["", "", ""])
    reached = []
    for _ in range(11):
        screen.press("Tab")
        reached.append(screen.page.evaluate("document.activeElement.id || document.activeElement.ariaLabel"))
    assert reached == [
        "send",
        "undo",
        "Emoji",
        "pause",
        "before-and-after",
        "words-title",
        "wipe",
        "language",
        "layout",
        "space-takes",
        "slurs",
    ]
    screen.page.focus("#send")
    screen.press("Shift+Tab")
    assert screen.page.evaluate("document.activeElement.id") == "text"


def test_typing_anywhere_goes_to_the_field_and_focus_stays_there(open_page):
    screen = open_page()
    screen.page.evaluate("document.activeElement.blur()")
    screen.write("h")
    assert screen.text == "h"
    screen.key("i").click()
    assert screen.text == "hi"
    assert screen.page.evaluate("document.activeElement.id") == "text"


def test_key_pressed_by_assistive_technology_types_once(open_page):
    screen = open_page()
    screen.key("H").evaluate("key => key.click()")  # a click without a pointer
    assert screen.text == "H"
    screen.key("i").evaluate("key => key.click()")
    assert screen.text == "Hi"
    assert screen.key("Shift").get_attribute("aria-pressed") == "false"


def test_who_asked_for_less_motion_gets_none(open_page):
    screen = open_page(reduced_motion="reduce")
    screen.write("hello")
    screen.press("Enter")
    bubble = screen.page.get_by_role("listitem").filter(has_text="hello")
    bubble.wait_for()
    assert bubble.evaluate("node => getComputedStyle(node).animationName") == "none"


@pytest.mark.parametrize("width", [320, 360, 414, 768, 1100])
def test_nothing_sticks_out_sideways(open_page, width):
    screen = open_page({"width": width, "height": 700})
    assert screen.page.evaluate("document.documentElement.scrollWidth") <= width


def test_keys_fit_a_low_screen(open_page):
    screen = open_page({"width": 360, "height": 560}, has_touch=True, is_mobile=True)
    box = screen.key("Space").bounding_box()
    assert box["y"] + box["height"] <= 560
    assert screen.page.locator("#text").bounding_box()["y"] >= 0


def test_page_zooms_with_two_fingers_but_not_with_a_double_tap(open_page):
    screen = open_page(PHONE, has_touch=True, is_mobile=True)
    viewport = screen.page.get_attribute("meta[name=viewport]", "content")
    assert "user-scalable" not in viewport
    assert "maximum-scale" not in viewport
    for selector in (".key", "#suggestions"):  # every ancestor up to the scroller has a say
        assert screen.page.locator(selector).first.evaluate("""node => {
            for (; node; node = node.parentElement) {
                if (["none", "manipulation"].includes(getComputedStyle(node).touchAction)) return true;
            }
            return false;
        }""")
