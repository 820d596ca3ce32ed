import pytest

from coordinator.storage.model_folder import export_version, import_model
from tests.coordinator.fakes import MemoryBlobs
from tests.coordinator.model_folder import write_model
from wire.errors import ConfigError


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


def test_nothing_is_stored_of_a_model_with_a_fault(tmp_path):
    write_model(tmp_path)
    (tmp_path / "vocabulary.txt").write_bytes(b"other\n")
    artifacts = MemoryBlobs()
    with pytest.raises(ConfigError):
        import_model(tmp_path, artifacts)
    assert artifacts.blobs == {}
