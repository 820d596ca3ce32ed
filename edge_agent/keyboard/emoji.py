"""The emoji that the page offers and their names, from the Unicode data of the Python standard library.

Which code points a browser draws as emoji is the browser's knowledge, so the page filters them (UTS 51,
``Emoji_Presentation``). The names are English. Sequences of several code points are not offered.
"""

from __future__ import annotations

import functools
import unicodedata
from itertools import chain

_BLOCKS = (
    range(0x1F600, 0x1F650),  # faces and gestures come first
    range(0x1F90C, 0x1FB00),
    range(0x2600, 0x27C0),
    range(0x1F300, 0x1F600),
    range(0x1F680, 0x1F700),
)


@functools.cache
def emoji_names() -> tuple[tuple[str, str], ...]:
    """(character, name in lower case) of every named pictograph, faces first.

    >>> emoji_names()[0]
    ('😀', 'grinning face')
    """
    signs = map(chr, chain.from_iterable(_BLOCKS))
    return tuple((sign, unicodedata.name(sign).lower()) for sign in signs if unicodedata.category(sign) == "So")
