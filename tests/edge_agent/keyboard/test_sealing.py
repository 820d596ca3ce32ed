"""What another user of the machine gets who holds the port of the page while the agent is away: nothing."""

import contextlib
import json
import re
import secrets
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from cryptography.exceptions import InvalidTag
from hypothesis import given
from hypothesis import strategies as st

from nightjar.edge_agent.keyboard import sealing
from nightjar.edge_agent.keyboard.key import headers
from nightjar.edge_agent.keyboard.sealing import IV_BYTES, SESSION_PATH, Session
from nightjar.edge_agent.keyboard.server import Serving
from nightjar.edge_agent.shell.suggester import page_listener
from tests.browser import chromium  # noqa: F401 - a fixture
from tests.edge_agent.keyboard.conftest import PAGE_KEY

CLIENT, SERVER = "ab" * 16, "cd" * 16


class Page:
    """A page that asks as agent.js does."""

    def __init__(self, client, key=PAGE_KEY) -> None:
        self.client, self.key = client, key
        self.session = Session(key, CLIENT, self.number)

    @property
    def number(self) -> str:
        return self.client.get(SESSION_PATH).get_json()["number"]

    def question(self, method, path, body=b"", number=None):
        iv = secrets.token_bytes(IV_BYTES)
        sealed = self.session.seal_question(f"{method} {path}", iv, body)
        shown = f"Sealed {CLIENT} {number or self.number} {iv.hex()}"
        return iv, sealed, {"Authorization": shown if method == "POST" else f"{shown} {sealed.hex()}"}

    def ask(self, method, path, body=b""):
        iv, sealed, shown = self.question(method, path, body)
        answer = self.client.open(path, method=method, headers=shown, data=sealed if method == "POST" else None)
        return answer.status_code, json.loads(self.session.open_answer(iv, answer.status_code, answer.data))


def test_a_sealed_question_is_answered_sealed(bench):
    page = Page(bench.app().test_client())
    assert page.ask("GET", "/api/about")[0] == 200
    status, answer = page.ask("POST", "/api/suggest", b'{"text": "hello how "}')
    assert (status, answer["suggestions"]) == (200, ["are", "is", "about"])
    assert page.ask("POST", "/api/suggest", b"{}")[0] == 400


def test_what_was_taken_while_the_port_was_anothers_is_worth_nothing_to_the_next_process(bench):
    before, after = bench.app().test_client(), bench.app().test_client()
    page = Page(before)
    _, sealed, shown = page.question("POST", "/api/wipe", b'{"everything": "delete"}')
    bench.store.texts = ["kept"]
    number = after.get(SESSION_PATH).get_json()["number"]
    forged = {"Authorization": shown["Authorization"].replace(page.number, number)}
    answers = [after.post("/api/wipe", data=sealed, headers=each).status_code for each in (shown, forged)]
    assert (answers, bench.store.texts) == ([409, 401], ["kept"])


def test_a_question_that_passed_through_anothers_hands_is_answered_once(bench):
    """As over a connection of the page's to another user's program, which held the port and now passes on."""
    client = bench.app().test_client()
    page = Page(client)
    _, sealed, shown = page.question("POST", "/api/messages", b'{"text": "hello how are you"}')
    answers = [client.post("/api/messages", data=sealed, headers=shown).status_code for _ in range(3)]
    assert (bench.store.texts, answers) == (["hello how are you"], [200, 409, 409])


def test_what_was_asked_is_not_remembered_without_end_and_then_counts_for_nothing(bench, monkeypatch):
    monkeypatch.setattr(sealing, "MOST_QUESTIONS", 5)
    client = bench.app().test_client()
    page = Page(client)
    _, sealed, shown = page.question("POST", "/api/messages", b'{"text": "hello how are you"}')
    assert client.post("/api/messages", data=sealed, headers=shown).status_code == 200
    assert [page.ask("GET", "/api/about")[0] for _ in range(4)] == [200] * 4
    assert Page(client).ask("GET", "/api/about")[0] == 200
    again = client.post("/api/messages", data=sealed, headers=shown).status_code
    assert (bench.store.texts, again) == (["hello how are you"], 409)


@pytest.mark.parametrize("change", ["path", "method", "body", "key", "short", "none"])
def test_a_question_that_was_changed_or_made_without_the_key_is_refused(bench, change):
    client = bench.app().test_client()
    page = Page(client, "another-key" if change == "key" else PAGE_KEY)
    asked = {"method": b"", "path": b'{"everything": "delete"}'}.get(change, b'{"paused": true}')
    method = "GET" if change == "method" else "POST"
    bench.store.texts = ["kept"]
    _, sealed, shown = page.question(method, "/api/learning", asked)
    sealed = {"body": sealed[:-1] + bytes([sealed[-1] ^ 1]), "short": sealed[:3], "none": b""}.get(change, sealed)
    path = "/api/wipe" if change == "path" else "/api/learning"
    status = client.post(path, data=sealed, headers=shown).status_code
    assert (status, bench.store.paused, bench.store.texts) == (401, False, ["kept"])


@given(st.text(alphabet="Sealed 0123456789abcdef\n", max_size=200))
def test_any_header_is_refused(header):
    from nightjar.edge_agent.keyboard.sealing import SealedRequests

    def reached(_environ, _start):
        raise AssertionError

    answers = []
    environ = {"PATH_INFO": "/api/about", "REQUEST_METHOD": "GET", "HTTP_AUTHORIZATION": f"Sealed {header}"}
    SealedRequests(reached, PAGE_KEY)(environ, lambda status, _fields: answers.append(status))
    assert answers == ["409 Conflict"]


def test_an_answer_counts_for_its_question_and_status_only():
    session = Session(PAGE_KEY, CLIENT, SERVER)
    one, other = bytes(12), bytes(11) + b"\1"
    answer = session.seal_answer(one, 200, b"yes")
    assert session.open_answer(one, 200, answer) == b"yes"
    for iv, status in ((other, 200), (one, 201)):
        with pytest.raises(InvalidTag):
            session.open_answer(iv, status, answer)


class Impostor:
    """Another user's program on the port of the agent: it notes all that it gets, and answers as it likes."""

    def __init__(self, port: int, status: int) -> None:
        self.heard: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.heard.append(f"{self.requestline}\n{self.headers}")
                length = int(self.headers.get("Content-Length") or 0)
                outer.heard.append(self.rfile.read(length).decode("latin-1"))
                answer = {"number": SERVER, "suggestions": ["evil"] * 3, "prefix": "", "stored": 666, "words": []}
                body = json.dumps(answer).encode()
                self.send_response(200 if self.path == SESSION_PATH else status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET  # noqa: N815 - of the standard library

            def log_message(self, *_: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", port), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.mark.browser
@pytest.mark.parametrize("status", [200, 401])
def test_who_takes_the_port_while_the_agent_restarts_gets_neither_key_nor_text_and_is_not_believed(
    open_page, bench, served, status
):
    open_page.expected += ["Failed to load resource", "net::ERR"]
    screen = open_page()
    port = served.port
    served.close()
    impostor = Impostor(port, status)
    try:
        screen.write("quokkas")
        screen.page.wait_for_function(
            "() => /evil|may not use/.test(document.body.innerText)"
            " || document.body.innerText.includes('is not running')"
            " && performance.getEntriesByName(location.origin + '/api/session').length > 2"
        )
        believed = len(re.findall("evil|may not use", screen.page.evaluate("document.body.innerText")))
    finally:
        impostor.close()
    back = Serving(bench.app(), page_listener(port))
    try:
        screen.page.wait_for_function("() => !document.body.innerText.includes('is not running')")
    finally:
        back.close()
    heard = "\n".join(impostor.heard)
    got = {"requests": "/api/" in heard, "key": PAGE_KEY in heard, "text": "quokka" in heard, "belief": believed > 0}
    assert got == {"requests": True, "key": False, "text": False, "belief": False}


@pytest.mark.browser
def test_the_key_is_kept_for_an_address_and_not_for_a_name_that_another_user_can_serve(chromium, served):  # noqa: F811
    """Browsers ask ::1 first for ``localhost``, where anybody may listen on the same port while the agent runs."""
    named = served.url.replace("127.0.0.1", "localhost")
    with contextlib.closing(chromium.new_context()) as context:
        page = context.new_page()
        page.goto(f"{named}#key={PAGE_KEY}")
        page.wait_for_function("key => localStorage.getItem('nightjar-key') === key", arg=PAGE_KEY)
        page.goto(f"{named}static/keyboard.css")
        kept = page.evaluate("localStorage.getItem('nightjar-key')")
    assert kept is None


def test_the_key_itself_still_opens_the_api_for_programs_that_have_read_its_file(bench):
    assert bench.app().test_client().get("/api/about", headers=headers(PAGE_KEY)).status_code == 200
