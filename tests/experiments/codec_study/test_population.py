import numpy as np
import pytest

from nightjar.experiments.codec_study.federation import run
from nightjar.experiments.codec_study.population import POPULATIONS, Population, prepare
from nightjar.experiments.codec_study.variants import DENSE, CodecVariant
from nightjar.models.corpora.personas import personas
from nightjar.wire.messages import CodecChoice


@pytest.mark.parametrize("population", POPULATIONS, ids=lambda p: p.name)
def test_a_cohort_is_a_part_of_the_population(population):
    assert 0 < population.cohort <= population.phones


@pytest.mark.long
@pytest.mark.tflite
@pytest.mark.tensorflow
def test_real_phones_learn_and_compression_costs_some_of_it():
    people = Population("few", phones=6, cohort=4, rounds=6, fewest_messages=20, learning_rate=1.0)
    at = prepare(personas(3, people=9, messages=120), people, seed=1)
    again = prepare(personas(3, people=9, messages=120), people, seed=1)
    np.testing.assert_array_equal(at.start, again.start)
    dense, dense_bytes = run(at, DENSE, people.rounds)
    sparse, sparse_bytes = run(at, CodecVariant(CodecChoice(name="topk-4", density=0.001)), people.rounds)
    assert dense[0] == sparse[0]
    assert dense[-1].nll < sparse[-1].nll < dense[0].nll
    assert sparse_bytes < dense_bytes / 1000
