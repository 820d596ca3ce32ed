"""The keyboard's page in a browser, and what a person does with it."""

from __future__ import annotations

from collections.abc import Sequence

PHONE = {"width": 360, "height": 740}
TALL_PHONE = {"width": 390, "height": 844}
DESKTOP = {"width": 1100, "height": 920}


class Screen:
    """The page in a browser, and what a person does with it."""

    def __init__(self, page):
        self.page = page

    @property
    def text(self) -> str:
        return self.page.input_value("#text")

    def wait_for_words(self, words: Sequence[str], *, in_order: bool = True) -> None:
        """Waits until the suggestions read like this, and are about what is written now.

        In which order they stand after some letters depends on whether the page has asked after fewer, too: a word that
        was passed over comes later.
        """
        self.page.wait_for_function(
            """([words, inOrder]) => {
                const shown = [...document.querySelectorAll("#suggestions button")].map(button => button.textContent);
                if (!inOrder) [shown, words].forEach(list => list.sort());
                const busy = document.getElementById("suggestions").ariaBusy === "true";
                return !busy && shown.join("|") === words.join("|");
            }""",
            arg=[list(words), in_order],
        )

    def wait_for_text(self, text: str) -> None:
        self.page.wait_for_function("text => document.getElementById('text').value === text", arg=text)

    def wait_until_marked(self, word: str) -> None:
        """Waits until space would take this word."""
        self.page.locator("#suggestions .taken", has_text=word).wait_for()

    def key(self, name: str):
        return self.page.get_by_role("group", name="Keyboard").get_by_role("button", name=name, exact=True)

    def tap(self, *names: str) -> None:
        for name in names:
            self.key(name).tap()

    def drag(self, *names: str, dx: float = 0) -> None:
        """Draws a line over keys with the pointer, and ends it further to the right.

        On a busy machine the first key is held for long: take one that offers no accents.
        """
        mouse = self.page.mouse
        boxes = [self.page.locator(f".key[aria-label='{name}' i]").bounding_box() for name in names]
        for place, box in enumerate(boxes):
            at = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
            mouse.move(*at, steps=8 if place else 1)
            if place == 0:
                mouse.down()
        mouse.move(at[0] + dx, at[1], steps=8)
        mouse.up()

    def write(self, text: str) -> None:
        self.page.keyboard.type(text)

    def press(self, *names: str) -> None:
        for name in names:
            self.page.keyboard.press(name)

    def choose(self, layout: str) -> None:
        self.page.select_option("#layout", layout)

    def listen(self) -> None:
        """Notes from now on what a screen reader would say by itself."""
        self.page.evaluate("""() => {
            window.heard = [];
            const spoken = document.getElementById("spoken");
            new MutationObserver(() => heard.push(spoken.textContent)).observe(spoken, {childList: true});
        }""")

    def heard(self) -> list[str]:
        """What it said."""
        return self.page.evaluate("heard")
