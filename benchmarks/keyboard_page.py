"""Key press to paint, in the browser: the keyboard's page in headless Chromium, with the 1.41M model behind it.

Messages are typed at the pace of a fast typist. For each key press: when its character was painted, and when the first
suggestions were painted that are about the text with it. The agent's web server runs in a process of its own, as in the
product; once alone, and once while the agent's trainer trains beside it.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import edge_agent.one_thread  # noqa: F401 - as in the agent's own process
from benchmarks.beside import training_beside
from benchmarks.measuring import median, quantile, show
from benchmarks.setting import SEED, setting
from edge_agent.core.own_history import Blended
from edge_agent.keyboard.app import About, create_app
from edge_agent.keyboard.reader import Reader
from edge_agent.keyboard.server import serve
from edge_agent.keyboard.suggestions import Suggester
from edge_agent.shell.clock import SystemClock
from edge_agent.shell.database import Caps, Database
from edge_agent.shell.keyboard_model import load_keyboard_model
from models import corpora

TITLE = "key press to paint, in headless Chromium"
MODEL = "gboard"
KEY_EVERY_MS = 110
"""110 words a minute."""

# Notes when each key was pressed, and when something was painted. A message that is sent from within an animation frame
# arrives after that frame was painted.
WATCH = """() => {
    window.presses = [];
    const afterPaint = note => requestAnimationFrame(() => {
        const channel = new MessageChannel();
        channel.port1.onmessage = () => note(performance.now());
        channel.port2.postMessage(null);
    });
    const field = document.getElementById("text");
    field.addEventListener("keydown", event => {
        if (event.key.length !== 1) return;
        const press = {at: event.timeStamp, character: null, words: null};
        presses.push(press);
        afterPaint(now => { press.character = now - press.at; });
    }, true);
    const real = window.fetch;
    window.fetch = async (path, request) => {
        const waiting = presses.filter(press => press.words === null);
        const answer = await real(path, request);
        if (path === "/api/suggest") {
            const json = answer.json.bind(answer);
            answer.json = async () => {
                const value = await json();
                afterPaint(now => waiting.forEach(press => { press.words ??= now - press.at; }));
                return value;
            };
        }
        return answer;
    };
}"""


def measure(key_presses: int = 300) -> list[dict[str, Any]]:
    """A row alone, and a row beside training.

    Raises:
        click.ClickException: there is no Chromium.
    """
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        msg = "no Chromium on this machine: install the package chromium"
        raise click.ClickException(msg)
    at, rows = setting(MODEL), []
    for training in (False, True):
        with (
            training_beside(at) if training else contextlib.nullcontext(),
            _served() as url,
            sync_playwright() as playwright,
        ):
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page(viewport={"width": 1100, "height": 920})
            page.goto(url)
            page.locator("#suggestions button:not(:disabled)").first.wait_for()
            page.evaluate(WATCH)
            for character in _characters(key_presses):
                page.keyboard.press("Enter" if character == "\n" else character, delay=20)
                page.wait_for_timeout(KEY_EVERY_MS - 20)
            page.wait_for_timeout(500)
            presses = page.evaluate("presses")
            browser.close()
        rows.append(_row(at.layout.size, presses, training=training))
    return rows


def _row(parameters: int, presses: list[dict[str, float | None]], *, training: bool) -> dict[str, Any]:
    characters = [press["character"] for press in presses if press["character"] is not None]
    words = [press["words"] for press in presses if press["words"] is not None]
    if not presses or len(words) < 0.99 * len(presses):
        msg = f"expected suggestions for each of {len(presses)} key presses, got {len(words)}"
        raise RuntimeError(msg)
    return {
        "model": MODEL,
        "parameters": parameters,
        "training_beside": training,
        "key_presses": len(presses),
        "character_p50_ms": median(characters),
        "character_p99_ms": quantile(characters, 0.99),
        "suggestions_p50_ms": median(words),
        "suggestions_p99_ms": quantile(words, 0.99),
        "suggestions_max_ms": max(words),
    }


def _characters(count: int) -> Iterator[str]:
    return itertools.islice((c for c in "\n".join(_messages()) if c == "\n" or c.isascii()), count)


def _messages() -> list[str]:
    return [message for messages in corpora.load("personas", SEED).users.values() for message in messages]


@contextlib.contextmanager
def _served() -> Iterator[str]:
    """The keyboard's web server in another process."""
    command = [sys.executable, "-m", "benchmarks.keyboard_page", "--serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603 - ourselves
        if server.stdout is None or server.stdin is None:
            msg = "the server has no pipes"
            raise RuntimeError(msg)
        try:
            yield server.stdout.readline().strip()
        finally:
            server.stdin.close()  # it ends with its input


def _serve() -> None:
    with tempfile.TemporaryDirectory() as folder:
        database = Database(Path(folder) / "agent.db", Caps(10_000, 4_000_000, 1e7), SystemClock())
        predictor = Blended(Reader(load_keyboard_model(setting(MODEL).model)), _messages())
        suggester = Suggester(predictor)
        about = About("benchmark", emulated=False, state="ineligible", reason="in use")
        serving = serve(create_app(suggester, database, lambda: about, database.wipe), "127.0.0.1", 0)
        print(serving.url, flush=True)
        sys.stdin.read()
        serving.close()
        database.close()


@click.command()
@click.option("--key-presses", default=300, show_default=True, type=click.IntRange(1))
@click.option("--json", "as_json", is_flag=True)
@click.option("--serve", "only_serve", is_flag=True, hidden=True)
def main(*, key_presses: int, as_json: bool, only_serve: bool) -> None:
    """Measure the time from a key press to what is painted."""
    if only_serve:
        _serve()
        return
    show(TITLE, measure(key_presses), as_json=as_json, key="keyboard_page")


if __name__ == "__main__":
    main()
