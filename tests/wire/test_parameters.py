import numpy as np
import pytest

from nightjar.wire.errors import LocalProtocolError, RemoteProtocolError
from nightjar.wire.parameters import ParameterLayout, ParameterSpec, weights_from_bytes, weights_to_bytes

LAYOUT = ParameterLayout((ParameterSpec("a", (2, 3)), ParameterSpec("b", (4,))))


def test_flatten_and_unflatten_are_inverse():
    vector = np.arange(10, dtype=np.float32)
    tensors = LAYOUT.unflatten(vector)
    assert tensors["a"].shape == (2, 3)
    assert (LAYOUT.flatten(tensors) == vector).all()


def test_flatten_names_the_tensor_that_does_not_fit():
    with pytest.raises(LocalProtocolError, match=r"b: expected shape \(4,\), got \(5,\)"):
        LAYOUT.flatten({"a": np.zeros((2, 3)), "b": np.zeros(5)})
    with pytest.raises(LocalProtocolError, match="expected tensors"):
        LAYOUT.flatten({"a": np.zeros((2, 3))})


def test_fingerprint_depends_on_names_shapes_and_order():
    a, b = LAYOUT.tensors
    others = [
        ParameterLayout((b, a)),
        ParameterLayout((a,)),
        ParameterLayout((ParameterSpec("a", (3, 2)), b)),
        ParameterLayout((ParameterSpec("c", (2, 3)), b)),
    ]
    assert len({LAYOUT.fingerprint, *(other.fingerprint for other in others)}) == 5


@pytest.mark.parametrize(
    "tensors",
    [
        (ParameterSpec("a", (1,)), ParameterSpec("a", (2,))),
        (ParameterSpec("a", (0,)),),
        (ParameterSpec("a", (1 << 15, 1 << 15)),),
    ],
)
def test_layouts_that_no_model_has_are_refused(tensors):
    with pytest.raises(RemoteProtocolError):
        ParameterLayout(tensors)


def test_weights_survive_the_wire_and_are_checked():
    vector = np.linspace(-1, 1, 10, dtype=np.float32)
    data = weights_to_bytes(vector)
    assert (weights_from_bytes(data, LAYOUT) == vector).all()
    with pytest.raises(RemoteProtocolError, match="40 bytes, got 36"):
        weights_from_bytes(data[:-4], LAYOUT)
    with pytest.raises(RemoteProtocolError, match="not finite"):
        weights_from_bytes(weights_to_bytes(np.full(10, np.nan, np.float32)), LAYOUT)
