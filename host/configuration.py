"""Reads a TOML file and the environment into a frozen configuration type, and reports every fault at once.

The settings and their defaults are the fields of the type, a dataclass or a msgspec struct. The rules are the same for
every program:

- ``goal`` in the table ``[task]`` is the field ``task.goal``; the variable ``PREFIX_TASK_GOAL`` overrides the file;
- a relative path, even a default one, is relative to the folder of the file; ``~/`` is the user's home;
- the text of a variable is converted to the field's type; the items of a list are separated by commas;
- an empty text unsets an optional setting;
- an unknown setting is a fault, which suggests the most similar setting;
- a setting that there is no more is ignored with a warning, so that files of before can still be read.
"""

from __future__ import annotations

import dataclasses
import sys
import tomllib
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from nightjar.host.value_faults import did_you_mean, fault_in_words
from nightjar.wire.errors import ConfigError, NightjarError

_Kind = TypeVar("_Kind")
_NOTHING: Mapping[str, Any] = types.MappingProxyType({})


MOST_BYTES = 1 << 20
"""A file of settings that is larger is none: what lies in its place could fill the memory."""


def read_toml(path: Path, remedy: str) -> dict[str, Any]:
    """Read the tables of a file.

    ``remedy`` is for the error's message: what to do if the file does not exist.

    Raises:
        ConfigError: the file cannot be read, or is not TOML.
    """
    return parsed_toml(path, read_settings(path, remedy))


def read_settings(path: Path, remedy: str) -> str:
    """Read the text of a file of settings; ``remedy`` is as for :func:`read_toml`.

    Raises:
        ConfigError: the file cannot be read, or is no text.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            msg = f"{path} cannot be a configuration file: expected at most {MOST_BYTES} bytes, and it is larger"
            raise ConfigError(msg)
        return data.decode()
    except FileNotFoundError as error:
        msg = f"there is no configuration file {path}; {remedy}"
        raise ConfigError(msg) from error
    except OSError as error:
        msg = f"cannot read the configuration file {path}: {error.strerror or error}"
        raise ConfigError(msg) from error
    except UnicodeDecodeError as error:
        msg = f"{path} is not valid TOML: {error}"
        raise ConfigError(msg) from error


def parsed_toml(path: Path, text: str) -> dict[str, Any]:
    """Read the tables of a text; ``path`` is for the error's message.

    Raises:
        ConfigError: it is not TOML.
    """
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:  # the latter for hundreds of nested lists
        msg = f"{path} is not valid TOML: {error}"
        raise ConfigError(msg) from error


def flattened(table: Mapping[str, Any], where: str = "") -> Iterator[tuple[str, Any]]:
    """The values of nested tables, each with its path.

    >>> list(flattened({"task": {"goal": 2, "plan": {}}, "seed": 7}))
    [('task.goal', 2), ('seed', 7)]
    """
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from flattened(value, f"{where}{name}.")
        else:
            yield f"{where}{name}", value


def accepted(path: Path, config: _Kind | None, faults: list[str]) -> _Kind:
    """Return the configuration if it has no faults.

    Raises:
        ConfigError: there are faults; the message lists all of them.
    """
    if config is None or faults:
        msg = f"{path} cannot be used, {len(faults)} fault(s):" + "".join(f"\n  - {fault}" for fault in faults)
        raise ConfigError(msg)
    return config


def in_home(path: str) -> Path:
    """A path as a file of settings names it: ``~/`` at its beginning is the home of the user of this process.

    Raises:
        ConfigError: this user has no home.

    >>> in_home("data/~")
    PosixPath('data/~')
    """
    if not path.startswith("~/"):
        return Path(path)
    try:
        return Path.home() / path[2:]
    except RuntimeError as error:
        msg = f"expected a user with a home for {path!r}, got none; name the whole path"
        raise ConfigError(msg) from error


def warn_of(path: Path, ignored: Sequence[str]) -> None:
    """Say on standard error which settings of a file or of the environment are ignored."""
    for each in ignored:
        sys.stderr.write(f"warning: {path}: {each}\n")


class ConfigurationReader:
    """Walks a type field by field, so that one fault does not hide the next.

    Args:
        folder: folder of the configuration file.
        environment: environment variables, such as ``os.environ``.
        prefix: prefix of the program's variables, without the trailing underscore; "" if the environment holds settings
            by their own names, ``task.goal``, as ``--set`` gives them.
        checks: by name of a setting, a function that validates its value and may convert it; raises ValueError or an
            error of :mod:`nightjar.wire.errors`.
        missing: by name of a required setting, what to do if it is missing.
        retired: by name of a setting that there is no more, why.

    Attributes:
        faults: the faults found so far; a caller may add its own.
        ignored: the retired settings found so far, with what to do.
    """

    def __init__(
        self,
        folder: Path,
        environment: Mapping[str, str],
        prefix: str,
        checks: Mapping[str, Callable[[Any], Any]] = _NOTHING,
        missing: Mapping[str, str] = _NOTHING,
        retired: Mapping[str, str] = _NOTHING,
    ) -> None:
        self.faults: list[str] = []
        self._folder, self._environment, self._prefix = folder, environment, prefix
        self._checks, self._missing, self._retired = checks, missing, retired
        variables = {name: self._variable(tuple(name.split("."))) for name in retired}
        self._retired_variables = frozenset(variables.values())
        set_there = (name for name, variable in variables.items() if variable in environment)
        self.ignored = [f"{variables[name]} is ignored: {retired[name]}; do not set it" for name in set_there]

    def read(self, kind: type[_Kind], table: Mapping[str, Any], where: tuple[str, ...] = ()) -> _Kind | None:
        """Read a value of the type; None after noting the faults."""
        before = len(self.faults)
        fields = list(_fields_of(kind))
        for key in table:
            name = ".".join((*where, key))
            if name in self._retired:
                self.ignored.append(f"{name} is ignored: {self._retired[name]}; remove the line")
            else:
                self._note_unknown(key, [field.name for field in fields], where)
        values: dict[str, Any] = {}
        for field in fields:
            path = (*where, field.name)
            inner = _table_in(field.kind)
            if inner is None:
                self._read_value(field, table, path, values)
            elif field.name in table or field.required or self._is_overridden(inner, path):
                values[field.name] = self._read_table(inner, table.get(field.name, {}), path)
        return kind(**values) if len(self.faults) == before else None

    def note_unknown_variables(self, kind: type) -> None:
        """Note the variables with the prefix that name no setting. Call only if no other program uses the prefix."""
        known = {self._variable(name) for name in _names_in(kind)} | self._retired_variables
        for variable in sorted(self._environment):
            if variable not in known and variable.startswith(f"{self._prefix}_" if self._prefix else ""):
                self._note_unknown(variable, sorted(known), ())

    def text_of(self, name: str, table: Mapping[str, Any]) -> object:
        """The raw, unchecked value of a top-level setting; None if it is not set."""
        return self._environment.get(self._variable((name,)), table.get(name))

    def _read_table(self, kind: type[_Kind], given: object, name: tuple[str, ...]) -> _Kind | None:
        if isinstance(given, kind):
            return given
        if isinstance(given, Mapping):
            return self.read(kind, given, name)
        self.faults.append(f"{'.'.join(name)}: expected a table [{'.'.join(name)}], got {given!r}")
        return None

    def _read_value(
        self, field: _Field, table: Mapping[str, Any], name: tuple[str, ...], values: dict[str, Any]
    ) -> None:
        source, variable = ".".join(name), self._variable(name)
        is_text = variable in self._environment
        raw: object = self._environment[variable] if is_text else table.get(field.name)
        if raw is None and field.required:
            self.faults.append(f"{source}: is missing{self._missing.get(source, ', and there is no default for it')}")
        elif raw is None or (raw == "" and types.NoneType in typing.get_args(field.kind)):
            if isinstance(field.default, Path):
                values[field.name] = self._folder / field.default
        else:
            try:
                if is_text and _is_list(field.kind):
                    raw = [part.strip() for part in str(raw).split(",") if part.strip()]
                value = msgspec.convert(raw, field.kind, strict=not is_text, dec_hook=self._path)
                values[field.name] = self._checks[source](value) if source in self._checks else value
            except (ValueError, NightjarError) as error:  # msgspec's errors are ValueErrors
                label = f"{source} (from {variable if self._prefix else '--set'})" if is_text else source
                self.faults.append(f"{label}: {fault_in_words(error, field.kind, raw)}")

    def _is_overridden(self, kind: type, where: tuple[str, ...]) -> bool:
        return any(self._variable((*where, *name)) in self._environment for name in _names_in(kind))

    def _note_unknown(self, key: str, known: list[str], where: tuple[str, ...]) -> None:
        if key not in known:
            self.faults.append(f"{'.'.join((*where, key))}: there is no such setting{did_you_mean(key, known)}")

    def _path(self, kind: type, value: object) -> Path:
        if kind is Path and isinstance(value, str) and value:
            return self._folder / in_home(value)
        msg = f"expected a path, got {value!r}"
        raise ValueError(msg)

    def _variable(self, name: tuple[str, ...]) -> str:
        return "_".join((self._prefix, *name)).upper() if self._prefix else ".".join(name)


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    kind: Any
    required: bool
    default: object


def _fields_of(kind: type) -> Iterator[_Field]:
    if issubclass(kind, msgspec.Struct):
        for field in msgspec.structs.fields(kind):
            yield _Field(field.name, field.type, field.required, field.default)
        return
    hints = typing.get_type_hints(kind, include_extras=True)
    for attribute in dataclasses.fields(cast(Any, kind)):
        required = attribute.default is dataclasses.MISSING and attribute.default_factory is dataclasses.MISSING
        yield _Field(attribute.name, hints[attribute.name], required, attribute.default)


def _names_in(kind: type, where: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The names of all settings, including those in nested tables."""
    for field in _fields_of(kind):
        inner = _table_in(field.kind)
        if inner is None:
            yield (*where, field.name)
        else:
            yield from _names_in(inner, (*where, field.name))


def _table_in(kind: Any) -> type | None:
    """The type of the nested table in a field; None if the field cannot be a table."""
    for part in (kind, *(typing.get_args(kind) if isinstance(kind, types.UnionType) else ())):
        if isinstance(part, type) and (issubclass(part, msgspec.Struct) or dataclasses.is_dataclass(part)):
            return part
    return None


def _is_list(kind: Any) -> bool:
    return any(typing.get_origin(part) in (tuple, list) for part in (kind, *typing.get_args(kind)))
