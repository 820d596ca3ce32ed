"""Tells which settings changed since the last start, in the log and in the audit log."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
import structlog

from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.tasks.operations import AuditEntry
from nightjar.host.configuration import flattened

SECRETS = frozenset({"broker.password", "database_url"})
"""Settings that may hold a password: only a hash of them is stored, and no value is told."""
WHO = "the configuration"
ABSENT = "not set"
_MOST_TARGET, _MOST_VALUE = 64, 200

_log = structlog.get_logger("coordinator")


class SettingChanged(NamedTuple):
    """A setting that has another value than at the last start."""

    name: str
    before: str
    after: str


def settings_of(config: CoordinatorConfig) -> dict[str, str]:
    """Every setting by its name, as ``task.goal``, a text as it is and else in JSON; of secrets a hash.

    The database holds this form: with another one, the next start would tell changes that nobody made.
    """
    table = msgspec.to_builtins(config, enc_hook=_path)
    told = {name: _as_text(value) for name, value in flattened(table)}
    return {name: _hidden(value) if name in SECRETS and value else value for name, value in told.items()}


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[SettingChanged]:
    """The settings that differ, in order of their names, with their values in words.

    >>> changes({"task.goal": "2", "seed": "7"}, {"task.goal": "3", "seed": "7"})
    [SettingChanged(name='task.goal', before='2', after='3')]
    >>> changes({"broker.password": ""}, {"broker.password": "d83b"})
    [SettingChanged(name='broker.password', before='not set', after='one value')]
    >>> changes({"enrolment.names": "[]"}, {"enrolment.names": '["a.example","b.example"]'})
    [SettingChanged(name='enrolment.names', before='none', after='a.example, b.example')]
    """
    found = []
    for name in sorted({*before, *after}):
        was, now = before.get(name, ABSENT), after.get(name, ABSENT)
        told = _without_secret(was, now) if name in SECRETS else (was, now)
        if told[0] != told[1]:
            words = _in_words(told[0]), _in_words(told[1])
            found.append(SettingChanged(name, *(words if words[0] != words[1] else told)))
    return found


def note_settings(config: CoordinatorConfig, database: Database, now_s: float) -> list[SettingChanged]:
    """Log and audit what changed since the last start, and store the settings; returns the changes.

    Raises:
        UnavailableError: the database does not work now.
    """
    after = settings_of(config)
    with database.transaction() as tx:
        before = tx.settings()
        found = [] if before is None else changes(before, after)
        if before != after:
            tx.save_settings(after)
        for each in found:
            before_told, after_told = each.before[:_MOST_VALUE], each.after[:_MOST_VALUE]
            tx.add_audit(
                AuditEntry(
                    at_s=now_s,
                    who=WHO,
                    action="change-setting",
                    target=each.name[:_MOST_TARGET],
                    before=before_told,
                    after=after_told,
                )
            )
    for each in found:
        _log.info("setting_changed", setting=each.name, before=each.before, after=each.after)
    return found


def _without_secret(was: str, now: str) -> tuple[str, str]:
    before, after = (ABSENT if each in ("", ABSENT) else "one value" for each in (was, now))
    return (before, after) if was == now or ABSENT in (before, after) else ("one value", "another value")


def _in_words(text: str) -> str:
    """A list of texts with commas, as a variable of the environment has it; another value as it is."""
    try:
        return ", ".join(msgspec.json.decode(text, type=list[str])) or "none"
    except msgspec.DecodeError:
        return text


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _hidden(value: str) -> str:
    return hashlib.sha256(value.encode()).hexdigest()


def _path(value: object) -> str:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError
