"""Hypothesis strategies for things that cross the wire."""

import numpy as np
from hypothesis import strategies as st

from nightjar.wire.parameters import ParameterLayout, ParameterSpec

_shapes = st.one_of(
    st.tuples(st.integers(1, 60)),
    st.tuples(st.integers(1, 12), st.integers(1, 12)),
    st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4)),
)

layouts = st.lists(_shapes, min_size=1, max_size=4).map(
    lambda shapes: ParameterLayout(tuple(ParameterSpec(f"t{i}", shape) for i, shape in enumerate(shapes)))
)


@st.composite
def vectors(draw: st.DrawFn, size: int) -> np.ndarray:
    """A finite vector with many zeros and many equal magnitudes, the hard cases of top-k."""
    values = draw(
        st.lists(
            st.one_of(
                st.sampled_from([0.0, 1.0, -1.0, 0.5, 1e-38, -1e-45, 3e38]),
                st.floats(-100, 100, width=32),
            ),
            min_size=size,
            max_size=size,
        )
    )
    return np.array(values, np.float32)
