"""The English words of Debian's dictionaries, which measurements take as correct.

Two packages have them: ``wamerican-large``, a list, and ``hunspell-en-us``, a list of stems with the names of the
endings that each takes. This reads as much of hunspell's format as that file uses: one prefix and one ending a word.
Source: hunspell(5).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from nightjar.wire.errors import ConfigError

LIST = Path("/usr/share/dict/american-english-large")
STEMS, ENDINGS = Path("/usr/share/hunspell/en_US.dic"), Path("/usr/share/hunspell/en_US.aff")


class Affix(NamedTuple):
    """A prefix or an ending: what it takes off a stem that fits, and what it puts there."""

    prefix: bool
    crosses: bool  # whether the word may have one of the other kind as well
    off: str
    on: str
    fits: re.Pattern[str]

    def put(self, stem: str) -> str | None:
        """The word that it makes of a stem; None if it does not fit."""
        if self.fits.search(stem) is None:
            return None
        return self.on + stem[len(self.off) :] if self.prefix else stem[: len(stem) - len(self.off)] + self.on


def dictionary() -> frozenset[str]:
    """Every word, in lower case.

    Raises:
        ConfigError: a package is not installed.
    """
    try:
        listed = LIST.read_text("utf-8").split()
        stems = STEMS.read_text("utf-8").splitlines()[1:]
        affixes = read_affixes(ENDINGS.read_text("utf-8").splitlines())
    except OSError as error:
        msg = f"right words are those of two dictionaries: install wamerican-large and hunspell-en-us ({error})"
        raise ConfigError(msg) from error
    return frozenset(word.lower() for word in [*listed, *(word for line in stems for word in words_of(line, affixes))])


def read_affixes(lines: Sequence[str]) -> dict[str, list[Affix]]:
    """The affixes of a file, by their name of one letter."""
    affixes: defaultdict[str, list[Affix]] = defaultdict(list)
    crossing: dict[str, bool] = {}
    for line in lines:
        match line.split():
            case ["PFX" | "SFX", name, "Y" | "N" as crosses, _]:
                crossing[name] = crosses == "Y"
            case ["PFX" | "SFX" as kind, name, off, on, fits, *_]:
                prefix = kind == "PFX"
                pattern = re.compile(f"^{fits}" if prefix else f"{fits}$")
                affixes[name].append(Affix(prefix, crossing[name], "" if off == "0" else off, on, pattern))
            case _:
                pass
    return dict(affixes)


def words_of(line: str, affixes: Mapping[str, Sequence[Affix]]) -> Iterator[str]:
    """The words of a line of stems, such as ``create/KADSV``.

    >>> rules = read_affixes(["PFX U Y 1", "PFX U 0 un .", "SFX S Y 1", "SFX S y ies [^aeiou]y"])
    >>> list(words_of("tidy/US", rules))
    ['tidy', 'tidies', 'untidies', 'untidy']
    """
    stem, _, names = line.partition("/")
    yield stem
    taken = [affix for name in names for affix in affixes.get(name, ())]
    prefixes, endings = [a for a in taken if a.prefix], [a for a in taken if not a.prefix]
    for ending in endings:
        word = ending.put(stem)
        if word is not None:
            yield word
            if ending.crosses:
                yield from (made for p in prefixes if p.crosses and (made := p.put(word)) is not None)
    yield from (made for p in prefixes if (made := p.put(stem)) is not None)
