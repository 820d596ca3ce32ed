import enum
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta

from nightjar.host.configuration import ConfigurationReader, accepted, read_toml, warn_of
from nightjar.wire.errors import ConfigError, RemoteProtocolError


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Inner(msgspec.Struct, frozen=True, kw_only=True):
    share: Annotated[float, Meta(ge=0, le=1)] = 0.5
    kind: Colour = Colour.RED


class Level(msgspec.Struct, frozen=True, kw_only=True):
    label: str
    file: Path | None = None


class AsStruct(msgspec.Struct, frozen=True, kw_only=True):
    device: str
    folder: Path = Path("data")
    words: tuple[str, ...] = ()
    limit: int | None = None
    how: Literal["fast", "slow"] = "fast"
    inner: Inner = Inner()
    level: Level | None = None


@dataclass(frozen=True)
class AsDataclass:
    device: str
    folder: Path = Path("data")
    words: tuple[str, ...] = ()
    limit: int | None = None
    how: Literal["fast", "slow"] = "fast"
    inner: Inner = field(default_factory=Inner)
    level: Level | None = None


@pytest.fixture(params=[AsStruct, AsDataclass])
def kind(request):
    return request.param


FOLDER = Path("/etc/app")


def lower(text):
    if text == "refused":
        msg = "this name is refused"
        raise RemoteProtocolError(msg, code="name")
    return text.lower()


def read(kind, table, environment=None):
    reader = ConfigurationReader(FOLDER, environment or {}, "APP", {"device": lower}, {"device": "; give it a name"})
    config = reader.read(kind, table)
    reader.note_unknown_variables(kind)
    return config, reader.faults


def test_defaults_stand_and_a_default_path_is_relative_to_the_file(kind):
    config, faults = read(kind, {"device": "Pi"})
    assert faults == []
    assert config == kind(device="pi", folder=FOLDER / "data")


def test_every_kind_of_setting_is_taken_from_the_file(kind):
    table = {
        "device": "pi",
        "folder": "/var/lib",
        "words": ["a", "b"],
        "limit": 3,
        "how": "slow",
        "inner": {"share": 1, "kind": "blue"},
        "level": {"label": "best", "file": "best.txt"},
    }
    config, faults = read(kind, table)
    assert faults == []
    level = Level(label="best", file=FOLDER / "best.txt")
    inner = Inner(share=1.0, kind=Colour.BLUE)
    folder, words = Path("/var/lib"), ("a", "b")
    assert config == kind(device="pi", folder=folder, words=words, limit=3, how="slow", inner=inner, level=level)


def test_variables_go_over_the_file_and_a_list_is_separated_by_commas(kind):
    environment = {
        "APP_DEVICE": "other",
        "APP_WORDS": "a, b,,c",
        "APP_LIMIT": "7",
        "APP_INNER_SHARE": "0.25",
        "APP_LEVEL_LABEL": "best",
        "HOME": "/root",
    }
    config, faults = read(kind, {"device": "pi", "limit": 3}, environment)
    assert faults == []
    assert (config.device, config.words, config.limit) == ("other", ("a", "b", "c"), 7)
    assert (config.inner.share, config.level) == (0.25, Level(label="best"))


def test_an_empty_text_leaves_an_optional_setting_out_and_no_other(kind):
    config, faults = read(kind, {"device": "pi"}, {"APP_LIMIT": ""})
    assert (config.limit, faults) == (None, [])
    config, faults = read(kind, {"device": "pi", "folder": ""})
    assert (config, len(faults)) == (None, 1)


def test_all_faults_are_noted_at_once(kind):
    table = {
        "folder": 5,
        "wrods": ["a"],
        "how": "slowly",
        "inner": {"share": 2, "kind": "green", "zzz": 1},
        "level": {},
    }
    config, faults = read(kind, table, {"APP_LIMIT": "many", "APP_INNER_SHAER": "1"})
    assert config is None
    said = "\n".join(faults)
    for part in (
        "device: is missing; give it a name",
        "folder: expected a path, got 5",
        "wrods: there is no such setting; did you mean 'words'?",
        "how: ",
        "expected one of fast, slow",
        "inner.share: ",
        "inner.kind: ",
        "expected one of red, blue",
        "inner.zzz: there is no such setting; expected one of share, kind",
        "level.label: is missing, and there is no default for it",
        "limit (from APP_LIMIT): ",
        "APP_INNER_SHAER: there is no such setting; did you mean 'APP_INNER_SHARE'?",
    ):
        assert part in said
    assert len(faults) == 10


@pytest.mark.parametrize("given", [3, "text", [1]])
def test_what_should_be_a_table_and_is_none_is_a_fault(kind, given):
    assert read(kind, {"device": "pi", "inner": given})[1] == [f"inner: expected a table [inner], got {given!r}"]


def test_a_check_may_change_a_value_or_refuse_it(kind):
    assert read(kind, {"device": "PI"})[0].device == "pi"
    assert read(kind, {"device": "refused"})[1] == ["device: this name is refused"]


def test_a_value_that_was_made_already_is_taken_as_it_is(kind):
    assert read(kind, {"device": "pi", "inner": Inner(share=0.1)})[0].inner.share == 0.1


def test_the_error_has_every_fault(tmp_path):
    with pytest.raises(ConfigError) as raised:
        accepted(tmp_path / "a.toml", None, ["one: x", "two: y"])
    assert str(raised.value).splitlines()[0].endswith("a.toml cannot be used, 2 fault(s):")
    assert str(raised.value).splitlines()[1:] == ["  - one: x", "  - two: y"]
    assert accepted(tmp_path, 3, []) == 3


def test_a_file_that_is_missing_a_folder_or_no_toml_is_a_config_error(tmp_path):
    with pytest.raises(ConfigError, match=r"there is no configuration file .*; make one"):
        read_toml(tmp_path / "none.toml", "make one")
    with pytest.raises(ConfigError, match="cannot read"):
        read_toml(tmp_path, "make one")
    for content in (b"\xff\xfe\x00", b"[task"):
        (tmp_path / "bad.toml").write_bytes(content)
        with pytest.raises(ConfigError, match="not valid TOML"):
            read_toml(tmp_path / "bad.toml", "make one")


def test_a_retired_setting_is_ignored_and_said_wherever_it_is_set(kind, capsys):
    retired = {"inner.old": "it did harm", "gone": "nobody used it"}
    reader = ConfigurationReader(FOLDER, {"APP_GONE": "1"}, "APP", retired=retired)
    config = reader.read(kind, {"device": "pi", "inner": {"old": 3}})
    reader.note_unknown_variables(kind)
    assert (config.device, reader.faults) == ("pi", [])
    warn_of(Path("app.toml"), reader.ignored)
    assert capsys.readouterr().err.splitlines() == [
        "warning: app.toml: APP_GONE is ignored: nobody used it; do not set it",
        "warning: app.toml: inner.old is ignored: it did harm; remove the line",
    ]
