# ruff: noqa: RUF001 - dashes, quotation marks and letters of other scripts are meant
"""A password, PIN or token that stands after its name.

No pattern knows every secret; these are the ways in which people send them: "my password is sunshine", "Passwort:
sommerregen", "changed the pin to ...", "sunshine is the password". A message about passwords is kept, unless something
stands where a password would, and is no word that sentences about them go on with. Some names mean other things as well
(a pass, a pin, a token): they count only after an account, an article or a possessive, or before a colon. The names are
in the languages that the keyboard offers; of others only what stands after a colon counts. Pure.
"""

from __future__ import annotations

import re
from importlib import resources

from nightjar.edge_agent.core.spelt_secrets import longest_row_of_figures

# --- what a secret is called ---

_DOORS = (
    r"door|gate|alarm|wi-?fi|wlan|access|security|verification|one[ -]time|unlock|entry|building|recovery|login|backup"
    r"|activation|secret|safe|lock|garage|keypad"
)
_LONG_NAMES = (
    r"pass[ -]?(?:words?|phrase|code)|pin[ -]?(?:code|number|nummer)|apikey"
    r"|(?:api|access|secret|auth|private|client|shared|recovery|wi-?fi|wpa2?|wlan)[ _-]?(?:key|token|secret)"
    rf"|(?:{_DOORS})[ -]code|(?:seed|recovery|backup|mnemonic|secret|wallet)[ -](?:phrase|words)"
    r"|(?:security|secret) answer|answer to (?:the|my|your|his|her) (?:security|secret) question|maiden name"
    r"|passwort|passwörter|pa(?:ss|ß)wort|kennwort|geheimzahl|geheimwort"
    r"|(?:zugangs|sicherheits|tür|tuer|alarm|freischalt|wlan-?)code|(?:wlan|netzwerk|sicherheits)[ -]?schlüssel"
    r"|contrase(?:ñ|n|gn)as?|clave (?:secreta|de acceso)|código (?:secreto|pin)"
    r"|código de (?:acceso|seguridad|la puerta)|mots? de passe|code (?:secret|pin|wi-?fi|d['’](?:entrée|accès|acces))"
    r"|code de (?:sécurité|la porte|l['’]immeuble)"
    r"|clé wi-?fi|phrase secrète|parola (?:d['’]ordine|chiave|segreta)"
    r"|codice (?:segreto|pin|di (?:accesso|sicurezza)|del (?:cancello|portone))"
    r"|senha|palavra[ -]passe|código (?:secreto|pin|de (?:acesso|segurança))"
    r"|парол(?:ь|я|ю|ем|і)|пароль[- ]|п[иі]н[ -]?код|код (?:доступа|доступу|домофона|безопасности)|кодов(?:ое|е) слово"
)
_SHORT_NAMES = (
    r"(?<![^\W_])(?<!\$)(?:passwd|pass wd|pwd|pw|p/w|psw|pswd|passw|pword|pasword|passwrd|passowrd|paswort|mdp|otp|cvv"
    r"|cvc|пін|пин)"
)
_CLEAR = rf"(?:{_LONG_NAMES}|{_SHORT_NAMES})(?![\w-])"
_COMPOUNDS_OF_IT = (
    r"(?<=pass)[ -]?(?:words?|phrase|code)|(?<=pin)[ -]?(?:code|number|nummer)"  # that are names themselves
    r"|\s(?:rates?|marks?|bands?|filters?|rings?|buckets?|boards?|cushions?|stripes?|economy|judge?ments?)"
)
_OTHER = rf"(?<![^\W_])(?:pass|pin|token|clave|parol[ae]|токен)(?![\w-]|(?:{_COMPOUNDS_OF_IT})(?!\w))"
"""Names that mean other things as well, but not in a pass rate or a token ring."""
_FOREIGN = (
    r"wachtwoord|hasło|lösenord(?:et)?|adgangskode|kodeord(?:et)?|passord(?:et)?|salasana|şifre|heslo|jelszó|parol[aă]"
    r"|κωδικός|συνθηματικό|كلمة (?:السر|المرور)|סיסמה|密码|密碼|パスワード|비밀번호|पासवर्ड|mật khẩu|kata sandi"
)
_BOTH = r"credentials|zugangsdaten|anmeldedaten|credenciales|identifiants|credenziali|credenciais"
_CODE = re.compile(
    r"(?<!\w)(?:code|combination|kombination|código|codice|код|combinación|combinazione|combinaison)(?!\w)",
    re.IGNORECASE,
)
"""Of many things: only figures after it are a secret."""
_NAME = re.compile(rf"{_CLEAR}|{_OTHER}", re.IGNORECASE)
"""What a secret is called."""
_MINE = (
    r"my|our|your|his|her|their|mein|meine|dein|deine|unser|unsere|ihr|ihre|sein|seine|mi|tu|su|nuestr[ao]|mon|ma|ton|ta"
    r"|notre|votre|mia|mio|tua|tuo|sua|suo|nostr[ao]|minha|meu|teu|seu|nossa|мой|твой|наш|ваш|мій|твій"
)
_ACCOUNTS = (
    r"login|user(?:name)?|account|acc|benutzer(?:name)?|konto|usuario|cuenta|utilisateur|identifiant|compte|utente|usuário"
    r"|utilizador|conta|логин|логін|gmail|wi-?fi|wlan|netflix|paypal|ebay|amazon|facebook|instagram|outlook|icloud|apple"
    r"|google|router|e-?mail|вай-?фа\w*|почт[аыу]|роутер\w*"
)
_ACCOUNT = re.compile(rf"(?<!\w)(?:{_ACCOUNTS})(?!\w)", re.IGNORECASE)

# --- where it stands ---

_FOR = (
    r"(?:for|of|to|on|at|für|fürs|vom|von|zum|zu|im|del|de|du|des|para|pour|di|della|per|do|da|от|для|від|к|до)"
    r"\s+(?:\S+\s+){0,2}?\S+|(?:de l|dell|d)['’]\S+"
)
_STILL = r"(?:\s+(?:now|still|just|always|simply|actually|literally|currently|both|called|set to))*"
_IS = (
    r"(?:is|was|has\s+been|been)\s+(?:changed|set|reset|updated)\s+to|(?:is|was)\s+(?:going\s+to|gonna)\s+be|used\s+to\s+be"
    rf"|(?:is|was|are|remains|stays){_STILL}|(?:will|should|must)\s+be|becomes"
    r"|ist(?:\s+(?:jetzt|nun|noch|immer noch|weiterhin|einfach|ab jetzt|ab sofort))?|bleibt|war"
    r"|wäre|lautet|heißt|heisst|es|era|será|sigue siendo"
    r"|(?:est|était)(?:\s+(?:toujours|encore|maintenant))?|reste|sera|c['’]?est"
    r"|è(?:\s+(?:sempre|ancora|ora|adesso))?|resta|sarà|é|continua(?:\s+sendo)?"
    r"|это|был|будет|остался|це|був|буде|залишився"
)
_VALUE = r"[\"'“‘«„`]*(?P<value>[^\s\"'“”‘’«»„`]\S*)(?P<rest>[^\n]*)"
_WRITTEN = r"[\"'*_]{0,2}\s*(?:[:=]|[-–—=]?>|[→⇒])\s*"
"""After a name that may itself be quoted, as in JSON, or bold."""
_SAID = rf"(?:['’]s{_STILL}\s+|\s+[-–—]+\s+|\s+(?:{_IS})(?:\s*[:=-])?\s+|\s+(?:{_IS})\s*[:=]\s*)"
_WHICH = (
    r"(?:\s+|,?\s+(?:that|which)\s+)(?:i|we|you|he|she|they)\s+(?:[\w'’]+\s+){0,3}?[\w'’]+,?"
    r"|,?\s+(?:das|die|den)\s+(?:ich|wir|du|ihr|er|sie)\s+(?:\w+\s+){0,3}?\w+,?"
    r"|,?\s+(?:que|che)\s+(?:[\w'’]+\s+)?[\w'’]+,?"
)
"""Whose it is, or what for: the password that we always use is ..."""
_AS = r"(?:as|for (?:the|my|your)|als|como|comme|come|как|як)"
_NEAR = r"(?:[^\W\d_]+\s+){0,3}?"

_WITH_COLON = re.compile(
    rf"(?:{_CLEAR}|{_OTHER}|(?:{_FOREIGN}|{_BOTH}))(?:\s+(?:{_FOR}|{_ACCOUNTS}))?(?:\s*\([^()\n]{{1,40}}\))?{_WRITTEN}{_VALUE}",
    re.IGNORECASE,
)
_PAIR = re.compile(
    r"(?<!\w)(?:login|user(?:name)?|benutzer(?:name)?|konto|usuario|utilisateur|identifiant|utente|usuário|utilizador"
    rf"|логин|логін|router|роутер|wi-?fi|wlan|{_BOTH})s?\s*[:=]\s*[^\s/:]{{1,64}}(?:\s/\s|:)(?P<value>[^\s/:]{{1,64}})\s*$",
    re.IGNORECASE,
)
"""login: ada / byron, login: ada:byron"""
_QUOTED = re.compile(rf"{_CLEAR}\s+[\"“„«](?P<value>[^\s\"”“»]+)\s[^\"”“»\n]+[\"”“»]", re.IGNORECASE)
"""passphrase "moonlight river"."""
_WITH_COLON_LATER = re.compile(rf"{_CLEAR}\s+[^\W\d_]+{_WRITTEN}(?P<value>\S+)\s*$", re.IGNORECASE)
_STATED = re.compile(
    rf"(?:{_CLEAR}(?:{_WHICH})?|(?P<other>{_OTHER}))(?:\s+(?:{_FOR}|{_ACCOUNTS}))?{_SAID}{_VALUE}", re.IGNORECASE
)
_CHANGED = re.compile(
    r"(?<!\w)(?:chang|set|reset|updat|switch|renam|mad|make|änder|geänder|setz|gesetz|stell|cambi|change|pus|poner|mis|met|"
    r"alter|mud|сменил|поменял|поставил|змінив|поставив|ich habe|hab)\w*\s+"
    rf"{_NEAR}(?:{_CLEAR}|{_OTHER})\s+{_NEAR}(?:to|auf|a|en|à|para|на)\s+[\"'“‘«„`]*(?P<value>[^\s\"'“”‘’«»„`.,;!?]+)"
    r"[\"'”’».,;!?)]*(?:$|[.,;!?)]|\s+(?:please|pls|thanks|thx|btw|by the way"
    r"|for (?:you|now)|bitte|danke|por favor|gracias|merci|per favore|grazie"
    r"|yesterday|today|now|again|just|geändert|gesetzt|gestellt|umgestellt|gestern|heute|ayer"
    r"|hoy|hier|ieri|oggi|ontem|hoje|вчера|сегодня|вчора|сьогодні)(?!\w))",
    re.IGNORECASE,
)
_CHANGED_IN_GERMAN = re.compile(
    rf"(?:{_CLEAR}|{_OTHER})\s+{_NEAR}auf\s+[\"“„]?(?P<value>\S+?)[\"“]?\s+(?:ge|um|ab)\w+t(?!\w)",
    re.IGNORECASE,
)
_SO_NAMED = re.compile(
    rf"^\W*(?:it['’]s\s+)?(?P<value>\w[^\s,]*)\s+(?:is|was|ist|war|es|est|è|é|это|це|—|–|-)\s+"
    rf"(?:the|die|das|der|la|le|il|el|a|{_MINE})\s+(?:[^\W\d_]+\s+)?(?:{_CLEAR})"
    r"(?:\s+(?:for|für|de|del|du|pour|per|di|do|da)\s|\W*$)",
    re.IGNORECASE,
)
_USED_AS = re.compile(
    r"(?<!\w)(?:use|using|used|try|with|enter|type|put|set|chose|mit|nimm|nehme|nutze|habe?|usa|uso|utilise|avec|con|com"
    r"|puse|puesto|mis|mets|messo|metto|pus|поставил\w*|взял\w*)\s+[\"'“‘«„`]*"
    rf"(?P<value>[^\s\"'“”‘’«»„`]+)[\"'”’»]?\s+{_AS}\s+(?:[^\W\d_]+\s+){{0,2}}?(?:{_CLEAR})"
    r"(?!\s+(?:manager|keeper|generator|app)(?!\w))",
    re.IGNORECASE,
)
_USED = re.compile(
    r"(?<!\w)(?:use|using|try|nimm|nutze|benutze|usa|utilise|prova|tenta)\s+(?:the\s+|my\s+|this\s+|das\s+|la\s+|le\s+|il\s+|a\s+)?"
    rf"(?:{_CLEAR})\s+{_VALUE}",
    re.IGNORECASE,
)
_LAST = r"\s+[\"'“‘«„]?(?P<value>[^\s\"'”’».,;:!?()]+)[\"'”’»]?\s*[.!]?\s*$"
_BESIDE = re.compile(
    rf"(?:(?:{_CLEAR})(?:\s+(?:(?:от|від|на|к|до|для)\s+\S+|(?:do|del|du|for|für)\s+(?:{_ACCOUNTS})))?|(?P<other>{_OTHER})){_LAST}",
    re.IGNORECASE,
)
_AFTER = re.compile(
    rf"(?:(?P<other>{_OTHER})|{_CLEAR})\s+[\"'“‘«„]?(?P<value>[^\s\"'”’».,;:!?()]+)",
    re.IGNORECASE,
)

# --- what is none ---

_NO_SECRETS = frozenset(resources.files(__package__).joinpath("no_secrets.txt").read_text("utf-8").split())
"""Words that go on a sentence about passwords, and so are none: those that hold it together, and the verb forms,
adjectives and adverbs that really follow. They are listed, since no ending tells "stored" from "hundred"; a noun does
not belong to them."""
_WEAK = frozenset(
    {"admin", "root", "user", "secret", "test", "ubuntu", "login", "password", "server", "guest", "default", "wifi"}
)
"""Passwords that people really have, and words that go on a sentence: after a colon, at the end, they are the first."""
_COMPOUNDS = (
    "mountain|boarding|bus|train|rail|ski|season|hall|backstage|press|back|forward|hair|safety|push|rolling|clothes|bowling"
    "|drawing|lapel|gpio|connector|touchdown"
)
_COMPOUND = re.compile(rf"(?<!\w)(?:{_COMPOUNDS})\s$", re.IGNORECASE)
"""A mountain pass, a hair pin."""
_IN_A_SENTENCE = re.compile(
    rf"(?:(?<!\w)|(?<=['’]))(?:{_COMPOUNDS}|a|an|next|can|could|to|ll|will|would|should|not|t|dont|i|we|they|you"
    r"|una|toda|otra)\s$",
    re.IGNORECASE,
)
"""A token gesture, next token prediction, can pass, don't pass: the word after these is no password, unless "is" stands
between."""
_MINE_BEFORE = re.compile(rf"(?<!\w)(?:{_MINE}|{_ACCOUNTS})\s(?:[^\W\d_]+\s)?$", re.IGNORECASE)
_MAY_BE = re.compile(r"[^\W_]")
_FIGURES_OF_A_PIN = 3
_FIGURES_OF_A_CODE = 4
_LONGEST_BEFORE = 20
_END_OF_A_PART = re.compile("[.,;!?()](?:\\s|$)")
_FEW = 3
"""Words after a colon that are a password: a sentence that goes on after it has more."""


def follows_its_name(text: str) -> bool:
    """Whether a password, PIN or token stands after its name.

    >>> follows_its_name("my password is sunshine"), follows_its_name("the password is wrong")
    (True, False)
    >>> follows_its_name("Passwort: sommerregen"), follows_its_name("login admin pass letmein")
    (True, True)
    >>> follows_its_name("my new pin is apricot"), follows_its_name("the mountain pass is beautiful")
    (True, False)
    """
    # A row of spaces is one, and an empty line none: no pattern has to try where to part them.
    text = "\n".join(line for line in (" ".join(line.split()) for line in text.split("\n")) if line)
    code = _CODE.search(text)
    if code is not None and longest_row_of_figures(text[code.end() :]) >= _FIGURES_OF_A_CODE:
        return True
    named = _NAME.search(text)
    if named is None:
        return _written(text)  # after a name of another language
    if longest_row_of_figures(text[named.end() :]) >= _FIGURES_OF_A_PIN:
        return True
    return _written(text) or _said(text) or _beside(text)


def _written(text: str) -> bool:
    """After a colon and the like."""
    return any(
        _is_written(found["value"], found["rest"] if pattern is _WITH_COLON else "")
        for pattern in (_WITH_COLON, _WITH_COLON_LATER, _PAIR)
        for found in pattern.finditer(text)
    )


def _is_written(value: str, rest: str) -> bool:
    """Whether a password is what stands after a colon: one word, or a few that no sentence goes on with."""
    if _may_be_secret(_bare(value)) or (not rest.strip(" .!)") and _bare(value).casefold() in _WEAK):
        return True
    words = _END_OF_A_PART.split(f"{value}{rest}", maxsplit=1)[0].split()
    return _is_a_phrase(rest) or (len(words) <= _FEW and any(_may_be_secret(_bare(word)) for word in words))


def _said(text: str) -> bool:
    """In a sentence that says so."""
    for found in _STATED.finditer(text):
        if _is_of_other_things(text, found, _COMPOUND):
            continue
        owned = found["other"] is None or _MINE_BEFORE.search(_just_before(text, found))
        if _may_be_secret(_bare(found["value"])) or (owned and _is_a_phrase(found["rest"])):
            return True
        if ":" in found[0][: found.start("value") - found.start()] and _is_written(found["value"], found["rest"]):
            return True
    return any(
        _may_be_secret(_bare(found["value"]))
        for pattern in (_QUOTED, _CHANGED, _CHANGED_IN_GERMAN, _SO_NAMED, _USED_AS, _USED)
        for found in pattern.finditer(text)
    )


def _is_a_phrase(rest: str) -> bool:
    """Whether the words after the first one are those of a passphrase: none holds a sentence together."""
    words = [_bare(word) for word in rest.split()[:3]]
    return len(words) == 3 and all(word.isalpha() and _may_be_secret(word) for word in words)


def _beside(text: str) -> bool:
    """Right after the name, as the last word, or after an account."""
    found = _BESIDE.search(text)
    if found is not None and not _is_of_other_things(text, found, _IN_A_SENTENCE) and _may_be_secret(found["value"]):
        return True
    account = _ACCOUNT.search(text)
    return account is not None and any(
        _may_be_secret(after["value"]) and not _is_of_other_things(text, after, _IN_A_SENTENCE)
        for after in _AFTER.finditer(text, account.end())
    )


def _is_of_other_things(text: str, found: re.Match[str], before: re.Pattern[str]) -> bool:
    return found["other"] is not None and before.search(_just_before(text, found)) is not None


def _just_before(text: str, found: re.Match[str]) -> str:
    return text[max(0, found.start() - _LONGEST_BEFORE) : found.start()]


def _bare(value: str) -> str:
    return value.strip("\"'“”‘’«»„.,;:!?()[]<>*`")


def _may_be_secret(value: str) -> bool:
    return len(value) >= 3 and value.casefold() not in _NO_SECRETS and _MAY_BE.search(value) is not None
