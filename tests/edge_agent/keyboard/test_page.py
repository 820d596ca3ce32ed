"""The page in headless Chromium: what a person sees, types, taps and sends."""

from __future__ import annotations

import importlib.util
import shutil

import pytest

pytestmark = pytest.mark.browser

PHONE = {"width": 360, "height": 740}
DESKTOP = {"width": 1100, "height": 920}


@pytest.fixture(scope="module")
def chromium():
    executable = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if executable is None:
        pytest.skip("no Chromium on this machine: install the package chromium to test the page")
    if importlib.util.find_spec("playwright") is None:
        pytest.skip("no Playwright in this environment: install requirements/dev.txt to test the page")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium, served):
    """Opens the keyboard; fails the test if the page logs an error or asks another host for anything."""
    contexts, complaints = [], []

    def open_(viewport=DESKTOP, **options):
        context = chromium.new_context(viewport=viewport, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda message: message.type == "error" and complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda r: r.url.startswith(served.url) or complaints.append(f"request to {r.url}"))
        page.goto(served.url)
        wait_for_words(page, ["Hello", "How", "I'm"])
        return page

    open_.complaints = complaints
    yield open_
    for context in contexts:
        context.close()
    assert complaints == []


def wait_for_words(page, words):
    """Waits until the three suggestions read like this."""
    page.wait_for_function(
        """words => [...document.querySelectorAll("#suggestions button")]
            .map(button => button.textContent).join("|") === words.join("|")""",
        arg=words,
    )


def typed(page):
    return page.input_value("#text")


def key(page, name):
    return page.get_by_role("group", name="Keyboard").get_by_role("button", name=name, exact=True)


def test_sentence_typed_on_a_physical_keyboard(open_page, bench):
    page = open_page()
    page.keyboard.type("Hello")
    wait_for_words(page, ["Hello", "Help", "Helmet"])
    page.keyboard.type(" ")
    wait_for_words(page, ["there", "world", "how"])
    page.get_by_role("button", name="how", exact=True).click()
    assert typed(page) == "Hello how "
    wait_for_words(page, ["are", "is", "about"])
    page.keyboard.press("Tab")
    wait_for_words(page, ["you", "they", "we"])
    page.keyboard.type("th")
    wait_for_words(page, ["they", "there", "th"])
    page.keyboard.press("Tab")
    page.keyboard.type("?")
    assert typed(page) == "Hello how are they?"
    page.keyboard.press("Enter")
    page.get_by_role("listitem").filter(has_text="Hello how are they?").wait_for()
    assert bench.store.texts == ["Hello how are they?"]
    assert typed(page) == ""
    assert page.inner_text("#stored") == "1 message"
    wait_for_words(page, ["Hello", "How", "I'm"])


def test_sentence_tapped_on_a_narrow_phone(open_page, bench):
    page = open_page(PHONE, has_touch=True, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    keys = page.locator(".key:not(:disabled)")
    for place in range(keys.count()):
        box = keys.nth(place).bounding_box()
        assert box["width"] >= 32
        assert box["height"] >= 44
        assert 0 <= box["x"] <= PHONE["width"] - box["width"]
        assert box["y"] + box["height"] <= PHONE["height"]

    for name in ["G", "o", "o", "d"]:  # the first letter of a sentence is a capital by itself
        key(page, name).tap()
    wait_for_words(page, ["Good", "", ""])
    key(page, "x").tap()
    key(page, "Backspace").tap()
    key(page, "Space").tap()
    wait_for_words(page, ["morning", "evening", "day"])
    page.get_by_role("button", name="evening").tap()
    assert typed(page) == "Good evening "
    key(page, ",").tap()
    key(page, "Space").tap()
    key(page, "Shift").tap()
    key(page, "Z").tap()
    key(page, "Figures and signs").tap()
    key(page, "4").tap()
    key(page, "!").tap()
    assert typed(page) == "Good evening, Z4!"
    key(page, "Send message").tap()
    page.get_by_role("listitem").filter(has_text="Good evening, Z4!").wait_for()
    assert bench.store.texts == ["Good evening, Z4!"]


def test_suggestion_is_placed_at_the_caret(open_page):
    page = open_page()
    page.keyboard.type("hello  today")
    for _ in range(len(" today")):
        page.keyboard.press("ArrowLeft")
    wait_for_words(page, ["there", "world", "how"])
    page.get_by_role("button", name="world").click()
    assert typed(page) == "hello world today"


def test_suggestion_after_a_full_stop_begins_a_sentence(open_page):
    page = open_page()
    page.keyboard.type("hello. ")
    wait_for_words(page, ["Hello", "How", "I'm"])
    page.keyboard.press("Backspace")
    wait_for_words(page, ["hello", "how", "I'm"])
    page.get_by_role("button", name="I'm").click()
    assert typed(page) == "hello. I'm "


def test_keyboard_alone_can_leave_the_field(open_page):
    page = open_page()
    page.keyboard.press("Escape")
    wait_for_words(page, ["", "", ""])
    page.keyboard.type("x")
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "send"
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("document.activeElement.id") == "text"


def test_older_answer_does_not_overwrite_a_newer_one(open_page):
    page = open_page()
    page.evaluate("""() => {
        const real = window.fetch;
        window.fetch = async (path, request) => {
            const answer = await real(path, {...request, signal: undefined});
            if (path === "/api/suggest" && !window.release) await new Promise(done => { window.release = done; });
            return answer;
        };
    }""")
    page.keyboard.type("hello ")
    page.wait_for_function("() => window.release && askedFor === 'hello '")
    page.keyboard.type("how ")
    wait_for_words(page, ["are", "is", "about"])
    page.evaluate("() => window.release()")
    page.wait_for_timeout(100)
    wait_for_words(page, ["are", "is", "about"])


def test_new_model_changes_the_words_without_a_key_press(open_page, bench):
    page = open_page()
    bench.suggester.replace_model(type(bench.model)(version=8, followers={"<s>": ["good", "we", "they"]}))
    wait_for_words(page, ["Good", "We", "They"])
    assert page.inner_text("#version") == "version 8"


def test_new_model_does_not_make_half_typed_text_look_like_typing(open_page, bench):
    page = open_page()
    page.keyboard.type("hello ")
    wait_for_words(page, ["there", "world", "how"])
    read = len(bench.model.tokens)
    newer = type(bench.model)(version=8)
    bench.suggester.replace_model(newer)
    page.get_by_text("version 8").wait_for()
    page.wait_for_timeout(200)
    assert (len(bench.model.tokens), newer.tokens) == (read, [])


def test_message_that_cannot_be_kept_stays_in_the_field(open_page, bench):
    page = open_page()
    bench.store.full = True
    page.keyboard.type("hello")
    page.keyboard.press("Enter")
    page.get_by_text("Not sent. the disk is full; free some space").wait_for()
    page.wait_for_timeout(200)  # the suggestions that follow must not wipe it away
    assert page.get_by_text("Not sent.").is_visible()
    assert typed(page) == "hello"
    assert page.get_by_role("listitem").filter(has_text="hello").count() == 0
    assert [complaint for complaint in open_page.complaints if "503" not in complaint] == []
    open_page.complaints.clear()


def test_markup_in_a_message_is_text(open_page, bench):
    page = open_page()
    page.keyboard.type("<img src=x onerror=alert(1)>")
    page.keyboard.press("Enter")
    page.get_by_text("<img src=x onerror=alert(1)>").wait_for()
    assert page.locator("#bubbles img").count() == 0


def test_panel_tells_the_truth_about_an_emulated_phone(open_page, bench):
    bench.train()
    page = open_page()
    page.get_by_text("Training on the messages kept here").wait_for()
    panel = page.inner_text("#about")
    assert "phone-03 emulated" in panel.replace("\n", " ")
    assert "12.3 kB" in panel
    assert page.get_by_text("Emulated phone.").is_visible()


def test_real_device_is_not_called_emulated(open_page, bench):
    bench.about = type(bench.about)("desk", emulated=False, state="ineligible", reason="not charging")
    page = open_page()
    page.get_by_text("(not charging)").wait_for()
    assert not page.get_by_text("emulated").first.is_visible()
    assert page.inner_text("#last-report") == "none yet"


# Text and the ground it stands on, by selector; computed colours, so that a later rule cannot slip past.
CONTRAST_PAIRS = """() => {
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
  for (const node of document.querySelectorAll("body *")) {
    const ownText = [...node.childNodes].some(child => child.nodeType === 3 && child.textContent.trim());
    if (!ownText || !node.checkVisibility({visibilityProperty: true})) continue;
    const [a, b] = [luminance(getComputedStyle(node).color), luminance(ground(node))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) low.push(`${node.className || node.tagName} ${contrast.toFixed(2)}`);
  }
  return low;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_all_text_can_be_read(open_page, scheme, viewport):
    page = open_page(viewport, color_scheme=scheme)
    page.keyboard.type("hello how are you")
    page.keyboard.press("Enter")
    page.get_by_role("listitem").filter(has_text="hello how are you").wait_for()
    page.get_by_text("Training on the messages kept here").wait_for()
    page.evaluate("notice('A fault', true)")
    assert page.evaluate(CONTRAST_PAIRS) == []
