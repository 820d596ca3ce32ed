"""The page in headless Chromium: what a person sees, types, taps and sends."""
# ruff: noqa: RUF001 - Cyrillic letters that look like Latin ones are meant

from __future__ import annotations

from dataclasses import replace

import pytest

from nightjar.edge_agent.keyboard.server import Serving
from nightjar.edge_agent.shell.suggester import page_listener
from nightjar.models.vocabulary import Vocabulary
from tests.edge_agent.keyboard.conftest import PAGE_KEY
from tests.edge_agent.keyboard.screen import PHONE

pytestmark = pytest.mark.browser

TOUCH = {"has_touch": True, "is_mobile": True}


# --- typing ---


def test_sentence_typed_on_a_physical_keyboard(open_page, bench):
    screen = open_page()
    screen.write("Hello")
    screen.wait_for_words(["Hello", "Help", "Helmet"])
    screen.write(" ")
    screen.wait_for_words(["there", "world", "how"])
    screen.page.get_by_role("button", name="how", exact=True).click()
    assert screen.text == "Hello how "
    screen.wait_for_words(["are", "is", "about"])
    screen.press("Tab")
    screen.wait_for_words(["you", "they", "we"])
    screen.write("th")
    screen.wait_for_words(["they", "there", "th"])
    screen.press("Tab")
    screen.write("?")
    assert screen.text == "Hello how are they? "
    screen.press("Enter")
    screen.page.get_by_role("listitem").filter(has_text="Hello how are they?").wait_for()
    assert bench.store.texts == ["Hello how are they?"]
    assert screen.text == ""
    screen.page.get_by_text("1 message, 19 bytes").wait_for()
    screen.wait_for_words(["Hello", "How", "I'm"])


def test_sentence_tapped_on_a_narrow_phone(open_page, bench):
    screen = open_page(PHONE, **TOUCH)
    page = screen.page
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    screen.tap("G", "o", "o", "d")  # the first letter of a sentence is a capital by itself
    screen.wait_for_words(["Good", "", ""])
    screen.tap("x", "Backspace", "Space")
    screen.wait_for_words(["morning", "evening", "day"])
    page.get_by_role("button", name="evening").tap()
    assert screen.text == "Good evening "
    screen.tap("comma", "Shift", "Z", "Figures and signs", "4", "More signs", "¥", "First signs", "quotation mark")
    screen.tap("Letters", "Space", "Space", "N", "o")
    assert screen.text == 'Good evening, Z4¥". No'
    screen.tap("Send message")
    page.get_by_role("listitem").filter(has_text="Good evening").wait_for()
    assert bench.store.texts == ['Good evening, Z4¥". No']


@pytest.mark.parametrize(
    ("layout", "keys", "text"),
    [
        ("qwerty", "Qay", "Qay"),
        ("qwertz", "Größe", "Größe"),
        ("azerty", "Qu'a", "Qu'a"),
        ("spanish", "Año", "Año"),
        ("russian", "Объём", "Объём"),
        ("ukrainian", "Їжак", "Їжак"),
    ],
)
def test_every_layout_fits_a_narrow_phone_and_types(open_page, layout, keys, text):
    screen = open_page(PHONE, **TOUCH)
    screen.choose(layout)
    page = screen.page
    page.evaluate("scrollTo(0, 0)")
    boxes = [box.bounding_box() for box in page.locator(".key").all()]
    assert min(box["width"] for box in boxes) >= 27.5
    assert min(box["height"] for box in boxes) >= 44
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= PHONE["width"] for box in boxes)
    assert max(box["y"] + box["height"] for box in boxes) <= PHONE["height"]
    held = {"ё": "е", "ъ": "ь"}
    for character in keys:
        if character in held:
            hold(screen, held[character])
        else:
            screen.tap("apostrophe" if character == "'" else character)
    assert screen.text == text
    screen.tap("Figures and signs")
    assert screen.key("Letters").inner_text() == ("АБВ" if layout in {"russian", "ukrainian"} else "ABC")
    page.reload()
    assert page.input_value("#layout") == layout  # remembered


def test_a_browser_without_the_key_is_told_and_one_that_had_it_needs_no_address_again(open_page, bench, served):
    open_page.expected.append("401")
    screen = open_page(words=(), key=None)
    screen.page.locator("#notice", has_text="nightjar-agent status").wait_for()
    assert screen.page.locator("#device").text_content() != bench.about.device
    screen.page.goto(f"{served.url}#key={PAGE_KEY}")  # in the tab that is open: only what is behind the # is new
    screen.wait_for_words(("Hello", "How", "I'm"))
    assert screen.page.url == served.url  # nobody who looks at the screen, or at the history, reads it
    screen.page.goto("about:blank")
    screen.page.goto(served.url)  # a bookmark
    screen.wait_for_words(("Hello", "How", "I'm"))


def hold(screen, name, choice=0):
    """Press a key until it offers its accents, slide to one of them, and let go."""
    box = screen.key(name).bounding_box()
    mouse = screen.page.mouse
    mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)
    mouse.down()
    screen.page.locator(".accents").wait_for()
    accent = screen.page.locator(".accents span").nth(choice).bounding_box()
    mouse.move(accent["x"] + accent["width"] / 2, box["y"] + 10)
    mouse.up()


def test_holding_a_letter_offers_its_accents(open_page):
    screen = open_page()
    screen.tap = lambda *names: [screen.key(name).click() for name in names]
    screen.tap("C", "a", "f")
    hold(screen, "e", choice=1)
    assert screen.text == "Cafè"
    assert screen.page.locator(".accents").count() == 0
    screen.tap("Space", "Shift")
    hold(screen, "N", choice=0)
    assert screen.text == "Cafè Ñ"
    screen.press("Backspace")
    assert screen.text == "Cafè "


def test_held_backspace_repeats(open_page):
    screen = open_page()
    screen.write("hello hello hello")
    box = screen.key("Backspace").bounding_box()
    screen.page.mouse.move(box["x"] + 10, box["y"] + 10)
    screen.page.mouse.down()
    screen.wait_for_text("")
    screen.page.mouse.up()


def test_language_brings_its_keys_and_its_common_words(open_page, bench):
    bench.suggester.replace_predictor(None)
    screen = open_page(PHONE, words=("I", "You", "The"), **TOUCH)
    assert "No model yet" in screen.page.inner_text("#notice")
    screen.page.select_option("#language", "ru")
    screen.wait_for_words(["Я", "Не", "Что"])
    screen.page.evaluate("scrollTo(0, 0)")
    screen.tap("П", "р", "и")
    screen.wait_for_words(["Привет", "При", ""])
    assert screen.page.get_attribute("#text", "lang") == "ru"


def test_language_of_the_browser_is_the_first_choice(open_page):
    screen = open_page(locale="fr-CA", words=("Je", "De", "Est"))  # the model speaks English
    assert screen.page.input_value("#layout") == "azerty"


# --- suggestions ---


def test_hi_and_a_space_already_offer_something_without_a_model(open_page, bench):
    bench.suggester.replace_predictor(None)
    screen = open_page(words=None)
    screen.write("hi ")
    screen.wait_for_words(["I", "you", "the"])


def test_space_takes_the_marked_word_and_backspace_takes_it_back(open_page):
    screen = open_page()
    screen.listen()
    screen.write("hello tehre")
    screen.wait_until_marked("there")
    screen.write(" ")
    assert screen.text == "hello there "
    assert "tehre changed to there" in screen.heard()
    screen.press("Backspace")
    assert screen.text == "hello tehre "
    screen.press("Backspace")  # and now it is left alone
    screen.page.get_by_role("button", name="tehre", exact=True).wait_for()
    assert screen.page.locator("#suggestions .taken").count() == 0
    screen.write(" ")
    assert screen.text == "hello tehre "


@pytest.mark.parametrize(
    ("before", "after", "back"),
    [("hello (", " ", "Backspace"), ("hello (", ")", "Backspace"), ("hello ", " ", "Control+z")],
)
def test_word_whose_change_was_taken_back_is_left_alone(open_page, before, after, back):
    screen = open_page()
    screen.write(f"{before}tehre")
    screen.wait_until_marked("there")
    screen.write(after)
    assert screen.text == f"{before}there{after}"
    screen.press(back)
    if back == "Backspace":
        screen.press(back)  # what finished the word
    screen.page.get_by_role("button", name="tehre", exact=True).wait_for()
    assert screen.page.locator("#suggestions .taken").count() == 0
    screen.write(after)
    assert screen.text == f"{before}tehre{after}"


def test_change_that_was_undone_with_what_came_after_it_is_left_alone(open_page):
    screen = open_page()
    screen.write("hello tehre")
    screen.wait_until_marked("there")
    screen.write(" x")
    screen.press("Control+z", "Control+z")
    assert screen.text == "hello tehre"
    screen.page.get_by_role("button", name="tehre", exact=True).wait_for()
    screen.write(" ")
    assert screen.text == "hello tehre "


def test_lone_i_that_was_taken_back_stays_small(open_page):
    screen = open_page()
    screen.write("i ")
    assert screen.text == "I "
    screen.press("Backspace", "Backspace")
    screen.write(" ")
    assert screen.text == "i "


def test_space_takes_nothing_when_told_so(open_page):
    screen = open_page()
    screen.page.uncheck("#space-takes")
    screen.page.focus("#text")
    screen.write("helmt")
    screen.wait_for_words(["helmet", "helmt", "hello"])
    screen.write(" ")
    assert screen.text == "helmt "


def test_backspace_after_a_suggestion_restores_what_was_typed(open_page):
    screen = open_page()
    screen.write("hel")
    screen.wait_for_words(["hello", "help", "helmet"], in_order=False)
    screen.press("Tab")
    assert screen.text == "hello "
    screen.press("Backspace")
    assert screen.text == "hel"


def test_undo_by_key_and_by_button(open_page):
    screen = open_page()
    screen.write("hel")
    screen.wait_for_words(["hello", "help", "helmet"], in_order=False)
    screen.press("Tab")
    screen.write("you")
    undo = screen.page.get_by_role("button", name="Undo")
    screen.press("Control+z")
    assert screen.text == "hello "
    undo.click()
    assert screen.text == "hel"
    screen.press("Control+z")
    assert screen.text == ""
    assert undo.is_disabled()
    screen.press("Control+y", "Control+Shift+Z")
    assert screen.text == "hello "


def test_undo_brings_back_what_was_cut(open_page):
    screen = open_page()
    screen.write("hello you")
    screen.press("Control+a", "Control+x")
    assert screen.text == ""
    screen.press("Control+z")
    assert screen.text == "hello you"


def test_suggestion_is_placed_at_the_caret(open_page):
    screen = open_page()
    screen.write("hello  today")
    screen.press(*["ArrowLeft"] * len(" today"))
    screen.wait_for_words(["there", "world", "how"])
    screen.page.get_by_role("button", name="world").click()
    assert screen.text == "hello world today"


def test_suggestion_after_a_full_stop_begins_a_sentence(open_page):
    screen = open_page()
    screen.write("hello. ")
    screen.wait_for_words(["Hello", "How", "I'm"])
    screen.press("Backspace")
    screen.wait_for_words(["hello", "how", "I'm"])
    screen.page.get_by_role("button", name="I'm").click()
    assert screen.text == "hello. I'm "


def test_older_answer_does_not_overwrite_a_newer_one_and_questions_do_not_queue_up(open_page):
    screen = open_page()
    screen.page.evaluate("""() => {
        const real = window.fetch;
        window.asked = [];
        const encrypt = crypto.subtle.encrypt.bind(crypto.subtle);
        crypto.subtle.encrypt = (how, key, data) => {
            const body = new TextDecoder().decode(data);
            if (how.additionalData.length === "POST /api/suggest".length) asked.push(JSON.parse(body).text);
            return encrypt(how, key, data);
        };
        window.fetch = async (path, request) => {
            const answer = await real(path, request);
            if (path === "/api/suggest" && asked.length === 1) await new Promise(done => { window.release = done; });
            return answer;
        };
    }""")
    screen.write("h")
    screen.page.wait_for_function("() => window.release")
    screen.write("ello how ")
    screen.page.evaluate("() => window.release()")
    screen.wait_for_words(["are", "is", "about"])
    assert screen.page.evaluate("asked") == ["h", "hello how "]


def test_going_back_to_a_text_while_another_is_being_asked_about_asks_again(open_page):
    screen = open_page()
    screen.write("hel")
    screen.wait_for_words(["hello", "help", "helmet"], in_order=False)
    screen.page.evaluate("""() => {
        const real = window.fetch;
        window.fetch = async (path, request) => {
            if (path === "/api/suggest" && !window.release) await new Promise(done => { window.release = done; });
            return real(path, request);
        };
    }""")
    screen.write("p")
    screen.page.wait_for_function("() => window.release")
    screen.press("Backspace")  # the bar is still about this text, but not for long
    screen.page.evaluate("() => window.release()")
    screen.page.wait_for_timeout(300)
    screen.wait_for_words(["hello", "help", "helmet"], in_order=False)


def test_new_model_changes_the_words_without_a_key_press(open_page, bench):
    screen = open_page()
    bench.use(version=8, followers={"<s>": ["good", "we", "they"]})
    screen.wait_for_words(["Good", "We", "They"])
    screen.page.get_by_text("version 8", exact=True).wait_for()


def test_new_model_does_not_make_half_typed_text_look_like_typing(open_page, bench):
    screen = open_page()
    screen.write("hello ")
    screen.wait_for_words(["there", "world", "how"])
    noted = bench.keys_noted
    newer = bench.use(version=8)
    screen.page.get_by_text("version 8").wait_for()
    screen.page.wait_for_timeout(200)
    assert (bench.keys_noted, newer.tokens) == (noted, [])


def test_word_sent_twice_is_learned(open_page, bench):
    screen = open_page()
    for _ in range(2):
        screen.write("hello Zorblax")
        screen.press("Enter")
    screen.page.get_by_text("1 word", exact=True).wait_for()
    screen.write("hello zor")
    screen.wait_for_words(["Zorblax", "zor", ""])


# --- sending, and being alone ---


def test_message_that_is_full_says_so_when_a_key_or_a_paste_finds_no_room(open_page):
    screen = open_page()
    screen.page.fill("#text", "x " * 999 + "xx")
    screen.write("y")
    screen.page.get_by_text("The message is full: send it first.").wait_for()
    assert screen.text.endswith(" xx")
    screen.press("Control+a", "Control+c", "ArrowRight", "Backspace", "Control+v")
    screen.page.get_by_text("the end of what was pasted may be missing").wait_for()
    screen.page.wait_for_timeout(200)  # the suggestions that follow must not wipe it away
    assert screen.page.get_by_text("the end of what was pasted may be missing").is_visible()


def test_message_that_cannot_be_kept_stays_in_the_field(open_page, bench):
    screen = open_page()
    open_page.expected.append("503")
    bench.store.full = True
    screen.write("hello")
    screen.press("Enter")
    screen.page.get_by_text("Not sent. the disk is full; free some space").wait_for()
    screen.page.wait_for_timeout(200)  # the suggestions that follow must not wipe it away
    assert screen.page.get_by_text("Not sent.").is_visible()
    assert screen.text == "hello"
    assert screen.page.get_by_role("listitem").filter(has_text="hello").count() == 0


def test_without_the_agent_it_is_a_plain_keyboard_and_finds_the_agent_again(open_page, bench, served):
    screen = open_page()
    open_page.expected.append("net::ERR_")
    screen.write("hello ")
    screen.wait_for_words(["there", "world", "how"])
    served.close()
    screen.write("my fri")
    screen.page.get_by_text("helper on this device is not running").first.wait_for()
    screen.write("end ")
    # The bar goes on with what was suggested before.
    screen.page.wait_for_function("() => !document.querySelector('#suggestions button').disabled")
    screen.press("Backspace")
    screen.press("Enter")
    screen.wait_for_text("hello my friend")  # nothing is lost
    assert bench.store.texts == []
    screen.key("Backspace").click()
    assert screen.text == "hello my frien"
    again = Serving(bench.app(), page_listener(served.port))
    try:
        screen.page.wait_for_function("() => !document.getElementById('notice').textContent.includes('not running')")
        screen.wait_for_words(["frien", "", ""])
        screen.write("d")
        screen.press("Enter")
        screen.page.get_by_role("listitem").filter(has_text="hello my friend").wait_for()
        assert bench.store.texts == ["hello my friend"]
    finally:
        again.close()


def test_markup_in_a_message_is_text(open_page, bench):
    screen = open_page()
    screen.write("<img src=x onerror=alert(1)>")
    screen.press("Enter")
    screen.page.get_by_text("<img src=x onerror=alert(1)>").wait_for()
    assert screen.page.locator("#bubbles img").count() == 0


def test_words_of_a_model_are_text_too(open_page, bench):
    bench.use(version=8, vocabulary=Vocabulary(("'", "b")), followers={"<s>": ["'", "b"]})
    screen = open_page(words=("'", "B", ""))
    screen.page.get_by_role("button", name="'", exact=True).click()
    assert screen.text == "' "


# --- the panel ---


def test_delete_everything_deletes_the_draft_too_and_what_undo_would_bring_back(open_page):
    screen = open_page()
    screen.page.fill("#text", "not sent yet")
    screen.page.locator("#text").press_sequentially(" more")
    screen.page.get_by_role("button", name="Delete everything…").click()
    screen.page.get_by_role("button", name="Delete", exact=True).click()
    screen.page.get_by_text("Everything was deleted from this device.").wait_for()
    assert screen.text == ""
    assert screen.page.locator("#undo").is_disabled()
    screen.page.locator("#text").press("Control+z")
    assert screen.text == ""


def test_panel_tells_the_truth_about_an_emulated_phone(open_page, bench):
    bench.train()
    screen = open_page()
    screen.page.get_by_text("Training on the messages kept here").wait_for()
    panel = screen.page.inner_text("#about")
    assert "phone-03 emulated" in panel.replace("\n", " ")
    assert "12.3 kB" in panel
    assert screen.page.get_by_text("Emulated phone.").is_visible()


def test_real_device_is_not_called_emulated(open_page, bench):
    bench.about = type(bench.about)(device="desk", emulated=False, state="ineligible", reason="not charging")
    screen = open_page()
    screen.page.get_by_text("(not charging)").wait_for()
    assert screen.page.inner_text("#state") == "Not training now"
    assert not screen.page.get_by_text("emulated").first.is_visible()
    assert screen.page.inner_text("#last-report") == "none yet"


@pytest.mark.parametrize(("summed", "said"), [(False, "can read yours"), (True, "learns only the sum")])
def test_panel_says_what_the_coordinator_can_learn(open_page, bench, summed, said):
    bench.train()
    bench.about = replace(bench.about, last_report_summed=summed)
    open_page().page.get_by_text(said).wait_for()


def test_panel_shows_how_good_the_model_is_on_these_words(open_page):
    screen = open_page()
    assert screen.page.get_by_text("Send a few messages, and you see here").is_visible()
    for _ in range(8):
        screen.write("Hello there how are")
        screen.press("Enter")
    screen.page.get_by_text("Of the last 32 words that you sent, 100 % stood").wait_for()
    screen.page.get_by_role("img", name="Words foreseen").wait_for()


def test_before_and_after_are_compared_when_a_person_asks(open_page, bench):
    screen = open_page(PHONE, **TOUCH)
    screen.page.get_by_text("Before and after").tap()
    screen.page.get_by_text("There is nothing to compare yet").wait_for()
    bench.store.texts.append("hello how are you")
    screen.page.get_by_text("Before and after").tap()
    screen.page.get_by_text("Before and after").tap()
    row = screen.page.get_by_role("row", name="hello how are")
    row.wait_for()
    assert row.locator("td").nth(1).inner_html() == "<b>are</b> · is · about"
    assert screen.page.get_by_role("columnheader", name="Version 7").is_visible()
    assert screen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_plot_that_does_not_come_is_drawn_at_the_next_look(open_page):
    screen = open_page()
    open_page.expected.append("net::ERR_")
    screen.page.route("**/api/recall.svg", lambda route: route.abort(), times=1)
    for _ in range(8):
        screen.write("Hello there how are")
        screen.press("Enter")
    screen.page.get_by_role("img", name="Words foreseen").wait_for()


def test_learning_can_be_paused(open_page, bench):
    screen = open_page()
    screen.page.get_by_role("switch", name="Pause learning").check()
    screen.page.get_by_text("Learning is paused: nothing new is kept").wait_for()
    screen.page.focus("#text")
    screen.write("hello")
    screen.press("Enter")
    screen.page.locator(".not-kept", has_text="hello").wait_for()
    assert bench.store.texts == []
    assert screen.page.inner_text("#notice") == "Not kept: learning is paused."
    screen.page.get_by_role("switch", name="Pause learning").uncheck()
    screen.page.get_by_text("Learning goes on.").wait_for()
    assert not bench.store.paused


def test_everything_is_deleted_only_when_it_was_confirmed(open_page, bench):
    screen = open_page()
    for _ in range(2):
        screen.write("hello Zorblax")
        screen.press("Enter")
    screen.page.get_by_text("1 word", exact=True).wait_for()
    delete = screen.page.get_by_role("button", name="Delete everything…")
    delete.click()
    dialog = screen.page.get_by_role("dialog", name="Delete everything?")
    assert screen.page.evaluate("document.activeElement.value") == "keep"  # the harmless answer
    dialog.get_by_role("button", name="Keep").click()
    delete.click()
    screen.press("Escape")
    assert not dialog.is_visible()
    assert len(bench.store.texts) == 2
    delete.click()
    dialog.get_by_role("button", name="Delete").click()
    screen.page.get_by_text("Everything was deleted from this device.").wait_for()
    assert bench.store.texts == bench.store.typed == bench.store.counts == []
    screen.page.get_by_text("0 messages, 0 bytes").wait_for()
    assert screen.page.get_by_role("listitem").filter(has_text="Zorblax").count() == 0
    assert screen.page.get_by_text("Send a few messages, and you see here").is_visible()
    screen.page.focus("#text")
    screen.write("hello zor")
    screen.wait_for_words(["zor", "", ""])
