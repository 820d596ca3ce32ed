from __future__ import annotations

import numpy as np
import pytest

from nightjar.experiments.data_sets import cifar10, digits, dirichlet, generated, iid, in_turn, joined, mnist, shards
from nightjar.wire.errors import ConfigError

Y = np.repeat(np.arange(10), 60)


def _write(folder, name, shape, values):
    head = bytes([0, 0, 8, len(shape)]) + b"".join(each.to_bytes(4) for each in shape)
    (folder / name).write_bytes(head + bytes(values))


@pytest.fixture
def data(tmp_path):
    place = tmp_path / "mnist"
    place.mkdir()
    for part in ("train", "t10k"):
        _write(place, f"{part}-images-idx3-ubyte", (2, 2, 1), [0, 255, 51, 0])
        _write(place, f"{part}-labels-idx1-ubyte", (2,), [3, 9])
    return tmp_path


def test_idx_files_are_read_as_numbers_in_0_to_1(data):
    found = mnist(data)
    assert found.train.x.dtype == np.float32
    assert found.train.x.tolist() == [[0.0, 1.0], [pytest.approx(0.2), 0.0]]
    assert found.test.y.tolist() == [3, 9]


def test_a_cut_file_is_refused(data):
    path = data / "mnist" / "t10k-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ConfigError, match="no IDX file"):
        mnist(data)


@pytest.mark.parametrize("load", [mnist, cifar10])
def test_a_missing_set_says_where_to_get_it(load, tmp_path):
    for folder in (None, tmp_path):
        with pytest.raises(ConfigError, match="--data"):
            load(folder)


def test_folders_of_jpegs_are_classes(tmp_path):
    from PIL import Image

    for part, count in (("train", 2), ("test", 1)):
        for name, colour in (("cat", 255), ("dog", 0)):
            place = tmp_path / "cifar10" / part / name
            place.mkdir(parents=True)
            for number in range(count):
                Image.new("RGB", (32, 32), (colour,) * 3).save(place / f"{number}.jpg")
    found = cifar10(tmp_path)
    assert found.train.x.shape == (4, 32, 32, 3)
    assert found.test.y.tolist() == [0, 1]
    assert found.test.x[:, 0, 0, 0].tolist() == [1.0, 0.0]


def test_generated_data_is_the_same_for_the_same_seed():
    assert np.array_equal(generated(1, 10, 5).train.x, generated(1, 10, 5).train.x)


@pytest.mark.parametrize(
    "split",
    [
        lambda rng: iid(len(Y), 10, rng),
        lambda rng: shards(Y, 10, 2, rng),
        lambda rng: dirichlet(Y, 10, 0.5, rng),
    ],
)
def test_a_split_gives_each_example_to_one_client(split):
    parts = split(np.random.default_rng(3))
    assert len(parts) == 10
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(Y)))


def test_two_shards_are_at_most_two_classes_where_shards_divide_them():
    assert all(len(np.unique(Y[part])) <= 2 for part in shards(Y, 10, 2, np.random.default_rng(3)))


def test_a_small_alpha_makes_clients_differ_more():
    def most(alpha):
        parts = dirichlet(Y, 10, alpha, np.random.default_rng(3), least=1)
        return np.mean([np.bincount(Y[part]).max() / len(part) for part in parts])

    assert most(0.1) > most(100)


def test_too_few_examples_for_so_many_clients_are_refused():
    with pytest.raises(ConfigError, match="never gave"):
        dirichlet(Y[:10], 10, 0.1, np.random.default_rng(3))


def test_examples_in_turn_are_all_there_and_joined_again():
    whole = digits(1).train
    parts = in_turn(whole, 7)
    assert {len(each) for each in parts} == {len(whole) // 7, len(whole) // 7 + 1}
    assert sorted(joined(parts).y.tolist()) == sorted(whole.y.tolist())
