"""This machine as an implementation of :class:`nightjar.firmware_scripts.core.checks.Host`."""

from __future__ import annotations

import grp
import importlib.util
import os

from nightjar.host.programs import find_program, run_program
from nightjar.wire.errors import UnavailableError

_TIMEOUT_S = 10.0


class ThisHost:
    """Queries the real machine; anything that cannot be determined counts as missing."""

    def has_command(self, name: str) -> bool:
        """Whether a program is installed."""
        return find_program(name) is not None

    def output(self, *command: str) -> str:
        """The output of a program."""
        try:
            return run_program(command, _TIMEOUT_S).stdout
        except UnavailableError:
            return ""

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
