"""Builds a tar of our own files, links and modes, which is unpacked over Debian's root file system. Pure.

Source for the format: POSIX.1-1988 ustar, by the standard library.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping

from firmware_scripts.image.tools import EPOCH_S


def overlay_tar(files: Mapping[str, bytes], links: Mapping[str, str]) -> bytes:
    """A tar of files (contents by path) and symlinks (targets by path), all owned by root and with one time.

    A file that begins with ``#!`` is executable. Equal input gives identical bytes.

    >>> import io, tarfile
    >>> made = overlay_tar({"etc/hostname": b"nightjar"}, {"etc/localtime": "/usr/share/zoneinfo/UTC"})
    >>> tarfile.open(fileobj=io.BytesIO(made)).getnames()
    ['etc', 'etc/hostname', 'etc/localtime']
    """
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted({*files, *links, *_folders(files), *_folders(links)}):
            member = tarfile.TarInfo(path)
            member.mtime = EPOCH_S
            if path in files:
                data = files[path]
                member.size, member.mode = len(data), 0o755 if data.startswith(b"#!") else 0o644
                archive.addfile(member, io.BytesIO(data))
                continue
            if path in links:
                member.type, member.linkname, member.mode = tarfile.SYMTYPE, links[path], 0o777
            else:
                member.type, member.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(member)
    return made.getvalue()


def _folders(paths: Mapping[str, object]) -> set[str]:
    parts = [path.split("/") for path in paths]
    return {"/".join(names[:depth]) for names in parts for depth in range(1, len(names))}
