import io
import zipfile

import pytest

from nightjar.firmware_scripts.debian.contents import installed_files, model_files
from nightjar.wire.errors import RemoteProtocolError


def wheel(**files):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "/"), text)
    return made.getvalue()


def test_wheels_are_unpacked_into_one_folder_of_modules_and_pip_is_left_out():
    bundle = {
        "wheels/a-1-py3-none-any.whl": wheel(
            a__x="1", **{"a-1.data__purelib__b.py": "2", "a-1.data__scripts__run": "3"}
        ),
        "wheels/pip-25-py3-none-any.whl": wheel(pip__x="4"),
        "device/install.sh": b"",
        "model/manifest.json": b"{}",
    }
    assert installed_files(bundle) == {"a/x": b"1", "b.py": b"2"}
    assert model_files(bundle) == {"manifest.json": b"{}"}


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", "a\\..\\x", "a-1.data/purelib/../../x"])
def test_a_path_outside_is_refused(path):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(path, "x")
    with pytest.raises(RemoteProtocolError, match="inside of the folder"):
        installed_files({"wheels/a-1-py3-none-any.whl": made.getvalue()})


def test_what_is_no_wheel_and_what_overwrites_another_is_refused():
    with pytest.raises(RemoteProtocolError, match="is no wheel"):
        installed_files({"wheels/a-1-py3-none-any.whl": b"x"})
    with pytest.raises(RemoteProtocolError, match="brings another a/x"):
        installed_files({"wheels/a-1.whl": wheel(a__x="1"), "wheels/b-1.whl": wheel(a__x="2")})
