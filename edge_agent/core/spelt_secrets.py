# ruff: noqa: RUF001 - dashes, quotation marks and letters of other scripts are meant
"""Secrets that look like words: a password after its name, a seed phrase, an address that is spelt out.

No pattern knows every secret; these are the ways in which people send them. Each rule errs on the side of keeping: a
message about passwords is kept, unless something stands where a password would ("my password is ..."). The names are in
the languages that the keyboard has layouts for. Pure.
"""

from __future__ import annotations

import re

# --- a password, PIN or token after its name ---

_NAMES = (
    r"pass[ -]?(?:word|wd|phrase|code)|passwd|pwd|pw|pass|pin(?:[ -]?(?:code|number))?"
    r"|(?:api|access|secret|auth|private)[ _-]?(?:key|token)|apikey|token"
    r"|passwort|pa(?:ss|ß)wort|kennwort|geheimzahl|zugangscode|pin-?nummer"
    r"|contraseñ?a|contrasena|clave|mot de passe|mdp|code (?:secret|pin)"
    r"|parola d'ordine|codice (?:segreto|pin)|parol[ae]|senha|palavra-passe"
    r"|пароль|паролем|пин(?:[ -]?код)?|пін(?:[ -]?код)?|токен"
)
NAME = re.compile(rf"(?<![\w-])(?:{_NAMES})(?![\w-])", re.IGNORECASE)
"""What a secret is called."""
_IS = r"is now|is|was|are|ist|war|lautet|es|era|est|était|è|é|era|это|был|це|був"
_STATED = re.compile(
    rf"(?<![\w-])(?:{_NAMES})(?![\w-])"
    rf"(?:\s+(?:for|of|to|für|von|para|de|pour|di|per|do|da|от|для|від)\s+(?:\S+\s+){{0,2}}?\S+)?"
    rf"\s*(?P<link>[:=]|[-–—]?>|\s[-–—]\s|\s(?:{_IS})\s)\s*(?P<value>[^\s]+)",
    re.IGNORECASE,
)
_BESIDE = re.compile(
    rf"(?<![\w-])(?:{_NAMES})(?![\w-])\s+[\"'“‘«]?(?P<value>[^\s\"'”’».,;:!?()]+)[\"'”’»]?\s*[.!]?\s*$", re.IGNORECASE
)
_AFTER = re.compile(rf"(?<![\w-])(?:{_NAMES})\s+[\"'“‘«]?(?P<value>[^\s\"'”’».,;:!?()]+)", re.IGNORECASE)
_ACCOUNT = re.compile(
    r"(?<!\w)(?:login|user(?:name)?|account|acc|benutzer(?:name)?|konto|usuario|cuenta|utilisateur|identifiant|compte|"
    r"utente|usuário|utilizador|conta|логин|логін|gmail|wi-?fi|wlan|netflix|paypal|ebay|amazon|facebook|instagram|"
    r"outlook|icloud|apple|google|router|e-?mail)(?!\w)",
    re.IGNORECASE,
)
_NO_SECRET = frozenset(
    str.split("""
a about above access account across admin after again all allowed already also always am an and any anymore anyway are
argument around as ask asked asking asks at auth authentication back be because been before being blank box broken but
by bypass came can cannot cant case change changed changes changing check checking clear command correct cracking could
created default defined deleted dialog did different disabled do does doesn't done dont don't each easy either else
empty enabled encrypted encryption enter entered entry enough error even ever every exactly expired expires failed fail
fails false field file fine first for forgotten forgot found from generator get given gives goes going gone good gotten
granted had handled has hash hashed have he her here hidden his how i if in incorrect inside instead invalid is isn't it
it's its just keep keeps kept known last least left length less like likely list locked login longer lost made manager
match matches maybe me mine missing more most much must my n/a necessary need needed needs never new next nice no none
normally not nothing now null of off ok okay old on once one only opened optional or other our out over own pair
part password passwords per plain plaintext please policy possible present probably prompt prompted prompting prompts
protected protection provided quite random read really recover recovery rejected remember remembered removed required
requested requires reset resetting restricted right root root's safe said same saved saying says secret secure security
sent server set setting setup shadow she should showing shown similar simple since so some something sometimes somewhere
still storage stored strong stuff such sudo sudoers supposed sure system than that that's the their them then there
there's these they thing this those though through thru time times to together too trivial true twice two type typed
typing ubuntu under unknown unless unnecessary unset until up used useful useless user user's username using usually
valid very visible was way we weak well were what whatever what's when where whether which while who whole why will with
within without won't work worked working works would wrong wrongly x xxx xxxx yes yet you your you're yours
abgelaufen aber alle als am an auch auf bei bitte da das dass dein deine dem den der die dir doch du ein eine einen er
es falsch für geheim gleich gut hier ich ihr im in ist ja jetzt kein keine leer man mehr mein meine mir mit nach nicht
nichts noch nötig nur ob oder richtig schon sein sehr sicher sich sie so und uns vergessen von war was weg weiß wenn wer
wie wieder wir wo zu zurück zurücksetzen ändern
al algo aquí bien como con correcta cuando cómo de del donde el ella en esa ese esta este está fue incorrecta la las lo
los me mi mis muy más no nueva o para pero por que qué se segura si sin son su te tu un una vacía y ya yo
au aussi avec bien bon bonne c'est ce ces cette dans de des du elle en est et faux fausse il ici je la le les leur ma
mais mes moi mon ne non nous nouveau on ou oublié par pas plus pour qu que quel quelle qui sa sans se ses si son sur ta
te tes toi ton trop très tu un une vide votre vous
anche che chi ci come con corretta cosa da dei del della di dimenticata e giusta gli ha ho i il in io la le lei lo loro
lui ma mi mia mio molto ne nella no noi non nuova o per perché più qual qui sbagliata scaduta se sei si sono su sua suo
ti tra tu tua tuo un una vi
ao aqui as com correta da das de dela dele do dos e ela ele em errada essa esta eu foi mas me meu minha muito na nas no
nos nova não o os ou para pela pelo por que quem se sem seu sua são só te tem um uma vazia você
а без бы был быть в вам вас верный во вот вы где да для до его ее если есть еще же за и из или им их к как когда кто ли
мне мой мы на надо не нет неверный неправильный но новый ну о об он она они от по под при с себя сброс свой сменить
так также там твой то тоже только тот ты у уже что чтобы это этот я
або був але без бо в вам вас ви від все ви вже да де для до його же з за забув зі і із й його як коли ми на не невірний
неправильний немає ні новий о по при про свій та так там твій те то тут у це цей чи що я який є її їх
""")
)
"""Words that go on a sentence about passwords, and so are none."""
_MAY_BE = re.compile(r"[^\W_]")

# --- keys and tokens ---

_KNOWN_KEY = re.compile(
    r"(?<![\w-])(?:(?:sk|pk|rk|whsec)[-_](?:[a-z]{2,8}[-_])?[\w-]{12,}|gh[pousr]_\w{12,}|github_pat_\w{12,}"
    r"|glpat-[\w-]{12,}|xox[abeprs]-[\w-]{8,}|xapp-[\w-]{8,}|(?:AKIA|ASIA)[A-Z0-9]{12,}|AIza[\w-]{16,}|ya29\.[\w-]{8,}"
    r"|SG\.[\w-]{8,}|hf_\w{12,}|npm_\w{12,}|pypi-[\w-]{12,}|dop_v1_\w{8,}|shp(?:at|ca|pa|ss)_\w{8,}|eyJ[\w-]{8,}"
    r"|AGE-SECRET-KEY-\w{8,}|sq0[a-z]{3}-[\w-]{8,}|tskey-[\w-]{8,}|dckr_pat_[\w-]{8,})"
    r"|-----BEGIN [A-Z ]*(?:PRIVATE KEY|PGP)|(?<!\w)ssh-(?:rsa|dss|ed25519)\s+AAAA"
)
_LETTERS = re.compile(r"[^\W\d_]{20,}")
_ONE_SOUND = re.compile("tsch|sch|ch|ck|th|ph|sh|qu|ng|ss|st|tt|ll|nn|rr", re.IGNORECASE)
_NO_VOWELS = re.compile(r"[b-df-hj-np-tv-xz]{5,}", re.IGNORECASE)
_DISGUISED = re.compile(
    r"(?<!\S)(?:[a-z]{1,2}@+[a-z$@0-9]{3,}|(?=\S{5,})[a-z@]*[a-z]\$+[a-z][a-z$@0-9]*)[.,!?]*(?!\S)", re.IGNORECASE
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

_SEED_WORD = re.compile(r"[^\W\d_]{3,8}")
_SEED_WORDS = 12
_NO_SEED = frozenset(
    str.split("""
the and for are was were not but his her him had has have been with from your you're they're does did doing don't isn't
can't its it's i'm our who how why get got too let's which could should would their them these those some more than into
using after like just know need want make work works used when what that this will then there here also only about
und der die das den dem des ein eine einen ist nicht auch mit für auf aus bei wie was wir sie ich man noch nur aber oder
los las una por con del que para como pero más sus son está les des une dans pour pas est sur avec mais qui vous nous
che per non con una del della sono come più anche não uma com por para que dos das mais как что это для или мне так все
его если уже еще нет щоб для або так його вже ще
""")
)

# --- what is spelt out ---

_SPELT_OUT = (
    (r"@|\(at\)|\[at\]|at", r"dot"),
    (r"@|ät|at|klammeraffe", r"punkt|dot"),
    (r"@|arroba|arobase|chiocciola", r"punto|point|ponto|dot"),
    (r"@|собака|собачка|равлик", r"точка|крапка"),
)
_SPELT_ADDRESS = re.compile(
    "|".join(
        rf"[\w.+-]+\s+(?:{at})\s+[\w-]+(?:\s+(?:{dot})\s+|\s*[\[(](?:{dot})[\])]\s*)[^\W\d_]{{2,10}}(?!\w)"
        for at, dot in _SPELT_OUT
    )
    # mail me ada @ example . org
    + r"|[\w.+-]+\s+@\s+[\w-]+\s*\.\s*[a-z]{2,10}(?![\w.])",
    re.IGNORECASE,
)
_LOCAL_ADDRESS = re.compile(r"(?<![\w@:/.])[a-z][\w.+-]*@(?:localhost|localdomain|local)(?!\w)", re.IGNORECASE)
_FIGURES = frozenset(
    str.split("""
zero oh one two three four five six seven eight nine double null eins zwei drei vier fünf sechs sieben acht neun zwo
cero uno dos tres cuatro cinco seis siete ocho nueve zéro un deux trois quatre cinq sept huit neuf due tre quattro
cinque sei sette otto nove um dois três quatro oito sete ноль нуль один два три четыре пять шесть семь восемь девять
чотири п'ять шість сім вісім дев'ять
""")
)
_FIGURES_IN_A_ROW = 5
_WORDS = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")


def follows_its_name(text: str) -> bool:
    """Whether a password, PIN or token stands after its name.

    >>> follows_its_name("my password is sunshine"), follows_its_name("the password is wrong")
    (True, False)
    >>> follows_its_name("Passwort: sommerregen"), follows_its_name("login admin pass letmein")
    (True, True)
    """
    for stated in _STATED.finditer(text):
        value = _bare(stated["value"])
        if _may_be_secret(value):
            return True
    beside = _BESIDE.search(text)
    if beside is not None and _may_be_secret(beside["value"]):
        return True
    account = _ACCOUNT.search(text)
    return account is not None and any(_may_be_secret(after["value"]) for after in _AFTER.finditer(text, account.end()))


def _bare(value: str) -> str:
    return value.strip("\"'“”‘’«».,;:!?()[]<>*`")


def _may_be_secret(value: str) -> bool:
    return len(value) >= 3 and value.casefold() not in _NO_SECRET and _MAY_BE.search(value) is not None


def is_key(text: str) -> bool:
    """Whether a key with a known beginning, a long row of letters that is no word, or a password in disguise is in it.

    >>> is_key("use sk-proj-abcdefghijklmnop"), is_key("P@ssword"), is_key("supercalifragilisticexpialidocious")
    (True, True, False)
    """
    if _KNOWN_KEY.search(text) is not None or _DISGUISED.search(text) is not None:
        return True
    if any(_NO_VOWELS.search(_ONE_SOUND.sub("x", run)) for run in _LETTERS.findall(text)):
        return True
    return any(not any(part in _IN_COMPOUNDS for part in phrase.lower().split("-")) for phrase in _PHRASE.findall(text))


def is_seed_phrase(text: str) -> bool:
    """Whether so many words of three to eight letters stand in a row, without any that holds a sentence together.

    >>> is_seed_phrase("legal winner thank year wave sausage worth useful legal winner thank yellow")
    True
    >>> is_seed_phrase("there is nothing better than a long walk along the river after lunch today")
    False
    """
    row = 0
    for run in text.casefold().split():
        word = run.strip(".,;:)(0123456789")
        if word:  # else a figure that counts the words
            row = row + 1 if _SEED_WORD.fullmatch(word) and word not in _NO_SEED else 0
        if row >= _SEED_WORDS:
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
    row = 0
    for word in _WORDS.findall(text.casefold()):
        row = row + 1 if word in _FIGURES else 0
        if row >= _FIGURES_IN_A_ROW:
            return True
    return False
