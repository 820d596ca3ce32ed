"""The agent's settings; where its file of settings cannot be used, those that it ran with last.

A card that is damaged under ``agent.toml`` must not end a device that knows who it is. So an agent that runs keeps a
copy of its settings, with a checksum, in its data folder; or beside the file, if only the file says where that folder
is. The copy is used whenever the file is refused, also for a mistake of a person: the device goes on, and says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from nightjar.edge_agent.config import DATA_DIR_VARIABLE, FIRST, AgentConfig, data_dir_of, load_text, settings_folder
from nightjar.edge_agent.shell.kept_apart import KEPT_SETTINGS, DamagedFileError, sealed, unsealed
from nightjar.host.configuration import MOST_BYTES, in_home, parsed_toml, read_settings
from nightjar.host.files import read_file, replace_file
from nightjar.host.put_away import put_copy_away
from nightjar.wire.errors import ConfigError

SERVICE_SETTINGS = Path("/etc/nightjar/agent.toml")
"""The file of the service, which reads a copy of it."""
SERVICE_DATA = Path("/var/lib/nightjar-agent")
_CHECKSUM_BYTES = 65
_MOST_SAID = 180

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """What an agent runs with.

    Attributes:
        path: the file of settings.
        text: what the settings were read from.
        copy: where the text is to be kept.
        fault: why the file is not used but the copy, in one line; empty if it is.
    """

    path: Path
    config: AgentConfig
    text: str
    copy: Path
    fault: str = ""

    @property
    def notice(self) -> str:
        """For a person: that the settings are those of before, and why; empty if they are not."""
        said = self.fault if len(self.fault) <= _MOST_SAID else f"{self.fault[: _MOST_SAID - 3]}..."
        return f"{said}; the settings of before are used" if said else ""

    def put_damaged_away(self, wall_s: float | None) -> None:
        """Keep what is in the place of the file for a person; nothing if the file is used.

        It is copied, because a service may not write where it lies. ``wall_s`` is the time to name, if it is trusted.

        Raises:
            OSError: the folder cannot be written.
        """
        if self.fault:
            log.error("settings_of_before", file=str(self.path), because=self.fault)
            put_copy_away(self.config.data_dir, self.path.name, _read(self.path), self.notice, wall_s)

    def keep(self) -> None:
        """Keep the settings, which an agent could start with; on a full disk at the next start."""
        try:
            replace_file(self.copy, sealed(self.text.encode()))
        except OSError as error:
            log.warning("settings_not_kept", file=str(self.copy), error=str(error))


def settings_of(path: Path, environment: Mapping[str, str]) -> AgentSettings:
    """Read the settings of a file, or those that an agent ran with before if it cannot be used.

    Raises:
        ConfigError: the file cannot be used, and there are none of before, or they cannot be used either.
    """
    copies = _copies(path, environment)
    kept = next(filter(None, map(_kept, copies)), None)
    try:
        _refuse_no_file(path, kept)
        text = read_settings(path, FIRST)
        _refuse_cut_off(path, text, kept)
        return AgentSettings(path, load_text(path, text, environment), text, copies[0])
    except ConfigError as error:
        if kept is None:
            raise
        try:
            config = load_text(path, kept, environment)
        except ConfigError:
            raise error from None  # for what it says, not for what it was
        return AgentSettings(path, config, kept, copies[0], " ".join(str(error).split()))


def folder_of(path: Path, environment: Mapping[str, str]) -> Path:
    """The agent's data folder, by its settings or those of before: a device that is not enrolled yet has only that.

    Raises:
        ConfigError: neither says where it is.
    """
    try:
        return data_dir_of(path, environment)
    except ConfigError:
        for kept in filter(None, map(_kept, _copies(path, environment))):
            data_dir = parsed_toml(path, kept).get("data_dir")
            if isinstance(data_dir, str) and data_dir:
                return settings_folder(path) / in_home(data_dir)
        raise


def cut_off(text: str, kept: str) -> str:
    r"""How a file is only a part of the settings of before, as a power cut leaves it; empty if it is not.

    A person who takes the last lines out leaves whole lines.

    >>> cut_off("a = 1", "a = 100"), cut_off("", "a = 100"), cut_off("a = 1\n", "a = 1\nb = 2\n")
    ('ends within a line that went on before', 'has no settings any more', '')
    """
    settings = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if not settings and kept.strip() and text != kept:
        return "has no settings any more"
    if text != kept and kept.startswith(text) and not text.endswith("\n") and kept[len(text)] != "\n":
        return "ends within a line that went on before"
    return ""


def _refuse_no_file(path: Path, kept: str | None) -> None:
    """Refuse a named pipe, which would be waited for; a person may give one where there are no settings of before."""
    if kept is not None and path.exists() and not path.is_file():
        msg = f"cannot read the configuration file {path}: it is no file"
        raise ConfigError(msg)


def _refuse_cut_off(path: Path, text: str, kept: str | None) -> None:
    fault = "" if kept is None else cut_off(text, kept)
    if fault:
        msg = f"{path} {fault}"
        raise ConfigError(msg)


def _copies(path: Path, environment: Mapping[str, str]) -> list[Path]:
    """Where settings are kept, and where else to look for them."""
    data_dir = environment.get(DATA_DIR_VARIABLE)
    if data_dir:
        return [settings_folder(path) / in_home(data_dir) / KEPT_SETTINGS]
    beside = path.parent / f".{path.name}.kept"  # of an empty path, too, which is then refused in words
    return [beside, SERVICE_DATA / KEPT_SETTINGS] if path == SERVICE_SETTINGS else [beside]


def _kept(copy: Path) -> str | None:
    try:
        return unsealed(_read(copy, _CHECKSUM_BYTES)).decode()
    except (DamagedFileError, UnicodeDecodeError):
        return None


def _read(path: Path, more_bytes: int = 0) -> bytes:
    """The beginning of a file, as much as settings can have; nothing if it cannot be read."""
    try:
        return read_file(path, MOST_BYTES + more_bytes)
    except OSError:
        return b""
