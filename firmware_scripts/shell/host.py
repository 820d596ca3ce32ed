"""This machine as :class:`firmware_scripts.core.checks.Host`."""

from __future__ import annotations

import grp
import importlib.util
import os
import shutil
import subprocess

# Where Debian keeps mkfs and its like, which are not on the path of ordinary users.
_ADMINISTRATORS = "/usr/local/sbin:/usr/sbin:/sbin"
_TIMEOUT_S = 10.0


class ThisHost:
    """Asks the real machine; a question that cannot be answered is answered as if the thing were not there."""

    def has_command(self, name: str) -> bool:
        """Whether a program is there."""
        return shutil.which(name) is not None or shutil.which(name, path=_ADMINISTRATORS) is not None

    def output(self, *command: str) -> str:
        """What a program printed."""
        try:
            done = subprocess.run(  # noqa: S603 - the checks name constants
                command, capture_output=True, timeout=_TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return done.stdout.decode(errors="replace")

    def has_module(self, name: str) -> bool:
        """Whether Python can import it."""
        try:
            return importlib.util.find_spec(name) is not None
        except ModuleNotFoundError:
            return False

    def is_root(self) -> bool:
        """Whether this runs as root."""
        return os.geteuid() == 0

    def groups(self) -> frozenset[str]:
        """Names of the groups of this user; those without a name are left out."""
        names = set()
        for number in os.getgroups():
            try:
                names.add(grp.getgrgid(number).gr_name)
            except KeyError:
                continue
        return frozenset(names)
