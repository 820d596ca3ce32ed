"""Plug-ins: objects that installed packages offer by entry points (Python's packaging user guide, "Entry points").

There are task types, strategies and codecs. Our own are in the code and no entry points, because a device's release is
a folder and no installed distribution; :func:`found` puts both into one table.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Any, NamedTuple

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
    table: dict[str, Plugin] = {}
    for entry in sorted(metadata.entry_points(group=group), key=lambda each: (each.name, each.value)):
        package, version = (entry.dist.name, entry.dist.version) if entry.dist is not None else ("", "")
        plugin = _loaded(entry, Plugin(group, entry.name, package, version))
        table[entry.name if entry.name not in table else f"{entry.name} of {package}"] = plugin
    return table


def found(
    group: str, ours: Mapping[str, object], fault: Callable[[str, Any], str] = lambda _name, _value: ""
) -> dict[str, Plugin]:
    """Our own and others' plug-ins of a group by name. Another's whose name is taken is kept apart, with its fault.

    Args:
        group: such as ``nightjar.codecs``.
        ours: name -> object.
        fault: (name, object) -> why an object of another package cannot be used; empty if it can.
    """
    table = {name: Plugin(group, name, OWN, "", value) for name, value in ours.items()}
    for key, plugin in plugins(group).items():
        if plugin.name in table:
            why = f"the name {plugin.name!r} is taken by {table[plugin.name].package}; give it another one"
        else:
            why = plugin.fault or fault(plugin.name, plugin.value)
        key = f"{plugin.name} of {plugin.package}" if plugin.name in table else key
        table[key] = replace(plugin, value=None, fault=why) if why else plugin
    return table


class Listed(NamedTuple):
    """A plug-in, for people.

    Attributes:
        kind: task type, strategy or codec.
        name: its name in manifests and settings.
        package: distribution that offers it.
        version: of the distribution.
        fault: why it cannot be used; empty if it can.
    """

    kind: str
    name: str
    package: str
    version: str
    fault: str

    def __str__(self) -> str:
        """One line."""
        fault = f": cannot be used: {self.fault}" if self.fault else ""
        return f"{self.kind} {self.name}: {self.package} {self.version}{fault}"


def listed(kind: str, table: Mapping[str, Plugin], version: str) -> list[Listed]:
    """The plug-ins of a table in the order of their names; ``version`` is that of our own."""
    rows = sorted(table.values(), key=lambda each: (each.name, each.package))
    return [Listed(kind, each.name, each.package, each.version or version, each.fault) for each in rows]


def _loaded(entry: metadata.EntryPoint, plugin: Plugin) -> Plugin:
    try:
        value = entry.load()
        value = value() if isinstance(value, type) else value
    except Exception as error:  # a plug-in may raise anything, and must not take the program with it
        fault = f"{type(error).__name__}: {error}"[:300]
        return Plugin(plugin.group, plugin.name, plugin.package, plugin.version, fault=fault)
    return Plugin(plugin.group, plugin.name, plugin.package, plugin.version, value)
