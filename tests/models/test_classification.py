"""Reading labelled rows and images, and what is said about folders that cannot be used."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from nightjar.models.classification import Classification
from nightjar.models.configurations import lstm_layout
from nightjar.models.manifest import Artifact, Manifest
from nightjar.models.source import Source
from nightjar.wire.errors import ExamplesError

LABELS = b"cat\ndog\n"


def manifest(inputs=(2,)):
    file = Artifact.of(b"x")
    return Manifest(
        version=0,
        configuration="own",
        program=file,
        weights=file,
        vocabulary=Artifact.of(LABELS),
        layout=lstm_layout(10, 2, 2),
        batch_rows=4,
        minimum_agent_version="0.1.0",
        task_type="classification",
        inputs=inputs,
    )


def split(folder, share=0.0, inputs=(2,)):
    return Classification().split(Source(folder=str(folder)), manifest(inputs), LABELS, share)


def test_rows_of_a_csv_become_batches_with_the_classes_of_the_model(tmp_path):
    (tmp_path / "a.csv").write_text("height,label,weight\n1,dog,2\n3,cat,4\n")
    (tmp_path / "b.csv").write_text("height,label,weight\n5,dog,6\n")
    batches = split(tmp_path).trained
    assert batches.x[0].tolist() == [[1, 2], [3, 4], [5, 6], [0, 0]]
    assert batches.y[0].tolist() == [1, 0, 1, -1]
    assert batches.targets == batches.counted_targets == 3


def test_a_row_is_held_out_by_its_content_whatever_its_place(tmp_path):
    x = np.random.default_rng(1).normal(size=(200, 2)).astype(np.float32)
    y = np.array(["cat", "dog"] * 100)
    np.savez(tmp_path / "all.npz", x=x, y=y)
    first = split(tmp_path, 0.2)
    np.savez(tmp_path / "all.npz", x=x[::-1], y=y)
    second = split(tmp_path, 0.2)
    assert 20 < first.held_out.targets < 60
    assert first.held_out.targets + first.trained.targets == 200

    def rows(batches):
        return {tuple(row) for row in batches.x.reshape(-1, 2).tolist()}

    assert rows(first.held_out) == rows(second.held_out)


def test_without_a_share_to_hold_out_no_row_needs_a_checksum(tmp_path, monkeypatch):
    np.savez(tmp_path / "all.npz", x=np.ones((200, 2), np.float32), y=np.array(["cat", "dog"] * 100))
    monkeypatch.setattr("nightjar.models.task_types.zlib", None)
    whole = split(tmp_path, 0.0)
    assert (whole.trained.targets, whole.held_out.targets) == (200, 0)
    with pytest.raises(AttributeError, match="crc32"):
        split(tmp_path, 0.2)


def test_images_in_folders_named_after_their_class_are_scaled_to_one(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for label, value in (("cat", 0), ("dog", 255)):
        (tmp_path / label).mkdir()
        image.new("RGB", (3, 2), (value, value, value)).save(tmp_path / label / "1.png")
    x, labels = Classification().read(tmp_path)
    assert x.shape == (2, 2, 3, 3)
    assert (x[0].max(), x[1].min()) == (0.0, 1.0)
    assert labels == ["cat", "dog"]


def write_images(folder):
    image = pytest.importorskip("PIL.Image")
    (folder / "cat").mkdir()
    for side in (2, 3):
        image.new("L", (side, side)).save(folder / "cat" / f"{side}.png")


@pytest.mark.parametrize(
    ("write", "problem", "words"),
    [
        (lambda f: (f / "a.csv").write_text("height,weight\n1,2\n"), "labels-missing", "the column 'label'"),
        (lambda f: (f / "a.csv").write_text("height,label\n1,\n"), "labels-missing", "line 2"),
        (lambda f: (f / "a.csv").write_text("height,label\ntall,cat\n"), "not-a-number", "column 'height'.*'tall'"),
        (lambda f: np.savez(f / "a.npz", x=np.zeros((2, 2))), "labels-missing", "array y"),
        (lambda f: np.savez(f / "a.npz", x=np.array([["a"]]), y=[1]), "not-a-number", "numbers in x"),
        (lambda f: (f / "a.npz").write_bytes(b"PK nonsense"), "unreadable", "plain arrays"),
        (write_images, "different-shapes", r"\(2, 2, 1\), \(3, 3, 1\)"),
        (lambda f: (f / "a.txt").write_text("hello"), "no-examples", "expected .npz files"),
    ],
)
def test_a_folder_that_cannot_be_used_says_what_is_wrong_and_gives_a_problem_to_count(tmp_path, write, problem, words):
    write(tmp_path)
    with pytest.raises(ExamplesError, match=words) as fault:
        Classification().read(tmp_path)
    assert fault.value.problem == problem


@pytest.mark.parametrize(
    ("text", "problem", "words"),
    [
        ("a,b,label\n1,2,horse\n", "unknown-class", "'horse' is none of the model's classes: cat, dog"),
        ("a,label\n1,cat\n", "other-shape", r"takes examples of shape \(2,\), these have \(1,\)"),
    ],
)
def test_examples_that_do_not_fit_the_model_are_refused(tmp_path, text, problem, words):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ExamplesError, match=words) as fault:
        split(tmp_path)
    assert fault.value.problem == problem


def test_many_images_are_held_twice_at_most(tmp_path):
    x = np.random.default_rng(2).random((2000, 28, 28), np.float32)
    np.savez(tmp_path / "many.npz", x=x, y=np.array(["cat", "dog"] * 1000))
    tracemalloc.start()
    try:
        batches = split(tmp_path, 0.1, inputs=(28, 28))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sum(part.targets for part in batches) == 2000
    assert peak < 2.4 * x.nbytes
