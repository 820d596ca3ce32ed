"""IDX files, the form of MNIST."""

import gzip

import numpy as np
import pytest

from nightjar.models.idx import TEST, read_idx, read_part
from nightjar.wire.errors import ConfigError


def idx(array: np.ndarray) -> bytes:
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.astype(np.uint8).tobytes()


@pytest.mark.parametrize("packed", [False, True])
def test_a_part_is_images_from_0_to_1_with_their_labels(tmp_path, packed):
    images, labels = np.arange(12).reshape(2, 2, 3) * 20, np.array([7, 3])
    for name, array in (("t10k-images-idx3-ubyte", images), ("t10k-labels-idx1-ubyte", labels)):
        path = tmp_path / (name + ".gz" if packed else name)
        path.write_bytes(gzip.compress(idx(array)) if packed else idx(array))
    x, y = read_part(tmp_path, TEST)
    np.testing.assert_allclose(x, images / 255, rtol=1e-6)
    assert y.tolist() == [7, 3]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0",
        b"\0\0\x08\x01",
        b"\0\0\x08\0",
        b"\0\0\x0d\x01\0\0\0\1\0",
        b"\0\0\x08\xff" + b"\xff" * 1020,
        idx(np.zeros(3))[:-1],
        idx(np.zeros(3)) + b"0",
    ],
)
def test_what_is_no_idx_file_is_refused(tmp_path, data):
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(ConfigError, match="no IDX file"):
        read_idx(tmp_path / "file")


def test_more_labels_than_images_are_refused(tmp_path):
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(idx(np.zeros((1, 2, 2))))
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(idx(np.zeros(2)))
    with pytest.raises(ConfigError, match="an image for each label"):
        read_part(tmp_path, TEST)
