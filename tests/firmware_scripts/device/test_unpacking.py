"""What a device refuses of a bundle, and how an end of pip is told: as its fault, or as something to try again."""

import platform
import sys
import zipfile

import pytest

from nightjar.firmware_scripts.bundle.reading import Checked
from nightjar.firmware_scripts.device.unpacking import LOCK, _check_machine, _install
from nightjar.wire.errors import RemoteProtocolError, UnavailableError


@pytest.mark.parametrize(
    ("says", "status", "error"),
    [
        ("ERROR: No matching distribution found for numpy==2.2.0", 1, RemoteProtocolError),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE", 1, RemoteProtocolError),
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
            1,
            UnavailableError,
        ),
        ("ERROR: Exception:\nMemoryError", 2, UnavailableError),
    ],
)
def test_only_what_lies_in_the_bundle_is_its_fault(tmp_path, says, status, error):
    (tmp_path / "wheels").mkdir()
    with zipfile.ZipFile(tmp_path / "wheels/pip-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("pip/__main__.py", f"import sys\nsys.stderr.write({says!r})\nsys.exit({status})\n")
    (tmp_path / LOCK).write_text("pip==1.0\n")
    with pytest.raises(error, match="pip could not install the wheels: ERROR"):
        _install(tmp_path, ())


@pytest.mark.parametrize(("glibc", "said"), [("2.99", "needs glibc 2.99"), ("new", "expected a version")])
def test_a_bundle_for_another_glibc_is_refused(glibc, said):
    facts = {"machine": platform.machine(), "python": f"{sys.version_info.major}.{sys.version_info.minor}"}
    with pytest.raises(RemoteProtocolError, match=said):
        _check_machine(Checked(b"", b"", facts | {"glibc": glibc}, ()))
