from __future__ import annotations

import json
import logging
import re

import pytest

from nightjar.edge_agent.core.exclusion import Secret
from nightjar.edge_agent.keyboard.app import (
    MAX_BODY_BYTES,
    MAX_GLIDE_POINTS,
    MAX_TEXT_CHARACTERS,
    AgentInfo,
    create_app,
    is_this_device,
)
from nightjar.edge_agent.keyboard.key import headers
from nightjar.edge_agent.keyboard.sending import RULES
from tests.edge_agent.keyboard.conftest import FOLLOWERS, WORDS

PAGE_KEY = "the-key-of-this-page"
SECRET = "xylophone"  # typed in these tests and nowhere to be found afterwards


@pytest.fixture
def client(bench):
    """The device's user: shows the key with each request."""
    found = bench.app().test_client()
    found.environ_base["HTTP_AUTHORIZATION"] = headers(PAGE_KEY)["Authorization"]
    return found


def test_page_needs_nothing_from_another_host(client):
    answer = client.get("/")
    page = answer.get_data(as_text=True)
    assert answer.status_code == 200
    assert "http:" not in page
    assert "https:" not in page
    for asset in ("keyboard.css", "app.js", "icon.svg"):
        assert f"/static/{asset}" in page
    modules = {"app.js"}
    while modules:  # and whatever they import
        answer = client.get(f"/static/{modules.pop()}", buffered=True)
        assert answer.status_code == 200
        assert answer.mimetype == "text/javascript"
        imported = re.findall(r'from "([^"]+)"', answer.text)
        assert all(name.startswith("./") for name in imported)
        modules |= {name.removeprefix("./") for name in imported}


def test_every_answer_is_confined_to_this_origin_and_sets_no_cookie(client):
    for path in ("/", "/static/app.js", "/api/about", "/none"):
        answer = client.get(path, buffered=True)
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "Set-Cookie" not in answer.headers


def test_suggest_answers_words_and_version(client):
    answer = client.post("/api/suggest", json={"text": "hello th"})
    assert answer.json == {
        "suggestions": ["there", "they", "th"],
        "prefix": "th",
        "space_takes": False,
        "version": 7,
        "reason": "",
    }
    assert answer.headers["Cache-Control"] == "no-store"


def test_suggest_without_a_model_offers_common_words_of_the_language_and_says_why(client, bench):
    bench.suggester.replace_predictor(None)
    for language, word in (("de", "ich"), ("en-GB", "i"), ("", "ok")):
        answer = client.post("/api/suggest", json={"text": "hi ", "language": language})
        assert answer.status_code == 200
        assert answer.json["suggestions"][0] == word
        assert answer.json["version"] is None
        assert "No model yet" in answer.json["reason"]


GLIDE = {"text": "", "points": [[0, 0], [1, 0]], "keys": {"w": [0, 0], "e": [1, 0]}}


def test_glide_answers_words_and_is_noticed_as_typing(client, bench):
    assert client.post("/api/glide", json=GLIDE).json == {"words": ["we"], "reason": ""}
    assert bench.keys_noted == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"points": []},
        {"points": [[0, 0]]},
        {"points": [[0, 0]] * (MAX_GLIDE_POINTS + 1)},
        {"points": [[0, 0], [1]]},
        {"points": [[0, 0], [1, 1, 1]]},
        {"points": [[0, 0], [101, 0]]},
        {"points": [[0, 0], ["1", 0]]},
        {"points": [[0, 0], [None, 0]]},
        {"keys": {}},
        {"keys": {"we": [0, 0]}},
        {"keys": {"": [0, 0]}},
        {"keys": {chr(0x4E00 + n): [0, 0] for n in range(65)}},
        {"keys": {"w": [0, -1e9]}},
        {"more": 1},
    ],
    ids=str,
)
def test_hostile_glide_is_refused(client, bench, changes):
    answer = client.post("/api/glide", json=GLIDE | changes)
    assert (answer.status_code, set(answer.json)) == (400, {"error", "code"})
    assert bench.keys_noted == 0


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "-1e999"])
def test_glide_of_numbers_that_are_not_finite_is_refused(client, number):
    body = json.dumps(GLIDE).replace("[1, 0]", f"[{number}, 0]")
    assert client.post("/api/glide", data=body, content_type="application/json").status_code == 400


def test_longest_text_and_glide_are_taken_together(client):
    body = GLIDE | {"text": "😀" * MAX_TEXT_CHARACTERS, "points": [[12.34, -1.23]] * MAX_GLIDE_POINTS}
    assert client.post("/api/glide", json=body).status_code == 200


def test_two_versions_are_compared_in_messages_of_the_person(client, bench):
    assert client.get("/api/comparison").json == {"before": 0, "now": 7, "places": []}
    bench.store.texts.append("hello how are you")
    [place] = client.get("/api/comparison").json["places"]
    assert (place["beginning"], place["meant"]) == ("hello how", "are")
    assert place["now"] == FOLLOWERS["how"]
    assert place["before"] == list(WORDS[:3]), "all alike"


def test_emoji_come_with_their_names(client):
    assert ["👍", "thumbs up sign"] in client.get("/api/emoji").json


def test_typing_is_noticed_and_looking_at_an_empty_field_is_not(client, bench):
    client.post("/api/suggest", json={"text": ""})
    assert bench.keys_noted == 0
    client.post("/api/suggest", json={"text": "h"})
    assert bench.keys_noted == 1


def test_only_sent_messages_are_stored(client, bench):
    client.post("/api/suggest", json={"text": "never sent"})
    kept = {"kept": True, "reason": "", "rule": ""}
    assert client.post("/api/messages", json={"text": "Hello there!"}).json == kept | {"stored": 1}
    assert client.post("/api/messages", json={"text": "Ça va? 😀"}).json == kept | {"stored": 2}
    assert bench.store.texts == ["Hello there!", "Ça va? 😀"]


def test_about_tells_what_the_panel_shows(client, bench):
    client.post("/api/messages", json={"text": "Hello there Quokka quokka"})
    bench.train()
    assert client.get("/api/about").json == {
        "device": "phone-03",
        "emulated": True,
        "state": "training",
        "reason": "selected for round 4",
        "by_program": {},
        "last_trained_at_s": 1_750_000_000.0,
        "last_report_bytes": 12_345,
        "reports_sent": 0,
        "bytes_sent": 0,
        "last_report_summed": False,
        "version": 7,
        "stored": 1,
        "stored_bytes": 25,
        "own_words": 1,
        "paused": False,
        "foreseen": {"words": 4, "top1": 2, "top3": 2},
    }


def test_a_word_that_was_sent_twice_is_offered(client, bench):
    for _ in range(2):
        before = client.post("/api/suggest", json={"text": "hello zor"}).json["suggestions"]
        assert "Zorblax" not in before
        client.post("/api/messages", json={"text": "hello Zorblax"})
    assert "Zorblax" in client.post("/api/suggest", json={"text": "hello zor"}).json["suggestions"]


def test_message_is_kept_anyway_if_the_person_says_so(client, bench):
    answer = client.post("/api/messages", json={"text": "quokka@example.org hello", "anyway": True})
    assert answer.json["kept"]
    assert bench.store.texts


def test_every_rule_has_its_words_for_the_user():
    assert set(RULES) == set(Secret)


def test_own_words_are_listed_and_forgotten(client, bench):
    for _ in range(2):
        client.post("/api/messages", json={"text": "hello Zorblax"})
    assert client.get("/api/words").json == [["Zorblax", 2]]
    assert client.post("/api/forget", json={"word": "Zorblax"}).json == {"words": 0}
    assert client.get("/api/words").json == []
    assert "Zorblax" not in client.post("/api/suggest", json={"text": "hello zor"}).json["suggestions"]


def test_forgotten_word_of_the_model_is_not_suggested_until_it_is_typed_again(client, bench):
    client.post("/api/forget", json={"word": "hello"})
    assert "hello" not in client.post("/api/suggest", json={"text": ""}).json["suggestions"]
    for _ in range(2):
        client.post("/api/messages", json={"text": "Hello"})
    assert "hello" in client.post("/api/suggest", json={"text": ""}).json["suggestions"]


@pytest.mark.parametrize("word", ["", "?!", "x" * 65])
def test_what_is_no_word_cannot_be_forgotten(client, word):
    assert client.post("/api/forget", json={"word": word}).status_code == 400


def test_lines_of_a_file_are_kept_as_messages_and_single_words_learned(client, bench):
    lines = ["hello there", "mail ada@example.org", "", "Zorblax"]
    assert client.post("/api/import", json={"lines": lines}).json == {"kept": 2, "stored": 2}
    assert bench.suggester.own_words == 1
    assert bench.store.counts == [], "what was read was not typed"
    bench.store.paused = True
    assert client.post("/api/import", json={"lines": lines}).status_code == 409


def test_shell_of_the_page_has_every_file_and_needs_no_key(bench):
    client = bench.app().test_client()
    worker = client.get("/worker.js")
    assert (worker.status_code, worker.mimetype) == (200, "text/javascript")
    for file in ("app.js", "text.js", "keyboard.css", "manifest.webmanifest", "icon-192.png"):
        assert f'"/static/{file}"' in worker.text
    manifest = json.loads(client.get("/static/manifest.webmanifest", buffered=True).text)
    for icon in manifest["icons"]:
        assert client.get(f"/static/{icon['src']}", buffered=True).status_code == 200


def test_paused_learning_keeps_nothing(client, bench):
    assert client.post("/api/learning", json={"paused": True}).json == {"paused": True}
    answer = client.post("/api/messages", json={"text": "hello quokka quokka"})
    assert answer.json == {"kept": False, "stored": 0, "reason": "Not kept: learning is paused.", "rule": ""}
    assert (bench.store.texts, bench.store.typed, bench.store.counts) == ([], [], [])
    client.post("/api/learning", json={"paused": False})
    assert client.post("/api/messages", json={"text": "hello"}).json["kept"]


def test_what_may_not_be_kept_is_not_learned_from_either(client, bench):
    answer = client.post("/api/messages", json={"text": "quokka@example.org quokka"})
    assert answer.json["kept"] is False
    assert (answer.json["reason"], answer.json["rule"]) == ("Not kept: an address is in it.", "EMAIL")
    assert (bench.store.texts, bench.store.typed, bench.store.counts) == ([], [], [])
    client.post("/api/messages", json={"text": "hello secret secret"})  # the store cuts this word out
    assert bench.store.typed == []


def test_wipe_deletes_everything_and_forgets_own_words_at_once(client, bench):
    client.post("/api/messages", json={"text": "quokka quokka"})
    assert "quokka" in client.post("/api/suggest", json={"text": "quo"}).json["suggestions"]
    assert client.post("/api/wipe", json={"everything": "delete"}).json == {"stored": 0}
    assert "quokka" not in client.post("/api/suggest", json={"text": "quo"}).json["suggestions"]
    about = client.get("/api/about").json
    assert (about["stored"], about["stored_bytes"], about["own_words"], about["foreseen"]["words"]) == (0, 0, 0, 0)


@pytest.mark.parametrize("body", [{}, {"everything": True}, {"everything": "yes"}, [], "delete"])
def test_nothing_is_wiped_by_mistake(client, bench, body):
    client.post("/api/messages", json={"text": "hello"})
    assert client.post("/api/wipe", json=body).status_code == 400
    assert bench.store.texts == ["hello"]


def test_wipe_that_fails_says_so(client, bench):
    bench.store.full = True
    answer = client.post("/api/wipe", json={"everything": "delete"})
    assert (answer.status_code, answer.json["code"]) == (503, "unavailable")


def test_recall_is_drawn_with_words_for_who_cannot_see_it(client, bench):
    assert b"data-empty" in client.get("/api/recall.svg").data
    for _ in range(20):
        client.post("/api/messages", json={"text": "Hello there. How are you?"})
    answer = client.get("/api/recall.svg")
    assert answer.mimetype == "image/svg+xml"
    assert 'role="img"' in answer.text
    assert "Words foreseen" in answer.text
    assert "polyline" in answer.text


def test_longest_text_is_taken_however_json_spells_it(client, bench):
    text = "😀" * MAX_TEXT_CHARACTERS
    for body in (json.dumps({"text": text}), json.dumps({"text": text}, ensure_ascii=False)):
        answer = client.post("/api/messages", data=body.encode(), content_type="application/json")
        assert answer.status_code == 200
    assert bench.store.texts == [text, text]


@pytest.mark.parametrize("route", ["/api/suggest", "/api/messages"])
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b'{"text": "\xff"}', 400),
        (b'{"text": "\\ud800"}', 400),
        (b"[" * 20_000, 400),
        (b"null", 400),
        (b'"text"', 400),
        (b"{}", 400),
        (b'{"text": null}', 400),
        (b'{"text": 5}', 400),
        (b'{"text": ["a"]}', 400),
        (b'{"text": "a", "more": 1}', 400),
        (json.dumps({"text": "a" * (MAX_TEXT_CHARACTERS + 1)}).encode(), 400),
        (json.dumps({"text": "a" * MAX_BODY_BYTES}).encode(), 413),
    ],
)
def test_bad_body_is_refused_and_nothing_is_stored(client, bench, route, body, status):
    answer = client.post(route, data=body, content_type="application/json")
    assert answer.status_code == status
    assert set(answer.json) == {"error", "code"}
    assert bench.store.texts == []


@pytest.mark.parametrize("text", ["", "  \n\t"])
def test_empty_message_is_refused(client, bench, text):
    answer = client.post("/api/messages", json={"text": text})
    assert answer.status_code == 400
    assert "empty" in answer.json["error"]
    assert bench.store.texts == []


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None]
)
def test_form_of_another_site_is_refused(client, bench, content_type):
    answer = client.post("/api/messages", data=b'{"text": "a"}', content_type=content_type)
    assert answer.status_code == 415
    assert bench.store.texts == []


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "https://localhost.evil.example", "null", "", "http://localhost:1"]
)
def test_request_of_another_site_is_refused(client, bench, origin):
    answer = client.post("/api/messages", json={"text": "a"}, headers={"Origin": origin})
    assert answer.status_code == 403
    assert bench.store.texts == []


def test_request_of_the_page_itself_is_taken(client):
    headers = {"Host": "127.0.0.1:8700", "Origin": "http://127.0.0.1:8700"}
    assert client.post("/api/messages", json={"text": "a"}, headers=headers).status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize(("method", "path"), [("GET", "/api/about"), ("POST", "/api/wipe"), ("GET", "/static/app.js")])
def test_request_that_the_browser_says_is_of_another_site_is_refused(client, site, method, path):
    assert client.open(path, method=method, headers={"Sec-Fetch-Site": site}).status_code == 403


@pytest.mark.parametrize("shown", ["", "Bearer ", "Bearer another", f"Basic {PAGE_KEY}", PAGE_KEY, "Bearer é"])
def test_another_user_of_the_machine_reads_plants_and_wipes_nothing(bench, shown):
    bench.store.note_own_words([("zbigniewska", "Zbigniewska")] * 2)
    bench.store.texts = ["mirtazapine at eight"]
    other = bench.app().test_client()
    answers = [
        other.post("/api/suggest", json={"text": "zbi"}, headers={"Authorization": shown}),
        other.post("/api/glide", json=GLIDE, headers={"Authorization": shown}),
        other.get("/api/emoji", headers={"Authorization": shown}),
        other.post("/api/messages", json={"text": "planted"}, headers={"Authorization": shown}),
        other.post("/api/learning", json={"paused": True}, headers={"Authorization": shown}),
        other.post("/api/wipe", json={"everything": "delete"}, headers={"Authorization": shown}),
        other.get("/api/about", headers={"Authorization": shown}),
        other.get("/api/recall.svg", headers={"Authorization": shown}),
        other.get("/nothing-yet", headers={"Authorization": shown}),
    ]
    said = [(answer.status_code, "nightjar-agent status" in answer.get_data(as_text=True)) for answer in answers]
    stored = (bench.store.texts, bench.store.paused, bench.keys_noted)
    assert (said, stored) == ([(401, True)] * len(answers), (["mirtazapine at eight"], False, 0))


def test_link_on_another_site_may_open_the_page(client):
    assert client.get("/", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/static/app.js", "/api/about"])
def test_rebound_name_is_refused(client, path):
    answer = client.get(path, headers={"Host": "evil.example"})
    assert answer.status_code == 421
    assert "address that the agent printed" in answer.json["error"]


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("127.0.0.1", True),
        ("127.0.0.1:8700", True),
        ("LOCALHOST:8700", True),
        ("[::1]:8700", True),
        ("192.168.1.7:8700", False),
        ("[fe80::1]", False),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("user@evil.example", False),
        ("evil.example#@localhost", False),
        ("[::1", False),
        ("", False),
    ],
)
def test_host_names(header, expected):
    assert is_this_device(header) is expected


def test_store_that_cannot_keep_a_message_says_so(client, bench):
    bench.store.full = True
    answer = client.post("/api/messages", json={"text": "hello"})
    assert answer.status_code == 503
    assert answer.json == {"error": "the disk is full; free some space", "code": "unavailable"}


def test_failing_panel_is_json_and_gives_nothing_away(bench):
    def broken() -> AgentInfo:
        raise RuntimeError("inner detail")

    app = create_app(bench.suggester, bench.store, broken, bench.store.wipe, PAGE_KEY)
    answer = app.test_client().get("/api/about", headers=headers(PAGE_KEY))
    assert answer.status_code == 500
    assert "inner detail" not in answer.json["error"]


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/api/messages", 405), ("POST", "/", 405), ("GET", "/x", 404)]
)
def test_other_routes_do_not_exist(client, method, path, status):
    assert client.open(path, method=method).status_code == status


def test_typed_text_is_never_logged_nor_echoed_in_a_refusal(client, bench, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    bodies = [
        {"text": SECRET},
        {"text": SECRET, "more": 1},
        {"text": [SECRET]},
        {SECRET: SECRET},
        SECRET,
        {"text": SECRET * 999},
    ]
    answers = []
    for full in (False, True):
        bench.store.full = full
        for body in bodies:
            answers.append(client.post("/api/messages", json=body))
            client.post("/api/suggest", json=body)
            client.post("/api/glide", json=body)
    client.post("/api/glide", json=GLIDE | {"text": SECRET})
    printed = capfd.readouterr()
    assert {answer.status_code for answer in answers} == {200, 400, 503}
    assert SECRET not in caplog.text + printed.out + printed.err
    # A field's name may be named in a refusal; a value may not.
    assert all(f'"{SECRET}"' not in answer.get_data(as_text=True) for answer in answers)
