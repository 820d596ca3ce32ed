"""Wheels as small as wheels can be."""

import base64
import hashlib
import zipfile


def make_wheel(folder, name, version="1.0", tag="py3-none-any", license_line="License-Expression: MIT", more=None):
    """Of a distribution whose name may have dashes."""
    file_name = name.replace("-", "_")
    module, info = f"{file_name}/__init__.py", f"{file_name}-{version}.dist-info"
    files = {
        module: f"version = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{license_line}\n\nText.\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n",
        **(more or {}),
    }
    record = [f"{path},sha256={_hash(content)},{len(content)}" for path, content in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""])
    path = folder / f"{file_name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name_inside, text in files.items():
            archive.writestr(zipfile.ZipInfo(name_inside), text)
    return path


def _hash(content):
    data = content if isinstance(content, bytes) else content.encode()
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
