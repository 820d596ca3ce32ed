"""On the page: words of one's own, messages that are not kept, slurs, short windows, and the page without the agent."""

from __future__ import annotations

import pytest

from tests.edge_agent.keyboard.screen import TALL_PHONE

pytestmark = pytest.mark.browser


@pytest.fixture
def screen(open_page):
    return open_page(TALL_PHONE, has_touch=True, is_mobile=True)


def test_learned_words_are_shown_and_deleted_one_by_one(screen, bench):
    bench.store.typed = [("zorblax", "Zorblax")] * 2 + [("quokka", "quokka")] * 3
    bench.suggester.replace_own_words(bench.store.own_words())
    screen.page.get_by_text("Words it learned from you", exact=True).tap()
    screen.page.get_by_role("button", name="Delete Zorblax").tap()
    screen.page.get_by_text("“Zorblax” was deleted").wait_for()
    assert screen.page.get_by_role("button", name="Delete quokka").is_visible()
    assert screen.page.get_by_role("button", name="Delete Zorblax").count() == 0
    assert [one.word for one in bench.store.own_words()] == ["quokka"]


def test_suggestion_that_is_held_is_forgotten_and_not_taken(screen, bench):
    box = screen.page.get_by_role("button", name="Hello", exact=True).bounding_box()
    screen.page.mouse.move(box["x"] + 20, box["y"] + 20)
    screen.page.mouse.down()
    screen.page.get_by_text("“hello” is suggested no more").wait_for()
    screen.page.mouse.up()
    assert screen.text == ""
    assert bench.store.forgotten == ["hello"]
    assert screen.page.get_by_role("button", name="Hello", exact=True).count() == 0


def test_enter_takes_the_word_in_the_place_of_one_that_delete_forgot(screen, bench):
    slot = screen.page.locator("#suggestions button").first
    slot.focus()
    screen.press("Delete")
    screen.page.locator("#suggestions button", has_text="Hello").wait_for(state="detached")
    assert bench.store.forgotten == ["hello"]
    word = slot.inner_text()
    slot.focus()
    screen.press("Enter")
    assert screen.text == f"{word} "


def test_file_is_learned_from_and_words_are_saved(screen, bench):
    screen.page.get_by_text("Words it learned from you", exact=True).tap()
    lines = b"Zorblax\nhow are you\n\nmail ada@example.org\n"
    screen.page.set_input_files("#import-file", {"name": "words.txt", "mimeType": "text/plain", "buffer": lines})
    screen.page.get_by_text("Learned from 2 lines. 1 look private").wait_for()
    with screen.page.expect_download() as saved:
        screen.page.get_by_role("button", name="Save my words…").tap()
    assert saved.value.path().read_text() == "Zorblax\n", "as it stood in the list"


def test_file_that_was_refused_can_be_chosen_again(screen, bench, open_page):
    open_page.expected.append("409")
    bench.store.paused = True
    screen.page.get_by_text("Words it learned from you", exact=True).tap()
    screen.page.set_input_files("#import-file", {"name": "a.txt", "mimeType": "text/plain", "buffer": b"Zorblax\n"})
    screen.page.locator("#told", has_text="learning is paused").wait_for()
    assert screen.page.input_value("#import-file") == "", "a browser says nothing of a file that is chosen already"


@pytest.mark.parametrize(
    "content",
    [
        "Żółwik\r\nFöhrwald\r\n".encode("utf-8-sig"),
        "Żółwik\r\nFöhrwald\r\n".encode("utf-16"),
        "Żółwik\nFöhrwald\n".encode("utf-16-be"),
        "Föhrwald\rKöhlerlied".encode("cp1252"),
        "Żółwik \0\nFöhrwald\n".encode(),
        "Köhlerlied \0\nFöhrwald\n".encode("cp1252"),
        ("словословослово " * 40 + "\nFöhrwald\n").encode("utf-16-le"),
        ("ab " * 665 + "abcd Föhrwald Föhrwald Föhrwald").encode(),  # cut between words, not within one
    ],
    ids=[
        "BOM",
        "UTF-16",
        "UTF-16 without a BOM",
        "Windows-1252",
        "a stray NUL",
        "a stray NUL in Windows-1252",
        "UTF-16 with few empty bytes",
        "a long line",
    ],
)
def test_file_in_any_usual_encoding_and_of_any_length_of_line_loses_no_word(screen, bench, content):
    screen.page.get_by_text("Words it learned from you", exact=True).tap()
    screen.page.set_input_files("#import-file", {"name": "words.txt", "mimeType": "text/plain", "buffer": content})
    screen.page.get_by_text("Learned from 2 lines.").wait_for()
    assert "Föhrwald" in {written for _, written in bench.store.typed}
    assert {word for word, _ in bench.store.typed} <= {
        "föhrwald",
        "żółwik",
        "köhlerlied",
        "словословослово",
        "ab",
        "abcd",
    }


@pytest.mark.parametrize("content", [b"\x89PNG\r\n" + bytes(range(256)) * 8, b"\x7fELF\2\1\1\0" + b"\0\0\3ab\0" * 90])
def test_file_that_is_no_text_is_refused(screen, bench, content):
    screen.page.get_by_text("Words it learned from you", exact=True).tap()
    screen.page.set_input_files("#import-file", {"name": "a.odt", "mimeType": "text/plain", "buffer": content})
    screen.page.locator("#told", has_text="save it as plain text").wait_for()
    assert bench.store.texts == bench.store.typed == []


def test_empty_bubble_names_the_rule_and_offers_to_keep_the_message(screen, bench):
    screen.write("ask quokka@example.org")
    screen.press("Enter")
    bubble = screen.page.get_by_role("listitem").filter(has_text="Not kept: an address is in it.")
    bubble.get_by_role("button", name="Keep it anyway").tap()
    screen.page.get_by_text("Kept, without figures").wait_for()
    assert len(bench.store.texts) == 1
    assert screen.page.locator(".not-kept").count() == 0


def test_slurs_are_asked_for_by_one_setting(screen):
    screen.page.evaluate("""() => {
        window.asked = [];
        const encrypt = crypto.subtle.encrypt.bind(crypto.subtle);
        crypto.subtle.encrypt = (how, key, data) => {
            const body = new TextDecoder().decode(data);
            if (body.includes("slurs")) asked.push(JSON.parse(body).slurs);
            return encrypt(how, key, data);
        };
    }""")
    screen.page.get_by_role("switch", name="Suggest slurs, too").check()
    screen.write("h")
    screen.page.wait_for_function("() => document.getElementById('suggestions').ariaBusy === 'false'")
    assert screen.page.evaluate("asked.at(-1)") is True


@pytest.mark.parametrize("size", [(844, 390), (667, 375), (640, 450), (320, 256), (195, 422), (1280, 500)])
def test_short_and_narrow_windows_show_the_whole_keyboard(open_page, size):
    width, height = size
    screen = open_page({"width": width, "height": height})
    for name in ("Q", "P", "M", "Space", "Backspace", "Send message"):
        box = screen.key(name).bounding_box()
        assert box["x"] >= 0
        assert box["y"] >= 0
        assert box["x"] + box["width"] <= width
        assert box["y"] + box["height"] <= height
    for part in ("#text", "#suggestions"):
        assert screen.page.locator(part).bounding_box()["y"] >= 0
    assert screen.page.evaluate("document.documentElement.scrollWidth") <= width


def test_without_javascript_a_sentence_says_so_in_place_of_dead_keys(chromium, served):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()

    # A browser that is told to run no script only for a test shows no <noscript>.
    def shown(route):
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text().replace("<noscript>", "").replace("</noscript>", ""))

    page.route(f"{served.url}/", shown)
    page.goto(f"{served.url}/")
    assert page.get_by_text("This keyboard needs JavaScript").is_visible()
    assert not page.locator("#keyboard").is_visible()
    assert not page.locator("#text").is_visible()
    context.close()


def test_page_opens_without_the_agent_and_says_what_works(open_page, served):
    open_page.expected += ["Failed to load resource", "net::ERR"]
    screen = open_page()
    screen.page.evaluate("() => navigator.serviceWorker.ready")
    served.close()
    screen.page.reload()
    screen.page.locator("#notice").get_by_text("gliding and sending wait").wait_for()
    screen.write("so i ")
    assert screen.text == "so I "
