"""A power cut in the middle of every single change of a file in an agent's life: it begins again cleanly, at once."""

import pytest

from tests.power_cut import live


@pytest.mark.long
def test_a_power_cut_at_every_change_of_a_file(tmp_path):
    live("tests.edge_agent.power_cut_life", tmp_path, 100, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
