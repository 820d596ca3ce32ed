import json

import pytest

from nightjar.firmware_scripts.core.manifest import parse_manifest
from nightjar.wire.errors import RemoteProtocolError

SHA = "ab" * 32


def test_json_and_sha256sum_say_the_same():
    as_json = json.dumps({"format": 1, "files": [{"path": "a/pi.img", "sha256": SHA}]}).encode()
    assert parse_manifest(as_json) == parse_manifest(f"{SHA} *./a/pi.img\n".encode())


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "", "a\0b"])
def test_a_path_outside_of_the_folder_is_refused(path):
    with pytest.raises(RemoteProtocolError):
        parse_manifest(json.dumps({"files": [{"path": path, "sha256": SHA}]}).encode())


@pytest.mark.parametrize(
    "data",
    [b"x", b"\xff\xfe", b"{}", b'{"files": 3}', b'{"files": [3]}', b'{"files": [{"path": "a", "sha256": "zz"}]}',
     json.dumps({"files": [{"path": "a", "sha256": SHA, "size_bytes": "1"}]}).encode(),
     f"{SHA}  a\n{SHA}  a\n".encode(), b'{"a":' + b"[" * 100_000],
)  # fmt: skip
def test_what_is_no_manifest_is_refused(data):
    with pytest.raises(RemoteProtocolError):
        parse_manifest(data)
