"""Words that insult people for what they are, which are typed and learned like others, and not offered by themselves.

Only slurs against groups are listed: for origin, skin, faith, sex, love or disability. Swear words are words like
others. Words that are mostly used in another sense are left out. A setting of the page offers slurs, too. Compiled by
hand, by language: a slur of one language may be a plain word of another.
"""

from __future__ import annotations

import tomllib
from importlib import resources

_LISTS: dict[str, str] = tomllib.loads(resources.files(__package__).joinpath("slurs.toml").read_text("utf-8"))
_SLURS = {language: frozenset(words.split()) for language, words in _LISTS.items()}
_ALL = frozenset().union(*_SLURS.values())


def slurs_of(language: str) -> frozenset[str]:
    """The slurs of a language, in lower case, with the forms that lexicons have; the same object at each call.

    ``language`` is an ISO 639 code; for one without a list, or none, the slurs of all languages.
    """
    return _SLURS.get(language, _ALL)
