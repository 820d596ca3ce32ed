"""Reads a TOML file and the environment into a frozen configuration type, and reports every fault at once.

Knows nothing of what the fields mean. A field ``task.goal`` may be overridden by ``NIGHTJAR_TASK_GOAL``; relative paths
are relative to the folder of the file.
"""

from __future__ import annotations

import difflib
import enum
import tomllib
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

import msgspec

from coordinator.config import CoordinatorConfig, disagreements
from wire.errors import ConfigError

ENVIRONMENT_PREFIX = "NIGHTJAR"

_Kind = TypeVar("_Kind", bound=msgspec.Struct)


def load_config(path: Path, environment: Mapping[str, str]) -> CoordinatorConfig:
    """The configuration of the coordinator.

    Args:
        path: the TOML file.
        environment: such as ``os.environ``.

    Raises:
        ConfigError: the file cannot be read, or something in it cannot be used; the message has every fault.
    """
    table = _read_toml(path)
    reader = _Reader(path.resolve().parent, environment)
    config = reader.read(CoordinatorConfig, table, ())
    faults = reader.faults
    if config is not None:
        faults = disagreements(config)
    if config is None or faults:
        msg = f"{path} cannot be used:" + "".join(f"\n  - {fault}" for fault in faults)
        raise ConfigError(msg)
    return config


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        msg = f"there is no configuration file {path}; 'nightjar-coordinator init' writes one to begin with"
        raise ConfigError(msg) from error
    except OSError as error:
        msg = f"cannot read the configuration file {path}: {error.strerror or error}"
        raise ConfigError(msg) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        msg = f"{path} is not valid TOML: {error}"
        raise ConfigError(msg) from error


class _Reader:
    """Walks a struct type field by field, so that one fault does not hide the next."""

    def __init__(self, base: Path, environment: Mapping[str, str]) -> None:
        self.base = base
        self.environment = environment
        self.faults: list[str] = []

    def read(self, kind: type[_Kind], table: Mapping[str, Any], where: tuple[str, ...]) -> _Kind | None:
        """A struct, or None after noting why there is none."""
        before = len(self.faults)
        fields = msgspec.structs.fields(kind)
        self._note_unknown(table, [field.name for field in fields], where)
        values: dict[str, Any] = {}
        for field in fields:
            inner, optional = _struct_inside(field.type)
            name = (*where, field.name)
            if inner is not None:
                given = table.get(field.name, {})
                if not isinstance(given, Mapping):
                    self.faults.append(f"{'.'.join(name)}: expected a table, got {given!r}")
                elif given or not optional or self._overridden(inner, name):
                    values[field.name] = self.read(inner, given, name)
            else:
                self._read_value(field, table, name, values)
        return kind(**values) if len(self.faults) == before else None

    def _read_value(
        self, field: msgspec.structs.FieldInfo, table: Mapping[str, Any], name: tuple[str, ...], values: dict[str, Any]
    ) -> None:
        variable = _variable(name)
        if variable in self.environment:
            raw: object = self.environment[variable]
            source = f"{'.'.join(name)} (from {variable})"
        elif field.name in table:
            raw = table[field.name]
            source = ".".join(name)
        elif field.required:
            self.faults.append(f"{'.'.join(name)}: is missing, and there is no default for it")
            return
        else:
            if isinstance(field.default, Path):
                values[field.name] = self.base / field.default
            return
        if raw == "" and _allows_none(field.type):
            return
        try:
            values[field.name] = msgspec.convert(
                raw, field.type, strict=variable not in self.environment, dec_hook=self._path
            )
        except msgspec.ValidationError as error:
            self.faults.append(f"{source}: {error}{_choices(field.type)}".replace("`", "'"))

    def _overridden(self, kind: type[msgspec.Struct], where: tuple[str, ...]) -> bool:
        return any(_variable((*where, field.name)) in self.environment for field in msgspec.structs.fields(kind))

    def _note_unknown(self, table: Mapping[str, Any], known: list[str], where: tuple[str, ...]) -> None:
        for key in table:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; expected one of {', '.join(known)}"
                self.faults.append(f"{'.'.join((*where, key))}: there is no such setting{hint}")

    def _path(self, kind: type, value: object) -> Path:
        if kind is Path and isinstance(value, str) and value:
            return self.base / value
        msg = f"Expected a path, got {value!r}"
        raise ValueError(msg)


def _variable(name: tuple[str, ...]) -> str:
    return "_".join((ENVIRONMENT_PREFIX, *name)).upper()


def _struct_inside(kind: Any) -> tuple[type[msgspec.Struct] | None, bool]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind, False
    if isinstance(kind, types.UnionType):
        for part in get_args(kind):
            if isinstance(part, type) and issubclass(part, msgspec.Struct):
                return part, True
    return None, False


def _choices(kind: Any) -> str:
    """What a closed choice is among, for whoever chose something else."""
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return f"; expected one of {', '.join(str(each.value) for each in kind)}"
    return ""


def _allows_none(kind: Any) -> bool:
    return types.NoneType in get_args(kind)
