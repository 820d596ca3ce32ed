import pytest

from nightjar.edge_agent.core.personalisation import ENOUGH_WORDS, better
from nightjar.edge_agent.core.results import Evaluation
from nightjar.models.keyboard import held_out

TEXTS = [f"message {i}" for i in range(1000)]


def test_a_message_is_held_out_or_trained_on_and_stays_so_when_others_come():
    trained, kept = held_out(TEXTS, 0.2)
    assert sorted(trained + kept) == sorted(TEXTS)
    assert 150 < len(kept) < 250
    assert set(held_out([*TEXTS[500:], "new"], 0.2)[0]) <= {*trained, "new"}


def test_a_larger_share_holds_out_more_and_never_less():
    assert set(held_out(TEXTS, 0.1)[1]) < set(held_out(TEXTS, 0.3)[1])


def found(loss_sum=500.0, counted=100, top1=20, top3=30):
    return Evaluation(loss_sum, counted * 1.2, counted, top1, top3)


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        (found(loss_sum=490.0, top1=25), True),
        (found(loss_sum=490.0, top1=24), False),  # 4 words of 100: by chance
        (found(loss_sum=490.0), False),  # likelier, but nothing more foreseen
        (found(loss_sum=510.0, top1=25), False),  # luckier, but surer of the wrong words
        (found(loss_sum=float("nan"), top1=25), False),
        (found(loss_sum=490.0, top1=27, top3=28), True),
    ],
)
def test_better_is_likelier_and_more_foreseen_than_by_chance(ours, expected):
    assert better(ours, found()) is expected


def test_few_words_decide_nothing():
    few = {"counted": ENOUGH_WORDS - 1}
    assert not better(found(loss_sum=1.0, top1=30, **few), found(**few))
