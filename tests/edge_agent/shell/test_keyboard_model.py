"""Which weights the keyboard predicts with: a version's own, or those that this device found better."""

import dataclasses

import numpy as np
import pytest

from nightjar.edge_agent.core.personalisation import as_kept, change_to_bytes
from nightjar.edge_agent.shell.keyboard_model import load_best_model, load_keyboard_model
from nightjar.edge_agent.shell.model_files import ModelFiles
from nightjar.edge_agent.shell.weights import mapped_weights, own_weights
from nightjar.models.vocabulary import BOS
from nightjar.wire.errors import RemoteProtocolError, UnavailableError
from tests.edge_agent.fakes import any_program, write_model


@pytest.fixture
def model(tmp_path):
    return write_model(tmp_path, version=1)


def first_scores(loaded):
    return loaded.step(BOS, loaded.start())[0]


def test_the_weights_are_the_files_and_nothing_is_copied(model):
    loaded = load_keyboard_model(model)
    assert loaded.version == 1
    assert loaded.weights.embedding.base is not None
    assert (loaded.weights.embedding == 1).all()
    with pytest.raises(ValueError, match="read-only"):
        loaded.weights.embedding[0, 0] = 2


def test_a_personal_model_is_used_where_there_is_one(model):
    fleet = first_scores(load_best_model(model))
    change = np.full(model.manifest.layout.size, 0.5, np.float32)
    model.personal_weights.write_bytes(change_to_bytes(change))
    assert not np.array_equal(first_scores(load_best_model(model)), fleet)
    np.testing.assert_array_equal(own_weights(model, model.personal_weights), mapped_weights(model) + as_kept(change))
    np.testing.assert_array_equal(first_scores(load_keyboard_model(model)), fleet)


def test_a_personal_model_of_an_agent_of_before_goes(model):
    """That agent kept whole weights, of four bytes each; the next session makes others."""
    path = model.personal_weights
    path.write_bytes(np.full(model.manifest.layout.size, 0.5, "<f4").tobytes())
    np.testing.assert_array_equal(first_scores(load_best_model(model)), first_scores(load_keyboard_model(model)))
    assert not path.exists()


@pytest.mark.parametrize("content", [b"", b"short", None])
def test_a_personal_model_that_cannot_be_used_goes_and_the_fleets_serves(model, content):
    path = model.personal_weights
    path.write_bytes(np.full(model.manifest.layout.size, np.nan, "<f2").tobytes() if content is None else content)
    np.testing.assert_array_equal(first_scores(load_best_model(model)), first_scores(load_keyboard_model(model)))
    assert not path.exists()


def test_delete_everything_deletes_personal_models(model, tmp_path):
    path = model.personal_weights
    path.write_bytes(b"own")
    path.with_name(path.name + ".new").write_bytes(b"half of own")
    ModelFiles(tmp_path, downloader=None, check_program=any_program).forget_personal()
    assert not list(tmp_path.glob("*personal*"))
    assert model.weights.exists()


def test_files_that_are_gone_or_cut_are_said(model, tmp_path):
    with pytest.raises(UnavailableError):
        load_keyboard_model(dataclasses.replace(model, weights=tmp_path / "none"))
    model.weights.write_bytes(b"cut")
    with pytest.raises(RemoteProtocolError):
        load_keyboard_model(model)
