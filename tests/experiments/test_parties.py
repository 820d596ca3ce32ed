from functools import partial

import numpy as np
import pytest

from nightjar.experiments.parties import Post, from_floats, run_parties, to_floats


def asks(post: Post, other: str):
    post.send(other, "question", [1, b"two"])
    return post.receive(other, "answer")


def answers(post: Post, other: str):
    post.send(other, "answer", post.receive(other, "question")[::-1])


def fails(post: Post):
    raise SystemExit(1)


def test_all_messages_are_recorded_and_results_returned():
    run = run_parties({"a": partial(asks, other="b"), "b": partial(answers, other="a")})
    assert run.results == {"a": [b"two", 1], "b": None}
    assert [(each.sender, each.receiver, each.kind, each.value) for each in run.messages] == [
        ("a", "b", "question", [1, b"two"]),
        ("b", "a", "answer", [b"two", 1]),
    ]
    assert run.sent_bytes(sender="a") == run.sent_bytes(kinds=["question"]) == len(run.messages[0].body)


def test_the_failure_of_one_party_ends_all():
    with pytest.raises(RuntimeError, match="without a result: a, b"):
        run_parties({"a": partial(asks, other="b"), "b": fails})


def test_an_array_is_sent_with_four_bytes_a_number():
    values = np.arange(6, dtype=np.float64).reshape(2, 3)
    assert len(from_floats(values)) == 24
    assert (to_floats(from_floats(values), 2, 3) == values).all()
