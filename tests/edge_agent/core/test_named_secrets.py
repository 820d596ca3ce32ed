"""What stands after the name of a secret is taken for one, unless it is listed: no ending of a word says what it is."""

import time
from importlib import resources

import pytest

from nightjar.edge_agent import core
from nightjar.edge_agent.core.named_secrets import follows_its_name

LISTED = resources.files(core).joinpath("no_secrets.txt").read_text("utf-8").split()
SEED_WORDS = resources.files(core).joinpath("seed_words.txt").read_text("utf-8").split("\n\n")
SENTENCES = {
    "en": [
        "my password is {}",
        "my password is {} by the way",
        "the password is {} thanks",
        "my password is {} and my username is ada",
        "the password is {}, use it",
        "my pin is {} too",
    ],
    "fr": ["mon mot de passe est {}", "le mot de passe est {} merci"],
    "it": ["la mia password è {}", "la password è {} grazie"],
    "pt": ["minha senha é {}", "a senha é {} obrigado"],
    "es": ["mi contraseña es {}", "la contraseña es {} gracias"],
}
NOUNS = frozenset(
    str.split("""
tomato potato tornado avocado Colorado tuxedo naked hundred sacred seed absent silent student talent garment parent
tiger summer winter flower sunflower butter hammer spider water sugar guitar dollar pudding wedding morning darling
king family butterfly jelly belly bunny lily moment cement monument apartment elephant cat dog house phone window
device screen box man people number hello dove shadow hope love kind question problem store gelato espada sapato
gatto strada soldado Sommer Winter Garten Kuchen Vogel Regen Katzen Mantel Abend Erde Verein Gewitter Besen Entchen
Zimmer soleil chaton fumée armée marée été hiver espadas cidade amizade comida bebida perrito малина солнышко весна
калина картина поляна мати кохання
""")
)


@pytest.mark.parametrize(("language", "seed_words"), [*zip(SENTENCES, SEED_WORDS, strict=True)], ids=SENTENCES)
def test_only_a_listed_word_after_the_name_is_kept(language, seed_words):
    words = seed_words.split()
    kept = {word for sentence in SENTENCES[language] for word in words if not follows_its_name(sentence.format(word))}
    assert kept <= set(LISTED)
    assert len(kept) <= len(words) / 16  # the list holds what sentences are made of, not things


@pytest.mark.parametrize("sentence", [sentence for sentences in SENTENCES.values() for sentence in sentences])
def test_no_noun_after_the_name_is_kept(sentence):
    assert [noun for noun in NOUNS if not follows_its_name(sentence.format(noun))] == []


@pytest.mark.parametrize(
    "text",
    [
        "das Passwort ist Sommer wie immer",
        "login is ada and pass is byron",
        "user ada and pass byron",
        "the pass is tiger",
        "guest pass is tiger",
        "the pass dragonfly",
        "what is the wifi password dragonfly",
        "I forgot my password sunshine",
        "netflix password pudding",
        "wifi password pudding works",
        "I changed the password to pudding",
        "butterfly is my password",
        "my new pin is correct giraffe battery staple",
    ],
)
def test_a_noun_in_other_sentences_about_a_secret_is_one(text):
    assert follows_its_name(text)


@pytest.mark.parametrize(
    "text",
    [
        "password: correct horse",
        "password: secret garden",
        "pw: secure horse",
        "password: new secure horse",
        "password: correct horse, thanks",
        "password: correct horse battery staple",
        "the password is: secret garden",
        "Passwort: sicher Katze",
    ],
)
def test_a_phrase_after_a_colon_is_a_secret_though_it_begins_with_a_listed_word(text):
    assert follows_its_name(text)


@pytest.mark.parametrize(
    "text",
    [
        "the password's still moonlight",
        "the password remains moonlight",
        "the new password is going to be moonlight",
        "das Passwort bleibt Mondschein",
        "le mot de passe est toujours lune",
        "la contraseña sigue siendo luna",
        "la password resta luna",
        "a senha continua luna",
        "пароль остался луна",
        "the password that I always use is moonlight",
        "the password we have here's moonlight",
        "das Passwort, das ich immer nehme, ist Mondschein",
        "la contraseña que uso siempre es luna",
        "set the password to moonlight please",
        "I set moonlight as the password",
        "j'ai mis lune comme mot de passe",
        "the answer to my security question is fluffy",
    ],
)
def test_a_secret_that_stays_that_one_uses_or_sets_is_one(text):
    assert follows_its_name(text)


@pytest.mark.parametrize(
    "text",
    [
        "the password remains valid",
        "my password used to be better",
        "the password is going to be sent by mail",
        "the password's still wrong",
        "das Passwort bleibt unverändert",
        "das Passwort, das du mir geschickt hast, ist falsch",
        "le mot de passe reste valable",
        "la contraseña sigue siendo la misma",
        "la password resta valida",
        "пароль остался прежним",
        "the password you sent is not right",
        "the password that I typed is too short",
        "could you change the password to something else please",
        "das Passwort steht neben der Tür",
        "das Passwort ist gegenüber vom Router",
        "le mot de passe est derrière la box",
        "la contraseña está debajo del router",
        "la password è nel cassetto",
        "a senha fica embaixo do roteador",
        "пароль около роутера",
        "пароль біля роутера",
        "I have trouble as my password expired",
    ],
)
def test_what_is_said_of_a_secret_that_stays_or_is_used_is_none(text):
    assert not follows_its_name(text)


@pytest.mark.parametrize(
    "text",
    [
        "login: ada / moonlight",
        "router: admin / admin",
        "Konto: ada / mondschein",
        "the code for the door is four four seven two",
        "the token code is four seven two",
        "my pass number is four seven two",
        "el código es cuatro cuatro siete dos",
        "код от двери четыре пять шесть семь",
        "p/w: moonlight",
        "login: ada:moonlight",
        'my passphrase "moonlight river"',
        "pswd: moonlight",
        '"password": "moonlight"',
        '{"user":"ada","passwd":"moonlight"}',
        "**Password**: moonlight",
        "password → moonlight",
        "луна это мой пароль",
        "my pasword is moonlight",
    ],
)
def test_an_account_with_two_words_a_code_of_figures_and_a_misspelt_name_are_secrets(text):
    assert follows_its_name(text)


@pytest.mark.parametrize(
    "text",
    [
        "account: yes / no",
        "Google: maps / docs",
        "I forgot my password, I think he is angry",
        "We changed the password, they say it's company policy",
        "I used Bitwarden as my password manager",
        "das Passwort bleibt unter uns",
        "la password resta uguale",
        "chown user:group /directory",
        "the code takes two or three minutes",
        "one two three go",
        "we still had token ring at school",
        "token ring",
        "a low pass rate",
        "look at my pin board",
        "don't pass judgement",
        "don't pass out",
        "there is no PIN code",
        "it rejects the pass phrase",
        "welches ist das Passwort",
        "cuál es la contraseña del wifi",
        "I need the password asap",
        "дай пароль пожалуйста",
        "это мой пароль",
        '"password" is a bad password',
    ],
)
def test_other_things_that_are_called_like_a_secret_and_questions_are_none(text):
    assert not follows_its_name(text)


@pytest.mark.parametrize("text", ["password: not set yet", "Password: required field", "password: wrong, try again"])
def test_a_sentence_after_a_colon_is_none(text):
    assert not follows_its_name(text)


def test_the_listed_words_are_in_order_once_each_and_long_enough_to_count():
    assert sorted(set(LISTED)) == LISTED
    assert [word for word in LISTED if len(word) < 3] == []


@pytest.mark.parametrize(
    "text",
    [
        "password is" + " " * 20_000,
        "password is\n" + "\n \n" * 7_000,
        "-" * 20_000 + "password",
        "password - " * 2_000,
        "password" + "-" * 20_000,
        "password for " + "x" * 20_000,
        "tiger is the password for\n" + "-" * 20_000,
        'password:"' + '"' * 20_000,
        "password: a " + "." * 20_000,
        "password: " + "a. " * 7_000,
        "changed my password " * 1_000,
        "use a as " * 2_000 + "password",
        "password i a a a " * 1_200,
        "login: a / " * 2_000,
        "code one " * 2_000,
        "password is still " + "still " * 3_000,
    ],
    ids=lambda text: text[:12],
)
def test_a_long_hostile_text_takes_no_time(text):
    began_s = time.process_time()
    follows_its_name(text)
    assert time.process_time() - began_s < 2.0  # of the processor; the square takes 15 s
