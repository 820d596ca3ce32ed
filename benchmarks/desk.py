"""Measures typing in every program of a desk, beside the two predictors that Debian has for that.

People who took no part in the shipped model (as in ``first_day``) come to a fresh desk, and type their messages in
order. Three candidates are shown, before the first letter of a word, too; a word among them is chosen with one key.
Each predictor learns from what the person types, and from nobody else's.

- ``nightjar``: the shipped model, an agent that is not enrolled, and the engine ``nightjar-ibus``, through IBus.
- ``ibus-typing-booster``: through IBus, with the part of ``--public`` that the shipped model was made from, read by its
  own "learn from a file", and what its own clean-up at a start leaves of that.
- ``presage``: through its library, with the same text.

``keystrokes_saved_percent`` is that of :mod:`nightjar.edge_agent.core.keystrokes`. Figures choose candidates of
Nightjar, so a figure that belongs to the text costs Escape, too, while candidates are shown. F1 to F3 choose those of
typing-booster. ``key_to_candidates_p99_ms`` is from a key to the last candidates for it, in a program that IBus serves.
``idle_pss_mb`` is the memory of agent, suggester and engine ten seconds after a person has typed, the median of all
desks; a page that some share counts once (PSS). ``texts_differing`` counts messages that were not, in the program, what
was meant: a key that chose came too late or too early for the engine. On a busy machine candidates come late, and then
all figures but presage's are too low. ``--so-far FILE`` lets a run that was cut off go on.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import click
import msgspec
from rich.console import Console

from nightjar.benchmarks import presage
from nightjar.benchmarks.desk_record import DeskRecord, DeskSetting, TypedPerson
from nightjar.benchmarks.first_day import Person, drawn, typed
from nightjar.benchmarks.ibus_desk import PYTHON, START_S, TypedField, checkout, desk, missing
from nightjar.benchmarks.measuring import errors_in_a_line, print_json, quantile, show
from nightjar.benchmarks.pretrained import outside, pretrained, shipped_folder, written_before
from nightjar.benchmarks.setting import BUILD
from nightjar.edge_agent.core.keystrokes import Replayed
from nightjar.host.children import python_command
from nightjar.models import corpora
from nightjar.models.vocabulary import words
from nightjar.simulation.progress import progress
from nightjar.wire.errors import CorpusError, UnavailableError

TITLE = "typing on a fresh desk, keystrokes saved, %"
WORDS, PEOPLE = 3_000, 10
PREDICTORS = ("nightjar", "ibus-typing-booster", "presage")
IDLE_S = 10.0
_BOOSTER = Path("/usr/share/ibus-typing-booster/engine")
_BOOSTER_CHOOSES = ("F1", "F2", "F3")
"""Not figures: it keeps letters to itself until a word ends, and Escape would drop those before a figure in a word."""
_BOOSTER_KEYS = ", ".join(
    f"'commit_candidate_{n}_plus_space': <['{key}']>" for n, key in enumerate(_BOOSTER_CHOOSES, 1)
)
_BOOSTER_SETTINGS = f"""[org/freedesktop/ibus/engine/typing-booster]
pagesize=3
mincharcomplete=0
dictionary='en_US'
inputmethod='NoIME'
keybindings={{{_BOOSTER_KEYS}}}
"""
_BOOSTER_LEARNS = """
import sys
sys.path.insert(0, sys.argv[1])
import tabsqlitedb
database = tabsqlitedb.TabSqliteDb(user_db_file=sys.argv[3])
database.read_training_data_from_file(sys.argv[2])  # says no if only its checkpoint failed, after all was committed
again = tabsqlitedb.TabSqliteDb(user_db_file=sys.argv[3])
again.cleanup_database(thread=False)
again.database.commit()
count, = again.database.execute("SELECT count(*) FROM phrases").fetchone()
print(count)
sys.exit(count < 1000)
"""
_AGENT = """needs_claim = true
data_dir = "~/.local/share/nightjar"
[keyboard]
enabled = true
port = 0
model = {model}
"""
_ENGINE = 'figures = "always"\nlanguage = "en"\n'


def measure(
    corpus: Path,
    public: Path,
    model: Path,
    least_words: int,
    seed: int,
    at_once: int,
    predictors: Sequence[str] = PREDICTORS,
    so_far: Path | None = None,
) -> dict[str, Any]:
    """The figures; the help of the options explains the arguments.

    Raises:
        UnavailableError: a program is not installed, or does not start.
        CorpusError: nobody is left in the corpus, or ``public`` is not what the model was made from.
    """
    lacking = missing()
    if "ibus-typing-booster" in predictors and not _BOOSTER.is_dir():
        lacking.append("ibus-typing-booster")
    if "presage" in predictors and not presage.installed():
        lacking.append("presage")
    if lacking:
        msg = f"expected {', '.join(lacking)} of Debian; apt-get install {' '.join(lacking)}"
        raise UnavailableError(msg)
    made_from = pretrained(model).made_from
    if not made_from.is_text(public):
        msg = f"{public}: expected the text that the shipped model was made from (its made_from.json names the SHA-256)"
        raise CorpusError(msg)
    people = at_least(outside(corpora.load(str(corpus), seed), public, made_from).users, least_words, seed)
    texts = [" ".join(words(text)) for each in written_before(public, made_from.date).values() for text in each]
    setting = DeskSetting(hashlib.sha256(corpus.read_bytes()).hexdigest(), made_from.sha256, least_words, seed)
    record = DeskRecord(so_far, setting)
    booster_knows = _booster_knows(texts) if "ibus-typing-booster" in predictors else Path()
    presage_knows = presage.train(texts, BUILD / "presage") if "presage" in predictors else Path()
    with tempfile.TemporaryDirectory(prefix="nightjar-desk-") as folder:
        home = Path(folder)

        def nightjar(number: int) -> TypedPerson:
            idle_mb: list[float] = []
            at = _nightjar(home / f"nightjar-{number}", model, idle_mb)
            return msgspec.structs.replace(_at_desk("nightjar", at, number, people[number]), idle_mb=idle_mb[0])

        def booster(number: int) -> TypedPerson:
            at = _booster(home / f"booster-{number}", booster_knows)
            return _at_desk("ibus-typing-booster", at, number, people[number])

        def library(number: int) -> TypedPerson:
            with contextlib.closing(presage.Presage(presage_knows, home / f"presage-{number}.db")) as predictor:
                counts = typed(predictor.suggest, _as_typed(people[number]), predictor.learn)
            return TypedPerson("presage", number, counts)

        for name, type_at in zip(PREDICTORS, (nightjar, booster, library), strict=True):
            if name in predictors:
                _type_all(name, type_at, len(people), record, at_once)
    totals = {name: sum((each.counts for each in record.all_of(name)), Replayed()) for name in predictors}
    ours = record.all_of("nightjar") if "nightjar" in predictors else []
    times_ms = [time_ms for each in ours for time_ms in each.times_ms]
    return {
        "predictors": [
            {"predictor": name, "keystrokes_saved_percent": total.saved_percent, "top3": 100 * total.top3 / total.words}
            for name, total in totals.items()
        ],
        "key_to_candidates_p99_ms": quantile(times_ms, 0.99) if times_ms else None,
        "key_to_candidates_p50_ms": quantile(times_ms, 0.5) if times_ms else None,
        "idle_pss_mb": median(each.idle_mb for each in ours if each.idle_mb is not None) if ours else None,
        "texts_differing": sum(each.differing for each in ours),
        "messages": sum(each.messages for each in ours),
        "words": max(total.words for total in totals.values()),
        "people": len(people),
        "desks_at_once": at_once,
    }


def at_least(users: Any, least_words: int, seed: int) -> list[Person]:
    """People in random order, until there are enough, and their messages have enough words.

    Raises:
        CorpusError: there are not so many people.
    """
    while len(people := drawn(users, least_words, seed)) < min(PEOPLE, len(users)):
        least_words *= 2
    if len(people) < PEOPLE:
        msg = f"expected at least {PEOPLE} people who took no part in the model, got {len(people)}"
        raise CorpusError(msg)
    return people


def _type_all(name: str, type_at: Callable[[int], TypedPerson], people: int, record: DeskRecord, at_once: int) -> None:
    """Type everybody who is not in the record yet."""
    left = [number for number in range(people) if record.of(name, number) is None]
    with ThreadPoolExecutor(1 if name == "presage" else at_once) as desks:
        futures = [desks.submit(lambda number: record.add(type_at(number)), number) for number in left]
        for future in progress(Console(stderr=True), futures, name):
            future.result()


def _at_desk(name: str, at: contextlib.AbstractContextManager[TypedField], number: int, person: Person) -> TypedPerson:
    with at as field:
        counts = typed(field.suggest, _as_typed(person), field.send) + Replayed(keystrokes=field.further)
    return TypedPerson(name, number, counts, field.times_ms, field.messages, field.differing)


def _as_typed(person: Person) -> Person:
    """The person's messages as the replay types them: words in lower case with single spaces."""
    return Person(person.user, [text for text in (" ".join(words(each)) for each in person.messages) if text])


@contextlib.contextmanager
def _nightjar(home: Path, model: Path, idle_mb: list[float]) -> Iterator[TypedField]:
    settings = home / ".config/nightjar"
    settings.mkdir(parents=True)
    (settings / "agent.toml").write_text(_AGENT.format(model=json.dumps(str(model.resolve()))), encoding="utf-8")
    (settings / "ibus.toml").write_text(_ENGINE, encoding="utf-8")
    environment = {**os.environ, "HOME": str(home)}
    command = python_command("-m", "nightjar.edge_agent", "run", "--config", str(settings / "agent.toml"))
    with (home / "agent.log").open("wb") as log:
        agent = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stderr=log)  # noqa: S603 - ourselves
        try:
            _wait_for_model(home / ".local/share/nightjar/suggester/socket", agent)
            own = {"PYTHONPATH": checkout()}
            with desk(home, "nightjar", _component(), own) as field:
                yield field
                time.sleep(IDLE_S)
                idle_mb.append(sum(_pss_mb(pid) for pid in (agent.pid, *_below(agent.pid), _engine(home))))
        finally:
            agent.terminate()
            agent.wait(START_S)


def _component() -> str:
    """The engine's component file, with Debian's Python and the packages of this checkout."""
    command = " ".join(python_command("-m", "nightjar.edge_agent.desktop", python=PYTHON))
    made = python_command("-m", "nightjar.edge_agent.desktop", "--component", command)
    return subprocess.run(made, capture_output=True, text=True, check=True).stdout  # noqa: S603 - ourselves


def _wait_for_model(path: Path, agent: subprocess.Popen[bytes]) -> None:
    until_s = time.monotonic() + START_S
    while time.monotonic() < until_s and agent.poll() is None:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            connection.sendall(b'{"do": "status"}\n')
            if json.loads(connection.makefile("rb").readline())["version"] is not None:
                return
        time.sleep(0.1)
    msg = "the agent does not start, or has no model"
    raise UnavailableError(msg)


@contextlib.contextmanager
def _booster(home: Path, knows: Path) -> Iterator[TypedField]:
    data, settings = home / ".local/share/ibus-typing-booster", home / ".config/glib-2.0/settings"
    data.mkdir(parents=True)
    settings.mkdir(parents=True)
    shutil.copy(knows, data / "user.db")
    (settings / "keyfile").write_text(_BOOSTER_SETTINGS, encoding="utf-8")
    with desk(home, "typing-booster", None, {}, _BOOSTER_CHOOSES) as field:
        yield field


def _booster_knows(texts: Sequence[str]) -> Path:
    """The database of typing-booster that has learned a text; made once for each text."""
    text = "\n".join(texts) + "\n"
    kept = BUILD / "typing-booster" / f"{hashlib.sha256(text.encode()).hexdigest()[:12]}.db"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            file, made = Path(folder) / "text.txt", Path(folder) / "user.db"
            file.write_text(text, encoding="utf-8")
            command = python_command("-c", _BOOSTER_LEARNS, str(_BOOSTER), str(file), str(made), python=PYTHON)
            done = subprocess.run(  # noqa: S603 - Debian's program
                command, env={**os.environ, "HOME": folder}, capture_output=True, text=True, check=False
            )
            if done.returncode:
                msg = f"typing-booster could not learn the text: {done.stderr.strip()[-300:]}"
                raise UnavailableError(msg)
            made.replace(kept)
    return kept


def _below(pid: int) -> list[int]:
    """The children of a process, and theirs."""
    children = [
        int(child)
        for tasks in Path(f"/proc/{pid}/task").glob("*/children")
        for child in tasks.read_text(encoding="ascii").split()
    ]
    return [*children, *(further for child in children for further in _below(child))]


def _engine(home: Path) -> int:
    """The process of the engine at a desk: IBus starts it as nobody's child."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            named = b"edge_agent.desktop" in (folder / "cmdline").read_bytes()
            if named and f"HOME={home}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                return int(folder.name)
    msg = "the engine nightjar-ibus does not run"
    raise UnavailableError(msg)


def _pss_mb(pid: int) -> float:
    """The memory of a process; 0 if it ended since it was listed."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")) / 1e3


@click.command()
@click.option("--corpus", required=True, type=click.Path(path_type=Path), help="Messages to type: TSV (user, text).")
@click.option(
    "--public", required=True, type=click.Path(path_type=Path), help="The text that the shipped model was made from."
)
@click.option("--folder", type=click.Path(path_type=Path), help="A model folder with a made_from.json.")
@click.option("--words", "least_words", default=WORDS, show_default=True, type=click.IntRange(1), help="At least.")
@click.option("--seed", default=7, show_default=True, type=click.IntRange(0, 2**31), help="Whose messages are typed.")
@click.option(
    "--at-once",
    default=1,
    show_default=True,
    type=click.IntRange(1, 16),
    help="Desks; more delay candidates.",
)
@click.option(
    "--predictor",
    "predictors",
    multiple=True,
    type=click.Choice(PREDICTORS),
    help="Only this one; may be repeated.  [default: all]",
)
@click.option(
    "--so-far",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A file that keeps the figures of each person, who is not typed again with that predictor.",
)
@click.option("--json", "as_json", is_flag=True)
def main(
    *,
    corpus: Path,
    public: Path,
    folder: Path | None,
    least_words: int,
    seed: int,
    at_once: int,
    predictors: Sequence[str],
    so_far: Path | None,
    as_json: bool,
) -> None:
    """Measure typing on a fresh desk with Nightjar and with Debian's other predictors."""
    with errors_in_a_line("desk"):
        model = folder or shipped_folder("gboard")
        chosen = [name for name in PREDICTORS if name in predictors or not predictors]
        figures = measure(corpus, public, model, least_words, seed, at_once, chosen, so_far)
    if as_json:
        print_json(figures)
        return
    show(TITLE, figures["predictors"])
    show("a desk", [{name: value for name, value in figures.items() if name != "predictors"}])


if __name__ == "__main__":
    sys.exit(main())
