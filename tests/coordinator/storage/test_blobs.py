"""What every blob store must do, and what files can suffer."""

import hashlib

import boto3
import pytest
from moto.server import ThreadedMotoServer

from nightjar.coordinator.storage.artifacts import S3Blobs, open_artifacts
from nightjar.coordinator.storage.blobs import FileBlobs
from nightjar.coordinator.storage.database import Database
from nightjar.wire.errors import IntegrityError, RemoteProtocolError, UnavailableError
from tests.coordinator.fakes import MemoryBlobs
from tests.power_cut import assert_old_or_new, power_cut_library, recorded


@pytest.fixture(params=[FileBlobs, lambda _folder: MemoryBlobs()], ids=["files", "memory"])
def blobs(request, tmp_path):
    return request.param(tmp_path)


def test_a_power_cut_at_each_step_leaves_a_whole_blob_or_none(tmp_path):
    folder = tmp_path / "blobs"
    folder.mkdir()
    before = "from nightjar.coordinator.storage.blobs import FileBlobs"
    (folder / hashlib.sha256(b"update").hexdigest()[:2]).mkdir()
    run = recorded(folder, power_cut_library(tmp_path), before, "FileBlobs(Path('.')).put(b'update')")
    assert_old_or_new(run, FileBlobs(folder).path(hashlib.sha256(b"update").hexdigest()))


def test_what_is_put_is_got_by_its_hash(blobs):
    name = blobs.put(b"update")
    assert name == hashlib.sha256(b"update").hexdigest()
    assert blobs.put(b"update") == name
    assert blobs.get(name) == b"update"


def test_what_is_not_there_is_an_integrity_error(blobs):
    with pytest.raises(IntegrityError):
        blobs.get("0" * 64)


def test_damaged_bytes_are_noticed(tmp_path):
    blobs = FileBlobs(tmp_path)
    name = blobs.put(b"update")
    blobs.path(name).write_bytes(b"upd")
    with pytest.raises(IntegrityError, match="damaged"):
        blobs.get(name)


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "A" * 64, "0" * 63, "0" * 64 + "\n"])
def test_a_name_that_is_no_hash_is_refused(tmp_path, name):
    with pytest.raises(RemoteProtocolError):
        FileBlobs(tmp_path).path(name)


def test_nothing_but_whole_blobs_is_left_in_the_folder(tmp_path):
    blobs = FileBlobs(tmp_path)
    names = {blobs.put(bytes([number])) for number in range(20)}
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == names


def test_a_folder_that_cannot_be_is_said_to_be(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UnavailableError, match="file"):
        FileBlobs(tmp_path / "file" / "blobs")


@pytest.fixture(scope="module")
def object_store():
    """A store that speaks S3, and what tells boto3 of it."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        settings = {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "DEFAULT_REGION": "eu-west-1"}
        for name, value in {**settings, "ENDPOINT_URL": f"http://{host}:{port}"}.items():
            patch.setenv(f"AWS_{name}", value)
        boto3.client("s3").create_bucket(
            Bucket="artifacts", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
        )
        yield "s3://artifacts/nightjar"
    server.stop()


@pytest.mark.slow
def test_hosts_share_blobs_in_an_object_store(object_store, tmp_path):
    database = Database("sqlite://")
    a, b = (open_artifacts(tmp_path / name, object_store, database) for name in "ab")
    database.close()
    name = a.put(b"weights")
    assert b.find(name).read_bytes() == b"weights"
    assert b.find("0" * 64) is None
    held = boto3.client("s3").list_objects_v2(Bucket="artifacts")["Contents"]
    assert [each["Key"] for each in held] == [f"nightjar/{name}"]


@pytest.mark.slow
def test_an_object_that_is_damaged_or_a_store_that_is_away_is_never_a_blob(object_store):
    blobs = S3Blobs(object_store)
    name = blobs.put(b"weights")
    boto3.client("s3").put_object(Bucket="artifacts", Key=f"nightjar/{name}", Body=b"others")
    with pytest.raises(IntegrityError, match="damaged"):
        blobs.get(name)
    with pytest.raises(UnavailableError, match="s3://nowhere"):
        S3Blobs("s3://nowhere").put(b"weights")
