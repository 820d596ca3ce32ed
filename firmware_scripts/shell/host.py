"""This machine as an implementation of :class:`firmware_scripts.core.checks.Host`."""

from __future__ import annotations

import grp
import importlib.util
import os
import shutil
import subprocess

# Where Debian keeps mkfs and similar programs, which are not on ordinary users' path.
_ADMINISTRATORS = "/usr/local/sbin:/usr/sbin:/sbin"
_TIMEOUT_S = 10.0


class ThisHost:
    """Queries the real machine; anything that cannot be determined counts as missing."""

    def has_command(self, name: str) -> bool:
        """Whether a program is installed."""
        return shutil.which(name) is not None or shutil.which(name, path=_ADMINISTRATORS) is not None

    def output(self, *command: str) -> str:
        """The output of a program."""
        try:
            done = subprocess.run(  # noqa: S603 - the checks name constants
                command, capture_output=True, timeout=_TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return done.stdout.decode(errors="replace")

    def has_module(self, name: str) -> bool:
        """Whether Python can import a module."""
        try:
            return importlib.util.find_spec(name) is not None
        except ModuleNotFoundError:
            return False

    def is_root(self) -> bool:
        """Whether this process runs as root."""
        return os.geteuid() == 0

    def groups(self) -> frozenset[str]:
        """The names of this user's groups; groups without a name are left out."""
        names = set()
        for number in os.getgroups():
            try:
                names.add(grp.getgrgid(number).gr_name)
            except KeyError:
                continue
        return frozenset(names)
