"""Plug-ins: objects that installed packages offer by entry points (Python's packaging user guide, "Entry points")."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from importlib import metadata
from typing import Any

OWN = "nightjar-federated"
"""The distribution of this project."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plug-in that is installed.

    Attributes:
        group: such as ``nightjar.task_types``.
        name: name in its group.
        package: distribution that offers it.
        version: of the distribution; empty for our own.
        value: the object; None if it cannot be loaded.
        fault: why it cannot be loaded; empty if it can.
    """

    group: str
    name: str
    package: str
    version: str
    value: Any = None
    fault: str = ""


@functools.cache
def plugins(group: str) -> dict[str, Plugin]:
    """The plug-ins of a group by name. Loads them; a later one of the same name is left out, and says so.

    Args:
        group: such as ``nightjar.task_types``.
    """
    found: dict[str, Plugin] = {}
    for entry in sorted(metadata.entry_points(group=group), key=lambda each: (each.name, each.value)):
        package, version = (entry.dist.name, entry.dist.version) if entry.dist is not None else ("", "")
        plugin = _loaded(entry, Plugin(group, entry.name, package, version))
        found[entry.name if entry.name not in found else f"{entry.name} of {package}"] = plugin
    return found


def _loaded(entry: metadata.EntryPoint, plugin: Plugin) -> Plugin:
    try:
        value = entry.load()
        value = value() if isinstance(value, type) else value
    except Exception as error:  # a plug-in may raise anything, and must not take the program with it
        fault = f"{type(error).__name__}: {error}"[:300]
        return Plugin(plugin.group, plugin.name, plugin.package, plugin.version, fault=fault)
    return Plugin(plugin.group, plugin.name, plugin.package, plugin.version, value)
