import numpy as np
import pytest
from msgspec import structs

from nightjar.coordinator.storage.model_folder import export_version, import_model
from nightjar.models.manifest import Artifact
from nightjar.wire.errors import ConfigError
from nightjar.wire.parameters import weights_from_bytes, weights_to_bytes
from tests.coordinator.fakes import MemoryBlobs
from tests.coordinator.model_folder import write_model


def test_the_files_become_artifacts_under_the_names_that_the_manifest_gives(tmp_path):
    written = write_model(tmp_path)
    artifacts = MemoryBlobs()
    manifest = import_model(tmp_path, artifacts)
    assert manifest == written
    named = {manifest.program.sha256, manifest.weights.sha256, manifest.vocabulary.sha256, manifest.sha256}
    named |= {each.sha256 for each in manifest.for_keyboards}
    assert set(artifacts.blobs) == named


FILES = ["program.tflite", "weights.bin", "vocabulary.txt", "lexicon-en.bin", "ngram.bin", "manifest.json"]


@pytest.mark.parametrize("name", FILES)
def test_a_missing_or_changed_file_is_named(tmp_path, name):
    write_model(tmp_path)
    (tmp_path / name).write_bytes(b"something else")
    with pytest.raises(ConfigError, match=name if name != "manifest.json" else "not a manifest"):
        import_model(tmp_path, MemoryBlobs())
    (tmp_path / name).unlink()
    with pytest.raises(ConfigError, match=name):
        import_model(tmp_path, MemoryBlobs())


def test_an_exported_version_is_a_folder_that_can_be_imported(tmp_path):
    artifacts = MemoryBlobs()
    manifest = import_model(write_model(tmp_path / "model") and tmp_path / "model", artifacts)
    assert export_version(manifest.sha256, artifacts, tmp_path / "again") == manifest
    assert import_model(tmp_path / "again", MemoryBlobs()) == manifest


def test_the_mean_of_versions_is_exported_as_one_model(tmp_path):
    artifacts = MemoryBlobs()
    first = import_model(write_model(tmp_path / "model") and tmp_path / "model", artifacts)
    names = []
    for number, value in enumerate((1.0, 2.0, 6.0)):
        weights = weights_to_bytes(np.full(first.layout.size, value, np.float32))
        artifacts.put(weights)
        version = structs.replace(first, version=number, weights=Artifact.of(weights))
        names.append(artifacts.put(version.encode()))
    export_version(names[2], artifacts, tmp_path / "mean", [names[1], names[0]])
    assert import_model(tmp_path / "mean", MemoryBlobs()).layout == first.layout
    mean = weights_from_bytes((tmp_path / "mean" / "weights.bin").read_bytes(), first.layout)
    assert set(mean.tolist()) == {3.0}


def test_another_model_is_not_averaged(tmp_path):
    artifacts = MemoryBlobs()
    names = []
    for hidden in (5, 6):
        write_model(tmp_path / str(hidden), hidden=hidden)
        names.append(import_model(tmp_path / str(hidden), artifacts).sha256)
    with pytest.raises(ConfigError, match="another model"):
        export_version(names[0], artifacts, tmp_path / "mean", names[1:])


def test_nothing_is_stored_of_a_model_with_a_fault(tmp_path):
    write_model(tmp_path)
    (tmp_path / "vocabulary.txt").write_bytes(b"other\n")
    artifacts = MemoryBlobs()
    with pytest.raises(ConfigError):
        import_model(tmp_path, artifacts)
    assert artifacts.blobs == {}
