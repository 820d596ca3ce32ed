import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nightjar.wire.codec.lines import axes, extent, gaps, join, places, split
from nightjar.wire.parameters import ParameterSpec
from tests.wire.strategies import layouts


@given(layouts, st.floats(0, 1), st.integers(0, 9))
def test_positions_come_back_along_every_axis(layout, density, seed):
    spec = layout.tensors[0]
    local = np.flatnonzero(np.random.default_rng(seed).random(spec.size) < density)
    for axis in axes(spec):
        lines, length = extent(spec, axis)
        assert lines * length == spec.size
        found = split(local, spec, axis)
        assert (found.counts >= 1).all()
        assert found.counts.sum() == local.size
        assert np.unique(found.used).tolist() == found.used.tolist()
        back, crowd = join(found, spec)
        assert back.tolist() == local.tolist()
        assert np.sort(crowd).tolist() == np.sort(np.repeat(found.counts, found.counts)).tolist()
        if local.size:
            assert places(gaps(found), found.counts).tolist() == found.places.tolist()
            assert gaps(found).min() >= 0


def test_a_scalar_is_one_line_of_one_place():
    assert extent(ParameterSpec("s", ()), 0) == (1, 1)
