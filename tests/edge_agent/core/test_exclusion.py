# ruff: noqa: RUF001 - letters and figures that look like others are what is tested
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightjar.edge_agent.core.exclusion import CUT, Secret, storable

SECRETS = {
    Secret.EMAIL: [
        "write to ada.lovelace+list@mail.example.org please",
        "ada@bücher.example",
        "it is ada [at] example dot org",
        "ＡＤＡ＠ｅｘａｍｐｌｅ．ｏｒｇ",
        "john dot doe at gmail dot com",
        "john doe at gmail dot com",
        "mail me john.doe @ gmail . com",
        "ada@localhost",
        "ada arroba ejemplo punto com",
        "ада собака пример точка ру",
        "mary_jones at hotmail.com",
        "maria.mueller bei gmx.de",
        "ada punkt byron bei gmx punkt de",
        "ada byron at gmail com",
        "ada (ät) gmx.de",
        "mary at-sign example dot org",
    ],
    Secret.CARD: [
        "4111 1111 1111 1111",
        "my card: 5500-0000-0000-0004, cvc later",
        "amex 378282246310005",
        "４１１１ １１１１ １１１１ １１１１",
        "٤١١١١١١١١١١١١١١١",
    ],
    Secret.IBAN: [
        "GB82 WEST 1234 5698 7654 32",
        "send it to de89370400440532013000 thanks",
        "FR14 2004 1010 0505 0001 3M02 606",
    ],
    Secret.TOKEN_LINK: [
        "https://example.org/reset?token=abc",
        "http://ada:pw@example.org/",
        "www.example.org/s/eyJhbGciOiJIUzI1NiIsInR5c",
        "otpauth://totp/x#secret",
    ],
    Secret.LONG_NUMBER: [
        "call +49 (0)30 901820",
        "the code is 483920",
        "1 2 3 4 5",
        "on 12.03.2024",
        "123-45-6789",
        "it is four one one one two",
        "vier eins eins zwei drei null",
    ],
    Secret.PASSWORD: [
        "it is Tr0ub4dor&x",
        "hunter2!hunter",
        "A1b2C3d4E5",
        "x" * 65,
        "P@ssword",
        "pa$$word",
        "correct-horse-battery-staple",
        "use sk-proj-abcdefghijklmnop",
        "ghp_abcdefghijklmnopqrst",
        "glrt-abcdefghijklmnopqrst",
        "figd_abcdefghijklmnopqrst",
        "nvapi-abcdefghijklmnopqrst",
        "sntrys_abcdefghijklmnopqrst",
        "AKIAABCDEFGHIJKLMNOP",
        "abcdefghijklmnopqrstuvwxyz",
        "xkqvbnwjtrpzlmdfghcsyuioae",
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "kfgkfdlgkqfdkgldfkjlfdkglfd",
        "Authorization: Bearer abcdefghijkl",
        "mysql -u root -pmoonlight shop",
        "sshpass -p moonlight ssh ada",
        "curl -s -u ada:moonlight localhost",
    ],
    Secret.NAMED: [
        "my password is sunshine",
        "the password for the router is letmein",
        "Passwort: sommerregen",
        "mein Kennwort lautet sommerregen",
        "contraseña: perrito",
        "la clave es perrito",
        "mon mot de passe est soleil",
        "la mia password è girasole",
        "minha senha é girassol",
        "пароль: солнышко",
        "gmail password qwerty",
        "user: ada pass: byron",
        "login admin pass letmein",
        "my pin is 4821",
        "api key = abcdefgh",
        "hey, the password's hellokitty",
        "the zip's password is: hellokitty",
        "password (in small letters): hellokitty",
        "use hellokitty as the password",
        "try password hellokitty for once",
        "the password should be hellokitty",
        "my passphrase is correct giraffe battery staple",
        "the gate code is hellokitty",
        "DB_PASSWORD=hellokitty",
        "my new pin is four two nine",
        "das WLAN-Passwort ist katzenklo",
        "das Passwort fürs WLAN heißt katzenklo",
        "le mot de passe du wifi c'est chaton",
        "le code de la porte est quatre deux un",
        "la contraseña de netflix es gatito",
        "la password del wifi è gattino",
        "a senha do wifi é gatinho",
        "пін код один два три",
        "wachtwoord: poesje",
        "heslo: kotě",
    ],
    Secret.SEED_PHRASE: [
        "legal winner thank year wave sausage worth useful legal winner thank yellow",
        "1. legal 2. winner 3. thank 4. year 5. wave 6. sausage 7. worth 8. useful 9. legal 10. act 11. thank 12. sad",
        "abandon, ability, able, about, above, absent, absorb, abstract, absurd, abuse, access, accident",
        "wolf jungle orbit river tomatoe pencil window magic royal silver train uncle",
        "my seed phrase: wolf jungle orbit river",
        "abeja abierto abogado abono aborto abrazo abrir abuelo abuso acabar academia acceso",
        "abeille abolir aborder aboutir aboyer abrasif abreuver abriter abroger abrupt absence absolu",
    ],
    Secret.FORBIDDEN: ["tell Zyzzyva nothing", "ZYZZYVA", "straße"],
}


@pytest.mark.parametrize(("secret", "text"), [(s, t) for s, texts in SECRETS.items() for t in texts])
def test_a_message_with_a_secret_is_not_kept(secret, text):
    kept = storable(text, ("zyzzyva", "STRASSE"))
    assert (kept.text, kept.secret) == ("", secret)


@pytest.mark.parametrize(
    "text",
    [
        "мой пароль солнышко",
        "my password sunshine",
        "the pin: abcd",
        "wifi pw dragonfly.",
        "hellokitty is my new password",
        "I changed the password to hellokitty yesterday",
        "login: admin password: admin",
        "contraseña nueva: gatito",
        "пароль от вайфая котенок",
        "das Passwort habe ich auf katzenklo geändert",
    ],
)
def test_a_word_that_begins_or_ends_a_message_about_a_secret_is_one(text):
    assert storable(text).secret is Secret.NAMED


@pytest.mark.parametrize(
    "text",
    [
        "see you tomorrow",
        "Schöne Grüße, Ёлка",
        "don't @ me",
        "well-known up-to-date things; AND SHOUTING!!!",
        "zyzzyvas are weevils",
        "supercalifragilisticexpialidocious",
        "Rechtsschutzversicherungsgesellschaften",
        "the password is wrong",
        "I forgot my password",
        "das Passwort ist falsch",
        "what is the root password?",
        "one or two of them",
        "state-of-the-art",
        "meet me at noon, dot your letters",
        "नमस्ते दुनिया",
        "change your password regularly",
        "the default password is printed on the sticker",
        "my pin was declined",
        "the mountain pass is beautiful",
        "hair pin is cute",
        "a token gesture, next token prediction",
        "the router can pass traffic now",
        "my account manager will pass along your details",
        "der Pass ist gesperrt",
        "kannst du mir das Passwort schicken",
        "la clave es practicar",
        "la parola magica, una parola gentile",
        "пароль слишком короткий",
        "bitte das Passwort eingeben",
        "das WLAN-Passwort hängt am Kühlschrank",
        "cambié mi contraseña por fin",
        "netflix password sharing ended",
        "I wrote the password down",
        "eggs milk bread butter cheese apples bananas carrots onions garlic rice pasta",
        "red orange yellow green blue indigo violet pink brown black white grey",
        "when you have time please test that thing out",
        "yesssssssssssssssssssss, hmmmmmmmmmmmmmmmmmmmmmm, brrrrrrrrrrrrrrrrrrrrr",
        "jkjkjkjkjkjkjkjkjkjkjkjkjkjk",
        "Kraftfahrzeughaftpflichtversicherung und Donaudampfschifffahrtsgesellschaft",
        "me@work and she is still us@home",
        "look at ebay dot com, I work at google dot com",
        "one two three go",
    ],
)
def test_ordinary_text_is_kept_as_it_was_typed(text):
    assert storable(text, ("zyzzyva",)).text == text


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("see you at 8", f"see you at {CUT}"),
        ("mount /dev/sda1 now", f"mount {CUT} now"),
        ("room 12b, floor 3!", f"room {CUT} floor {CUT}"),
        ("in 1984 it was", f"in {CUT} it was"),
        ("look: https://example.org/page now", f"look: {CUT} now"),
        ("42", ""),
        ("https://example.org", ""),
        ("half ½ of Ⅻ", f"half {CUT} of XII"),
        ("a lone \ud800 surrogate", "a lone ? surrogate"),
        ("", ""),
    ],
)
def test_figures_and_links_are_cut_out(text, kept):
    assert storable(text).text == kept


def test_message_that_a_person_wants_kept_is_kept_without_figures_and_addresses():
    assert storable("the password is sunshine", anyway=True).text == "the password is sunshine"
    assert (
        storable("call 555 019 283 or ada@example.org now", anyway=True).text == f"call {CUT} {CUT} {CUT} or {CUT} now"
    )
    assert storable("tell zyzzyva", ("zyzzyva",), anyway=True).secret is Secret.FORBIDDEN


ALL = [text for texts in SECRETS.values() for text in texts]


@settings(deadline=None)
@given(st.text())
def test_no_kept_text_has_a_figure_or_an_address_and_keeping_it_again_changes_nothing(text):
    kept = storable(text).text
    assert not any(c.isdigit() for c in kept)
    assert storable(kept).text == kept
    kept.encode()


@settings(deadline=None)
@given(
    st.text("ab ", max_size=20),
    st.text("ab ", max_size=20),
    st.sampled_from(ALL),
)
def test_a_secret_is_found_wherever_it_stands(before, after, secret):
    assert storable(f"{before} {secret} {after}", ("zyzzyva", "strasse")).text == ""


@pytest.mark.parametrize(
    "piece",
    [
        "a@",
        "password ",
        "password is ",
        "password is" + " " * 1_980,
        "-" * 1_900 + " is the password",
        "password -",
        "my pin is my ",
        "set password a b ",
        "pass (",
        "password for a ",
        "at a dot ",
        "mot de ",
        "1 ",
        "GB82",
        "http://",
        "a1",
        "(at)",
        "[ ",
    ],
)
def test_a_hostile_text_takes_no_time(piece):
    began_s = time.process_time()
    storable(piece * (2_000 // len(piece)))
    assert time.process_time() - began_s < 1.0  # of the processor; a pattern that tries everything takes minutes
