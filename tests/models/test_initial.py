import hashlib

import numpy as np

from nightjar.models.configurations import configuration
from nightjar.models.initial import initial_weights
from nightjar.wire.parameters import weights_to_bytes

GOLDEN = "dd58bd925aeceb6c816bd5338476f1c1e56fd9743801afadb3ca27e6b9d44981"


def test_a_seed_gives_the_same_bits_everywhere() -> None:
    data = weights_to_bytes(initial_weights(configuration("tiny"), 100, seed=7))
    assert hashlib.sha256(data).hexdigest() == GOLDEN


def test_seeds_and_tensors_differ() -> None:
    layout = configuration("tiny").layout(100)
    a, b = (layout.unflatten(initial_weights(configuration("tiny"), 100, seed=s)) for s in (1, 2))
    assert not np.array_equal(a["embedding"], b["embedding"])
    assert not np.array_equal(a["input_kernel"], a["recurrent_kernel"])


def test_the_forget_gate_begins_open_and_the_other_biases_at_zero() -> None:
    layout = configuration("tiny").layout(100)
    bias = layout.unflatten(initial_weights(configuration("tiny"), 100, seed=1))["gate_bias"]
    assert (bias[:128] == 1).all()
    assert (bias[128:] == 0).all()
