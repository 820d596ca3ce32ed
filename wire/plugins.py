"""Plug-ins: objects that installed packages offer by entry points (Python's packaging user guide, "Entry points").

There are task types, strategies and codecs. Our own are in the code and no entry points, because a device's release is
a folder and no installed distribution; :func:`found` puts both into one table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any, NamedTuple

OWN = "nightjar-federated"
"""The distribution of this project."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plug-in that is installed."""

    name: str  # name in its group, such as ``nightjar.task_types``
    package: str  # distribution that offers it
    version: str  # of the distribution; empty for our own
    value: Any = None  # the object; None if it cannot be loaded
    fault: str = ""  # why it cannot be loaded; empty if it can


def found(
    group: str, ours: Mapping[str, object], fault: Callable[[str, Any], str] = lambda _name, _value: ""
) -> dict[str, Plugin]:
    """Our own and others' plug-ins of a group by name. Loads them; one whose name is taken is kept apart, as a fault.

    Args:
        group: such as ``nightjar.codecs``.
        ours: name -> object.
        fault: (name, object) -> why an object of another package cannot be used; empty if it can.
    """
    table = {name: Plugin(name, OWN, "", value) for name, value in ours.items()}
    for entry in sorted(metadata.entry_points(group=group), key=lambda each: (each.name, each.value)):
        package, version = (entry.dist.name, entry.dist.version) if entry.dist is not None else ("", "")
        key, (value, why) = entry.name, _loaded(entry)
        if key in table:
            why = f"the name {key!r} is taken by {table[key].package}; give it another one"
            key = f"{key} of {package}"
        else:
            why = why or fault(key, value)
        table[key] = Plugin(entry.name, package, version, None if why else value, why)
    return table


class Listed(NamedTuple):
    """A plug-in (task type, strategy or codec), for people; the fault says why it cannot be used, empty if it can."""

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


def _loaded(entry: metadata.EntryPoint) -> tuple[Any, str]:
    """The object of an entry point, and why it cannot be loaded; empty if it can."""
    try:
        value = entry.load()
        return (value() if isinstance(value, type) else value), ""
    except Exception as error:  # a plug-in may raise anything, and must not take the program with it
        return None, f"{type(error).__name__}: {error}"[:300]
