# ruff: noqa: RUF001 - dashes, quotation marks and letters of other scripts are meant
"""Secrets that look like words: a key, a seed phrase, an address or a number that is spelt out.

No pattern knows every secret; these are the ways in which people send them, in the languages that the keyboard offers.
Pure.
"""

from __future__ import annotations

import itertools
import re
from importlib import resources

from nightjar.models.lexicon import fold

# --- keys and tokens ---

_KNOWN_KEY = re.compile(
    r"(?<![\w-])(?:(?:sk|pk|rk|whsec)[-_](?:[a-z]{2,8}[-_])?[\w-]{12,}|gh[pousr]_\w{12,}|github_pat_\w{12,}"
    r"|gl(?:pat|rt|dt|ft|ptt|soat|cbt|imt|agent)-[\w-]{12,}|nvapi-[\w-]{12,}|figd_[\w-]{12,}|sntry[su]_\w{12,}"
    r"|xox[abeprs]-[\w-]{8,}|xapp-[\w-]{8,}|(?:AKIA|ASIA)[A-Z0-9]{12,}|AIza[\w-]{16,}|ya29\.[\w-]{8,}"
    r"|SG\.[\w-]{8,}|hf_\w{12,}|npm_\w{12,}|pypi-[\w-]{12,}|dop_v1_\w{8,}|shp(?:at|ca|pa|ss)_\w{8,}|eyJ[\w-]{8,}"
    r"|AGE-SECRET-KEY-\w{8,}|sq0[a-z]{3}-[\w-]{8,}|tskey-[\w-]{8,}|dckr_pat_[\w-]{8,})"
    r"|(?<!\w)(?i:authorization:\s*(?:bearer|basic|token)|x-api-key:)\s+[\w.~+/=-]{6,}"
    r"|(?<!\w)(?:mysql|mariadb)[a-z]*\s[^\n;|]{0,200}?(?<=\s)-p[^\s-]\S{2,}|(?<!\w)sshpass\s+-p\s*\S{3,}"
    r"|(?<!\w)curl\s[^\n;|]{0,200}?(?<=\s)(?:-u|--user)[\s=]*[^\s:]+:\S{3,}"
    r"|-----BEGIN [A-Z ]*(?:PRIVATE KEY|PGP)|(?<!\w)ssh-(?:rsa|dss|ed25519)\s+AAAA"
)
_LETTERS = re.compile(r"[^\W\d_]{20,}")
_AGAIN = re.compile(r"(.{1,3}?)\1+", re.DOTALL)
_PAIRS = {
    letter: frozenset(after)
    for letter, after in (
        pair.split(":")
        for pair in str.split("""
a:abcdefghijklmnopqrstuvwxyz b:abdefghijklnorstuwyz c:acehikloqrstuyz d:abcdefghijlmnorstuvwy
e:abcdefghijklmnopqrstuvwxyz f:abefghiklnorstuwyz g:abeghiklmnorstuy h:abefgiklmnorstuwyz i:abcdefghijklmnopqrstuvxz
j:aeiou k:abefghiklnorstuwyz l:abcdefghiklmnopqrstuvwyz m:abdefghiklmnopstuwyz n:abcdefghijklmnopqrstuvwxyz
o:abcdefghijklmnopqrstuvwxyz p:aefhiloprstuy q:u r:abcdefghijklmnopqrstuvwyz s:abcdefghiklmnopqrstuvwyz
t:abcefghiklmnoprstuvwyz u:abcdefghijklmnopqrstvwxyz v:aeioruv w:abdehilnorsu x:acehioptuy y:abcdegilmnoprstuw
z:abcegilmnostuwyz
""")
    )
}
"""The letters that follow a letter in a word of German, English, Spanish, French, Italian or Portuguese: the pairs that
are at least one in ten thousand in the lexicon of one of them."""
_STRANGE_PAIRS = 2
"""So many other pairs make twenty letters a key: three German compounds in four thousand have as many."""
_DISGUISED = re.compile(
    r"(?<!\S)(?!(?:me|us|we|up|it|at|on|in|hi|ok|go|so)@)(?:[a-z]{1,2}@+[a-z$@0-9]{3,}|(?=\S{5,})[a-z@]*[a-z]\$+[a-z][a-z$@0-9]*)[.,!?]*(?!\S)",
    re.IGNORECASE,
)
_PHRASE = re.compile(r"(?<![\w/.-])[a-z]{3,9}(?:-[a-z]{3,9}){3,7}(?![\w/.-])", re.IGNORECASE)
_IN_COMPOUNDS = frozenset(
    str.split("""
the and for with from not that this than non pre off out over end one all any day under self too very lib dev bin doc
docs data common core plugin plugins utils tools server client gnome kde xserver xorg video image linux headers
generic python perl ruby java kernel module modules source free restricted extras ubuntu desktop base settings daemon
manager applet player gstreamer codecs ugly bad good mysql apache php network firmware package update config session
install driver drivers nvidia intel input mouse keyboard language support build
""")
)
"""Words of package names and of compounds, which passphrases are not made of."""

# --- seed phrases ---

_WORD_LISTS = [
    frozenset(fold(listed).split())
    for listed in resources.files(__package__).joinpath("seed_words.txt").read_text("utf-8").split("\n\n")
]
"""The words that wallets draw their phrases from, in five languages (BIP 39, lists of the MIT-licensed reference
implementation trezor/python-mnemonic; seed_words.LICENSE.txt)."""
_SEED_WORDS, _WITH_A_SLIP = 9, 10
"""Words of one list in a row that are a phrase, and with one other word among them; phrases have twelve or more. Those
that sentences are held together by do not count."""
_SEED_NAMED = 4
"""The same after the name of such a phrase."""
_SEED_NAME = re.compile(
    r"(?<!\w)(?:(?:seed|recovery|wallet|backup|secret)[ -](?:phrase|words?)|seed|mnemonic|semilla)(?!\w)"
)
_HOLDS_TOGETHER = frozenset(
    str.split("""
about again all also any can have into just know like much must need now only other own some that then there they this
use very want way what when where will with work you your able off over try
avec dans donc pour sous voir faire como cada cerca para algo solo nada
""")
)

# --- what is spelt out ---

_SPELT_OUT = (
    (r"@|\(at\)|\[at\]|at(?:[ -]sign)?", r"dot"),
    (r"@|ät|at|klammeraffe", r"punkt|dot"),
    (r"@|arroba|arobase|chiocciola", r"punto|point|ponto|dot"),
    (r"@|собака|собачка|равлик", r"точка|крапка"),
)
_DOT_SAID = r"\s+(?:dot|punkt|punto|point|ponto)\s+(?=(?:com|net|org|de|fr|es|it|pt|ru|at|ch|eu|me)(?!\w))"
_PROVIDERS = (
    r"(?:gmail|googlemail|hotmail|outlook|yahoo|icloud|aol|live|msn|gmx|proton(?:mail)?|yandex|libero|posteo|mailbox)"
    rf"(?:\.|{_DOT_SAID}|\s+(?=com(?!\w)))(?:[a-z]{{2,3}})(?:\.[a-z]{{2}})?|(?:web|t-online|freenet)\.de|(?:mail|bk|list)\.ru|(?:orange|free|laposte|wanadoo|sfr)\.(?:fr|net)|ukr\.net"
)
"""Where people have their addresses."""
_NO_NAMES = (
    "account|mail|e-?mail|inbox|address|login|support|is|are|was|were|am|i'm|me|it|him|her|them|us|you|we|they|he|she|i|look|looked"
    "|looking|work|works|worked|working|bought|buy|order|ordered|shop|shopping|check|out|up|found|sold|based|available|hosted"
    "|page|site|download|downloads|read|here|there|up|this|that|one|all|konto|postfach|gekauft|bestellt|schau|guck|gibt"
)
_SPELT_ADDRESS = re.compile(
    "|".join(
        rf"(?<![\w.+'-])(?!(?:{_NO_NAMES})\s)[\w.+-]+\s+(?:{at})\s+[\w-]+(?:\s+(?:{dot})\s+|\s*[\[(](?:{dot})[\])]\s*)[^\W\d_]{{2,10}}(?!\w)"
        for at, dot in _SPELT_OUT
    )
    # mail me ada @ example . org
    + rf"|(?<![\w.+'-])(?!(?:{_NO_NAMES})\s)[\w.+-]{{3,}}\s+(?:at|ät|bei|chez|en|su)\s+(?:{_PROVIDERS})(?!\w)"
    + r"|[\w.+-]+\s+@\s+[\w-]+\s*\.\s*[a-z]{2,10}(?![\w.])",
    re.IGNORECASE,
)
_LOCAL_ADDRESS = re.compile(r"(?<![\w@:/.])[a-z][\w.+-]*@(?:localhost|localdomain|local)(?!\w)", re.IGNORECASE)
_FIGURES = frozenset(
    str.split("""
zero oh one two three four five six seven eight nine double triple ten eleven twelve twenty thirty forty fifty sixty
seventy eighty ninety dix onze douze treize quatorze quinze seize vingt trente quarante cinquante soixante null
eins zwei drei vier fünf sechs sieben acht neun zwo
cero uno dos tres cuatro cinco seis siete ocho nueve zéro un deux trois quatre cinq sept huit neuf due tre quattro
cinque sei sette otto nove um dois três quatro oito sete ноль нуль один два три четыре пять шесть семь восемь девять
чотири п'ять шість сім вісім дев'ять
""")
)
_FIGURES_IN_A_ROW = 5
_WORDS = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_LETTERS_ONLY = re.compile(r"[^\W\d_]+")


def is_key(text: str) -> bool:
    """Whether a key with a known beginning, a long row of letters that is no word, or a password in disguise is in it.

    >>> is_key("use sk-proj-abcdefghijklmnop"), is_key("P@ssword"), is_key("supercalifragilisticexpialidocious")
    (True, True, False)
    """
    if _KNOWN_KEY.search(text) is not None or _DISGUISED.search(text) is not None:
        return True
    if any(_strange_pairs(run) >= _STRANGE_PAIRS for run in _LETTERS.findall(text)):
        return True
    return any(not any(part in _IN_COMPOUNDS for part in phrase.lower().split("-")) for phrase in _PHRASE.findall(text))


def _strange_pairs(run: str) -> int:
    """How many letters follow another that they follow in no word; what is repeated (hahaha, yessss) counts once."""
    letters = _AGAIN.sub(r"\1", "".join(letter for letter in fold(run) if letter in _PAIRS))
    return sum(after not in _PAIRS[letter] for letter, after in itertools.pairwise(letters))


def is_seed_phrase(text: str) -> bool:
    """Whether so many words of one list stand in a row, with nothing but figures and signs between them.

    >>> is_seed_phrase("legal winner thank year wave sausage worth useful legal winner thank yellow")
    True
    >>> is_seed_phrase("milk, eggs, bread, butter, cheese, apples, bananas, carrots, onions, garlic, rice, pasta")
    False
    """
    folded = fold(text)
    named = _SEED_NAME.search(folded)
    after_name = len(text) if named is None else named.end()
    rows = [(0, 0)] * len(_WORD_LISTS)  # of each list: words since the last other word, and since the one before it
    for word in _LETTERS_ONLY.finditer(folded):
        counts = word.group() not in _HOLDS_TOGETHER
        rows = [
            (row + counts, longer + counts) if word.group() in listed else (0, row)
            for (row, longer), listed in zip(rows, _WORD_LISTS, strict=True)
        ]
        row, longer = max(row for row, _ in rows), max(longer for _, longer in rows)
        if row >= (_SEED_NAMED if word.start() >= after_name else _SEED_WORDS) or longer >= _WITH_A_SLIP:
            return True
    return False


def is_spelt_address(text: str) -> bool:
    """Whether an e-mail address is spelt out.

    >>> is_spelt_address("john dot doe at gmail dot com"), is_spelt_address("meet me at noon")
    (True, False)
    """
    return _SPELT_ADDRESS.search(text) is not None or _LOCAL_ADDRESS.search(text) is not None


def is_spelt_number(text: str) -> bool:
    """Whether five figures in a row are spelt out.

    >>> is_spelt_number("it is four one one one two"), is_spelt_number("one or two of them")
    (True, False)
    """
    return longest_row_of_figures(text) >= _FIGURES_IN_A_ROW


def longest_row_of_figures(text: str) -> int:
    """How many figures that are spelt out stand in a row.

    >>> longest_row_of_figures("not one, but four two one nine")
    4
    """
    row = longest = 0
    for word in _WORDS.findall(text.casefold()):
        row = row + 1 if word in _FIGURES else 0
        longest = max(longest, row)
    return longest
