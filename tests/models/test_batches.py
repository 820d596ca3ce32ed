import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nightjar.models.batches import Batches, pack
from nightjar.models.vocabulary import BOS, EOS, FIRST_WORD, OOV, PAD

MESSAGES = st.lists(st.lists(st.integers(OOV, 50), max_size=25), max_size=30)
ROWS = st.integers(1, 4)
LENGTH = st.integers(1, 12)


def pieces(b: Batches) -> list[tuple[list[int], list[int]]]:
    """Every (inputs, targets) between one BOS and the next."""
    found: list[tuple[list[int], list[int]]] = []
    for x, y in zip(b.x.reshape(-1, b.x.shape[-1]), b.y.reshape(-1, b.x.shape[-1]), strict=True):
        for token, target in zip(x.tolist(), y.tolist(), strict=True):
            if token == BOS:
                found.append(([], []))
            if token != PAD:
                found[-1][0].append(token)
                found[-1][1].append(target)
    return found


@given(MESSAGES, ROWS, LENGTH)
def test_every_word_is_a_target_once_and_order_inside_a_message_is_kept(
    messages: list[list[int]], rows: int, length: int
) -> None:
    b = pack(messages, rows, length)
    expected = sorted(tuple([*m, EOS][i : i + length]) for m in messages if m for i in range(0, len(m) + 1, length))
    assert sorted(tuple(targets) for _, targets in pieces(b)) == expected


@given(MESSAGES, ROWS, LENGTH)
def test_an_input_is_the_target_before_it_except_at_the_beginning(
    messages: list[list[int]], rows: int, length: int
) -> None:
    for inputs, targets in pieces(pack(messages, rows, length)):
        assert inputs == [BOS, *targets[:-1]]


@given(MESSAGES, ROWS, LENGTH)
def test_shape_types_padding_and_counts(messages: list[list[int]], rows: int, length: int) -> None:
    b = pack(messages, rows, length)
    assert b.x.shape == b.y.shape == (len(b), rows, length)
    assert b.x.dtype == b.y.dtype == np.int32
    assert ((b.x == PAD) == (b.y == PAD)).all()
    assert b.targets == sum(len(m) + 1 for m in messages if m)
    assert b.counted_targets == sum(w >= FIRST_WORD for m in messages for w in m)
    assert all((x != PAD).any() for x, _ in b), "a step without any target is wasted work"


@given(MESSAGES, ROWS, LENGTH, st.integers(0, 9))
def test_shuffling_changes_the_places_and_nothing_else(
    messages: list[list[int]], rows: int, length: int, seed: int
) -> None:
    plain = pack(messages, rows, length)
    shuffled = pack(messages, rows, length, np.random.default_rng(seed))
    again = pack(messages, rows, length, np.random.default_rng(seed))
    assert sorted(map(str, pieces(shuffled))) == sorted(map(str, pieces(plain)))
    assert (again.x == shuffled.x).all()


def test_the_first_row_with_room_is_taken() -> None:
    b = pack([[10] * 4, [11] * 3, [12], [13] * 2], batch_rows=3, sequence_length=7)
    assert b.y.reshape(-1, 7).tolist() == [
        [10, 10, 10, 10, EOS, 12, EOS],
        [11, 11, 11, EOS, 13, 13, EOS],
        [PAD] * 7,
    ]


def test_nothing_to_pack_is_no_step() -> None:
    b = pack([[], []], 16, 20)
    assert len(b) == b.targets == b.counted_targets == 0
    assert b.x.shape == (0, 16, 20)
