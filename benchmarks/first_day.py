"""Measures a fresh keyboard with the shipped model, on which nothing was typed yet, in messages of people it never saw.

People are drawn from the corpus, and their messages are typed letter by letter until enough words are counted. Every
word counts, in the vocabulary or not. All figures are percentages.

- ``fixed_top3``: the words that are one of the corpus's own three commonest words, which a keyboard could always show.
- ``top1``, ``top3``: the words that were the first suggestion, and among the three, before their first letter.
- ``keystrokes_saved_percent``: a word costs its letters and a space, or, once it is among the three suggestions, the
  letters so far and one tap. The English lexicon is there, as on a device.
- ``presage_keystrokes_saved_percent``: the same of Debian's predictor, which has learned the text ``--public``.

``made_from.json`` beside the shipped files holds the date before which their text was written, and the SHA-256 of the
text. If the corpus is that text or a part of it, people who wrote there before the date are left out; if ``--public``
is that text, presage learns only the part before the date.

With ``--learn`` the keyboard learns from each message that a person sends, and presage does with what its default
configuration has for that: the person's n-grams and the latest words.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from rich.console import Console

from nightjar.benchmarks import presage
from nightjar.benchmarks.measuring import errors_in_a_line, print_json, show
from nightjar.benchmarks.pretrained import (
    Pretrained,
    TextUsed,
    outside,
    pretrained,
    shipped_folder,
    written_before,
)
from nightjar.benchmarks.setting import BUILD, LANGUAGE
from nightjar.edge_agent.core.keystrokes import Replayed, replay
from nightjar.edge_agent.keyboard.whole import WholeKeyboard
from nightjar.models import corpora
from nightjar.models.vocabulary import words
from nightjar.simulation.progress import progress

TITLE = "a fresh keyboard with the shipped model, %"
WORDS = 5_000
MOST_MESSAGES = 100
"""First messages of a person that are typed, so that many people are heard."""


class Person(NamedTuple):
    """Somebody whose messages are typed, oldest first."""

    user: str
    messages: Sequence[str]


def measure(
    shipped: Pretrained, corpus: Path, public: Path | None, least_words: int, seed: int, *, learn: bool
) -> dict[str, Any]:
    """The figures of the shipped files; the help of the options explains the arguments."""
    text = corpora.load(str(corpus), seed)
    made_of = next((path for path in (corpus, public) if path and shipped.made_from.is_text(path)), None)
    people = drawn(outside(text, made_of, shipped.made_from).users, least_words, seed)
    database = None if public is None else _presage(public, shipped.made_from, seed)
    ours, theirs = Replayed(), Replayed()
    keyboard = fresh(shipped)
    with tempfile.TemporaryDirectory() as folder:
        for number, person in enumerate(progress(Console(stderr=True), people, "people")):
            keyboard = fresh(shipped) if learn else keyboard
            ours += typed(keyboard.suggest, person, keyboard.send if learn else None)
            if database is not None:
                own = Path(folder) / f"{number}.db" if learn else None
                with contextlib.closing(presage.Presage(database, own)) as other:
                    theirs += typed(other.suggest, person, other.learn if learn else None)
    return {
        "fixed_top3": fixed_top3(text.users.values(), people),
        "top1": 100 * ours.top1 / max(1, ours.words),
        "top3": 100 * ours.top3 / max(1, ours.words),
        "keystrokes_saved_percent": ours.saved_percent,
        "presage_keystrokes_saved_percent": theirs.saved_percent if theirs.words else None,
        "words": ours.words,
        "people": len(people),
    }


def fresh(shipped: Pretrained) -> WholeKeyboard:
    """The keyboard of a device on which nothing was typed yet."""
    return WholeKeyboard(shipped.predictor(), (), lambda code: shipped.lexicon if code == LANGUAGE else None, LANGUAGE)


def typed(suggest: Callable[[str], Sequence[str]], person: Person, send: Callable[[str], None] | None) -> Replayed:
    """Type the messages of a person; ``send`` lets the keyboard learn from each."""
    total = Replayed()
    for message in person.messages:
        total += replay(suggest, message)
        if send is not None:
            send(message)
    return total


def drawn(people: Mapping[str, Sequence[str]], least_words: int, seed: int) -> list[Person]:
    """People in random order, until their messages have enough words together."""
    chosen: list[Person] = []
    counted = 0
    users = list(people)
    for number in np.random.default_rng(seed).permutation(len(users)).tolist():
        if counted >= least_words:
            break
        messages = people[users[number]][:MOST_MESSAGES]
        chosen.append(Person(users[number], messages))
        counted += sum(len(words(message)) for message in messages)
    return chosen


def fixed_top3(corpus: Iterable[Sequence[str]], people: Sequence[Person]) -> float:
    """Percentage of the words of some people that are one of the three commonest words of a corpus.

    >>> round(fixed_top3([["a b c", "a b c d"]], [Person("ada", ["d a", "e"])]), 1)
    33.3
    """
    counts = Counter(word for messages in corpus for message in messages for word in words(message))
    three = sorted(counts, key=lambda word: (-counts[word], word))[:3]
    typed_words = [word for person in people for message in person.messages for word in words(message)]
    return 100 * sum(word in three for word in typed_words) / max(1, len(typed_words))


def _presage(public: Path, made_from: TextUsed, seed: int) -> Path | None:
    """The database of presage, which has learned a text; None if presage is not installed."""
    if not presage.installed():
        click.echo("presage is not installed: no figure for it (apt-get install presage)", err=True)
        return None
    texts = (
        written_before(public, made_from.date) if made_from.is_text(public) else corpora.load(str(public), seed).users
    )
    return presage.train([" ".join(words(text)) for each in texts.values() for text in each], BUILD / "presage")


@click.command()
@click.option(
    "--corpus", required=True, type=click.Path(path_type=Path), help="Messages to type: a TSV file (user, text)."
)
@click.option("--public", type=click.Path(path_type=Path), help="What presage learns: a TSV file (user, text).")
@click.option("--model", default="gboard", show_default=True, type=click.Choice(["gboard", "tiny"]))
@click.option(
    "--folder", type=click.Path(path_type=Path), help="A model folder with a made_from.json, not the shipped files."
)
@click.option("--learn", is_flag=True, help="Learn from each message that was typed.")
@click.option(
    "--words", "least_words", default=WORDS, show_default=True, type=click.IntRange(1), help="Words, at least."
)
@click.option("--seed", default=7, show_default=True, type=click.IntRange(0, 2**31), help="Whose messages are typed.")
@click.option("--json", "as_json", is_flag=True)
def main(
    *,
    corpus: Path,
    public: Path | None,
    model: str,
    folder: Path | None,
    learn: bool,
    least_words: int,
    seed: int,
    as_json: bool,
) -> None:
    """Measure what the shipped model foresees for people whom it has never seen."""
    with errors_in_a_line("first_day"):
        figures = measure(pretrained(folder or shipped_folder(model)), corpus, public, least_words, seed, learn=learn)
    if as_json:
        print_json(figures)
    else:
        show(TITLE, [{name: "-" if value is None else value for name, value in figures.items()}])


if __name__ == "__main__":
    main()
