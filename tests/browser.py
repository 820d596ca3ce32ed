"""Headless Chromium, and pages that must neither log an error nor ask another host for anything."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def chromium() -> Iterator:
    # The shell has the same engine without a browser around it, and takes half as much of a processor.
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    executable = next(filter(None, map(shutil.which, names)), None)
    if executable is None:
        pytest.skip("no Chromium on this machine: install the package chromium-headless-shell to test the pages")
    if importlib.util.find_spec("playwright") is None:
        pytest.skip("no Playwright in this environment: install requirements/dev.txt to test the pages")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable,
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
            timeout=180_000,
        )
        yield browser
        browser.close()


class Watched:
    """Pages of one test. What a test provokes itself it says in ``expected``, in words that the error contains."""

    def __init__(self, browser) -> None:
        self.expected: list[str] = []
        self._browser = browser
        self._contexts = []
        self._complaints: list[str] = []

    def page(self, host: str, **options):
        """An empty page that may ask one host."""
        context = self._browser.new_context(**options)
        self._contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)  # a busy machine is no failure
        page.on("console", lambda message: message.type == "error" and self._complaints.append(message.text))
        page.on("pageerror", lambda error: self._complaints.append(str(error)))
        page.on("request", lambda r: r.url.startswith(host) or self._complaints.append(f"request to {r.url}"))
        return page

    def close(self) -> None:
        for context in self._contexts:
            context.close()
        unexpected = [each for each in self._complaints if not any(part in each for part in self.expected)]
        assert unexpected == []
