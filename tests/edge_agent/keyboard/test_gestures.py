"""Gliding over letters, emoji, sliding on the space key, the panel, and room for it all: a phone of 390 x 844."""

from __future__ import annotations

import json

import pytest

from tests.edge_agent.keyboard.screen import TALL_PHONE

pytestmark = pytest.mark.browser


@pytest.fixture
def screen(open_page):
    return open_page(TALL_PHONE, has_touch=True, is_mobile=True)


# --- gliding ---


def test_glide_writes_a_word_and_offers_the_others(screen):
    screen.drag("H", "e", "l", "o")
    screen.wait_for_text("Hello ")
    assert screen.page.locator(".trail").count() == 0
    screen.drag("h", "o", "w")
    screen.wait_for_text("Hello how ")
    screen.tap("question mark")  # takes the place of the space, as after any suggestion
    assert screen.text == "Hello how? "


def test_candidate_takes_the_place_of_the_glided_word(screen):
    screen.drag("H", "e", "l", "p")
    screen.wait_for_text("Hello ")  # likelier at the beginning
    screen.page.get_by_role("button", name="Help", exact=True).tap()
    screen.wait_for_text("Help ")
    screen.tap("Backspace")
    assert screen.text == "Hello "


def test_backspace_right_after_a_glide_takes_the_whole_word_back(screen):
    screen.tap("G", "o", "o", "d", "Space")
    screen.drag("m", "o", "r", "n", "i", "n", "g")
    screen.wait_for_text("Good morning ")
    screen.tap("Backspace")
    assert screen.text == "Good "
    screen.tap("n")
    assert screen.text == "Good n"


def test_glide_after_a_word_begins_another_one(screen):
    screen.tap("G", "o", "o", "d")
    screen.drag("m", "o", "r", "n", "i", "n", "g")
    screen.wait_for_text("Good morning ")


def test_undo_takes_a_glide_back(screen):
    screen.drag("H", "e", "l", "o")
    screen.wait_for_text("Hello ")
    screen.page.get_by_role("button", name="Undo").tap()
    assert screen.text == ""


def test_smeared_tap_is_a_tap_and_a_line_that_means_nothing_says_so(screen):
    screen.drag("H", dx=14)
    assert screen.text == "H"
    screen.drag("x", "p", "x", "p")
    screen.page.get_by_text("No word lies on that line.").wait_for()
    assert screen.text == "H"


@pytest.mark.parametrize("delay_ms", [0, 60, 350, 420, 460, 900])
def test_no_word_is_lost_whatever_the_delay_of_the_answers(screen, delay_ms):
    delay_glides(screen, delay_ms)
    for _ in range(2):
        screen.drag("H", "e", "l", "o")
        screen.drag("h", "o", "w")
        screen.drag("g", "o", "o", "d")
    screen.wait_for_text("Hello how good hello how good ")


def test_what_is_typed_while_a_word_is_still_to_come_stands_after_it(screen):
    delay_glides(screen, 600)
    screen.drag("H", "e", "l", "o")
    screen.tap("x", "Space")
    screen.drag("h", "o", "w")
    screen.wait_for_text("Hello x how ")


def test_message_is_sent_with_the_words_that_are_still_to_come(screen, bench):
    delay_glides(screen, 500)
    screen.drag("H", "e", "l", "o")
    screen.drag("h", "o", "w")
    screen.tap("Send message", "a")
    screen.page.get_by_role("listitem").filter(has_text="Hello how").wait_for()
    assert bench.store.texts == ["Hello how"]
    # A letter that is typed only after the message has gone, as on a busy machine, begins a sentence.
    screen.page.wait_for_function("() => document.getElementById('text').value.toLowerCase() === 'a'")


def test_backspace_takes_a_line_back_whose_word_has_not_come(screen):
    delay_glides(screen, 500)
    screen.drag("H", "e", "l", "o")
    screen.tap("Backspace")
    screen.drag("h", "o", "w")
    screen.wait_for_text("How ")


def test_line_that_was_drawn_while_the_agent_was_away_is_asked_about_again(screen, open_page):
    open_page.expected.append("Failed to load resource")
    gone = iter([True])

    def once(route):
        if next(gone, False):
            route.abort()
        else:
            route.continue_()

    screen.page.route("**/api/glide", once)
    screen.drag("H", "e", "l", "o")
    screen.wait_for_text("Hello ")


def test_held_backspace_is_one_step_of_undo(screen):
    screen.write("one two three")
    box = screen.key("Backspace").bounding_box()
    screen.page.mouse.move(box["x"] + 10, box["y"] + 10)
    screen.page.mouse.down()
    screen.page.wait_for_function("() => document.getElementById('text').value.length < 8")
    screen.page.mouse.up()
    screen.page.get_by_role("button", name="Undo").tap()
    assert screen.text == "one two three"


def delay_glides(screen, milliseconds):
    """Lets each answer about a glide come this much later."""
    screen.page.evaluate(
        """milliseconds => {
            const real = window.fetch;
            window.fetch = async (path, request) => {
                const answer = await real(path, request);
                if (path === "/api/glide") await new Promise((resolve) => setTimeout(resolve, milliseconds));
                return answer;
            };
        }""",
        milliseconds,
    )


def test_line_is_drawn_while_gliding(screen):
    boxes = [screen.key(name).bounding_box() for name in ("H", "E")]
    mouse = screen.page.mouse
    mouse.move(boxes[0]["x"] + 20, boxes[0]["y"] + 25)
    mouse.down()
    mouse.move(boxes[1]["x"] + 20, boxes[1]["y"] + 25, steps=12)
    assert len(screen.page.get_attribute(".trail polyline", "points").split()) > 6
    assert screen.text == ""  # the letter of the first key was taken back
    mouse.up()


@pytest.mark.parametrize(("layout", "text"), [("azerty", "World "), ("qwertz", "World ")])
def test_glides_follow_the_layout_on_the_screen(screen, layout, text):
    screen.page.select_option("#layout", layout)
    screen.page.evaluate("scrollTo(0, 0)")
    screen.drag("w", "o", "r", "l", "d")
    screen.wait_for_text(text)


# --- the caret ---


def test_sliding_on_space_moves_the_caret_by_characters_and_a_tap_is_a_space(screen):
    screen.write("hi 👍🏽 you")
    screen.drag("Space", dx=-60)  # five characters, one of them of two code points
    assert screen.text == "hi 👍🏽 you"
    screen.write("x")
    assert screen.text == "hi x👍🏽 you"
    screen.drag("Space", dx=36)
    screen.tap("Space")
    assert screen.text == "hi x👍🏽 y ou"


def test_sliding_on_space_corrects_nothing(screen):
    screen.write("helmt")
    screen.wait_until_marked("helmet")
    screen.drag("Space", dx=-30)
    assert screen.text == "helmt"


# --- emoji ---


def test_emoji_are_found_by_name_and_the_last_ones_come_first(screen):
    page = screen.page
    screen.tap("Emoji")
    panel = page.get_by_role("region", name="Emoji")
    page.get_by_role("searchbox", name="Search emoji").tap()
    screen.tap(*"THUMBS", "Space", *"UO", "Backspace", "P")
    assert panel.get_by_role("button").count() == 2  # with the one that closes it
    panel.get_by_role("button", name="thumbs up sign").tap()
    assert screen.text == "👍"
    page.get_by_role("button", name="Close emoji").tap()
    assert not panel.is_visible()
    screen.tap("Emoji")
    assert page.locator("#emoji-found button").first.text_content() == "👍"
    screen.tap("a")  # nothing is searched for: the keys type
    assert screen.text == "👍a"
    assert json.loads(page.evaluate("localStorage.getItem('nightjar-emoji')")) == ["👍"]
    screen.tap("Emoji")
    assert not panel.is_visible()


@pytest.mark.parametrize("red", [0, 255], ids=["boxes", "colour"])
def test_page_names_a_font_where_emoji_are_boxes(screen, red):
    screen.page.evaluate(
        """red => CanvasRenderingContext2D.prototype.getImageData = () => ({data: [red, 0, 0, 255]})""", red
    )
    screen.tap("Emoji")
    screen.page.locator("#emoji-found button").first.wait_for()
    assert screen.page.get_by_text("fonts-noto-color-emoji").is_visible() == (red == 0)


def test_emoji_are_sent_and_kept_with_the_words_around_them(screen, bench):
    screen.drag("H", "e", "l", "o")
    screen.wait_for_text("Hello ")
    screen.tap("Emoji")
    screen.page.get_by_role("button", name="heavy black heart", exact=True).tap()
    screen.tap("Send message")
    screen.page.get_by_role("listitem").filter(has_text="Hello ❤️").wait_for()
    assert bench.store.texts == ["Hello ❤️"]
    assert bench.store.counts[-1].words == 1


def test_deleting_everything_forgets_the_last_emoji(screen):
    screen.tap("Emoji")
    screen.page.get_by_role("button", name="grinning face", exact=True).tap()
    screen.page.get_by_role("button", name="Delete everything…").tap()
    screen.page.get_by_role("dialog").get_by_role("button", name="Delete").tap()
    screen.page.get_by_text("Everything was deleted").wait_for()
    assert screen.page.evaluate("localStorage.getItem('nightjar-emoji')") is None


def test_emoji_panel_by_physical_keyboard(screen):
    screen.key("Emoji").press("Enter")
    first = screen.page.locator("#emoji-found button").first
    first.focus()
    screen.press("ArrowRight", "Enter")
    assert screen.text == "😁"
    screen.press("Escape")
    assert not screen.page.get_by_role("region", name="Emoji").is_visible()
    assert screen.page.evaluate("document.activeElement.id") == "text"


# --- room ---


@pytest.mark.parametrize("panel", [False, True], ids=["letters", "emoji"])
def test_everything_to_press_is_high_enough(screen, panel):
    if panel:
        screen.tap("Emoji")
        screen.page.locator("#emoji-found button").first.wait_for()
    low = screen.page.evaluate("""() => [...document.querySelectorAll("button, a, input, select, textarea, .switch")]
        .filter(node => node.checkVisibility() && !node.closest("label.switch > *") && node.type !== "checkbox")
        .filter(node => node.getBoundingClientRect().height < 44)
        .map(node => `${node.id || node.className} ${node.getBoundingClientRect().height}`)""")
    assert low == []
    assert screen.page.evaluate("document.documentElement.scrollWidth") == TALL_PHONE["width"]
    box = screen.key("Space").bounding_box()
    assert box["y"] + box["height"] <= TALL_PHONE["height"]


def test_focus_can_be_seen_everywhere(screen):
    screen.tap("Emoji")
    screen.page.locator("#emoji-found button").first.wait_for()
    screen.press("Escape")
    seen = set()
    for _ in range(14):
        screen.press("Tab")
        seen.add(
            screen.page.evaluate("""() => {
                const node = document.activeElement, {outlineStyle, outlineWidth} = getComputedStyle(node);
                return `${outlineStyle === "none" ? 0 : parseFloat(outlineWidth)} ${node.tagName} ${node.id}`;
            }""")
        )
    assert {line for line in seen if float(line.split()[0]) < 2 and "BODY" not in line} == set()
    assert any("emoji-search" in line for line in seen)


def test_field_that_grows_covers_no_message(screen):
    for number in range(14):
        screen.write(f"message {number}")
        screen.press("Enter")
        screen.page.get_by_role("listitem").filter(has_text=f"message {number}").last.wait_for()
    height = screen.page.locator("#text").bounding_box()["height"]
    screen.write("a text that is longer than a single line of the field on this phone")
    last = screen.page.get_by_role("listitem").last.bounding_box()
    field = screen.page.locator("#text").bounding_box()
    assert field["height"] > height
    conversation = screen.page.locator("#conversation").bounding_box()
    assert last["y"] + last["height"] <= conversation["y"] + conversation["height"] <= field["y"]


def test_link_to_the_panel_says_what_is_there(screen):
    screen.page.get_by_role("link", name="Privacy and settings").tap()
    panel = screen.page.get_by_role("complementary")
    for title in ("Learning", "Kept here, and sent", "Settings"):
        assert panel.get_by_role("heading", name=title, exact=True).count() == 1
    assert screen.page.url.endswith("#about")
