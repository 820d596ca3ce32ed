import pytest

from nightjar.models.corpora import Corpus, load, split
from nightjar.wire.errors import CorpusError


def corpus(**messages: int) -> Corpus:
    return Corpus("test", {user: tuple(f"{user} {i}" for i in range(n)) for user, n in messages.items()})


def test_the_last_fifth_of_a_phone_is_held_out_and_all_others_are_public() -> None:
    divided = split(corpus(a=60, b=3, c=100), phones=2, seed=1)
    by_user = {phone.user: phone for phone in divided.phones}
    assert set(by_user) == {"a", "c"}
    assert (len(by_user["a"].typed), len(by_user["a"].held_out)) == (48, 12)
    assert by_user["c"].typed + by_user["c"].held_out == tuple(f"c {i}" for i in range(100))
    assert divided.public == ("b 0", "b 1", "b 2")


def test_nothing_of_a_phone_is_public() -> None:
    text = load("personas", 7, people=12, messages=60)
    divided = split(text, phones=6, seed=3)
    private = {phone.user for phone in divided.phones}
    assert divided.public == tuple(m for user, ms in text.users.items() if user not in private for m in ms)


def test_the_seed_chooses_among_the_busiest() -> None:
    many = corpus(**{f"u{i:02d}": 100 + i for i in range(30)})
    chosen = {tuple(p.user for p in split(many, 5, seed).phones) for seed in range(8)}
    assert len(chosen) > 1
    assert all(user >= "u20" for users in chosen for user in users)
    assert split(many, 5, seed=1) == split(many, 5, seed=1)


def test_a_cap_keeps_the_last_messages() -> None:
    (phone,) = split(corpus(a=100, b=1), phones=1, seed=1, most_messages=10).phones
    assert phone.typed + phone.held_out == tuple(f"a {i}" for i in range(90, 100))
    assert len(phone.held_out) == 2


def test_too_few_users_or_nobody_left_is_said() -> None:
    with pytest.raises(CorpusError, match=r"3 phones need .*has 2"):
        split(corpus(a=50, b=50, c=4), phones=3, seed=1)
    with pytest.raises(CorpusError, match="at most 1 phones"):
        split(corpus(a=50, b=50), phones=2, seed=1)
    with pytest.raises(CorpusError, match="at least 1 phone"):
        split(corpus(a=50, b=50), phones=0, seed=1)
