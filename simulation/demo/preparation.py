"""Prepares a run of the demo before its first process starts.

It splits the corpus into phones and held-out text, makes the vocabulary, the program, the first version, the trigram
baseline, and one configuration file per process. Heavy steps run in a child process, so the demo itself never imports
TensorFlow.
"""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from nightjar.coordinator.tls.contexts import FOLDER
from nightjar.models import corpora
from nightjar.models.compact_ngram import compile_ngram
from nightjar.models.configurations import ModelConfiguration, configuration
from nightjar.models.corpora import Participant, Split
from nightjar.models.ngram import NgramRecall, train_trigram
from nightjar.models.shipped import NAMES as PRETRAINED_NAMES
from nightjar.models.starts import Start, pretrained_start, write_start
from nightjar.models.vocabulary import Vocabulary, words
from nightjar.models.warm_start import PASSES, warm_start
from nightjar.simulation.demo.configuration import (
    DEFAULTS,
    HELD_OUT,
    LOOPBACK,
    Defaults,
    DemoPorts,
    DemoSettings,
    coordinator_table,
    free_ports,
    phone_name,
    phone_table,
    write_toml,
)
from nightjar.simulation.demo.processes import outcome, quiet_child
from nightjar.simulation.demo.trust import enrol_phones, signed_by_owner
from nightjar.wire.errors import ConfigError

BUILD = Path("build")
KEPT_RUNS = 5
"""Older runs in ``build/demo`` are removed, because each has copies of the model."""

INVENTED = "personas"
"""The corpus of invented people."""
LANGUAGE = "en"
"""Their language."""

PUBLIC_PEOPLE = 12
"""Invented people in addition to the phones; their text is public."""
PERSONA_MESSAGES = 400
"""Average number of messages of an invented person."""


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run that is ready to start."""

    settings: DemoSettings
    folder: Path
    corpus_name: str  # for display
    coordinator_config: Path
    phone_configs: tuple[Path, ...]
    url: str
    keyboard_url: str  # of the first phone's keyboard; empty if there is none
    broker_port: int  # for phones
    trigram: NgramRecall  # on the held-out text; of a classification, shares of the commonest classes
    limit_s: float  # after this, an unfinished run is given up
    service_port: int = 0  # the broker's for the coordinator; only with certificates
    tls: Path | None = None  # folder of the servers' certificates; None for plain text


def prepare(settings: DemoSettings, console: Console) -> PreparedRun:
    """Prepare a run; progress is printed.

    Raises:
        ConfigError: an option, a corpus or a port cannot be used.
        UnavailableError: a child process died.
    """
    shape = configuration(settings.model)
    defaults = DEFAULTS[shape.name]
    ports = free_ports(settings.port)
    folder = run_folder(settings)
    with console.status("reading the corpus"):
        corpus = corpora.load(
            settings.corpus,
            settings.seed,
            people=settings.phones + PUBLIC_PEOPLE,
            messages=min(PERSONA_MESSAGES, defaults.messages),
        )
        text = corpora.split(corpus, settings.phones, settings.seed, defaults.messages)
    skipped = f", {corpus.skipped_rows} rows without user or text skipped" if corpus.skipped_rows else ""
    console.print(
        f"corpus {corpus.name}: {len(text.phones)} phones with {sum(len(p.typed) for p in text.phones):,} messages"
        f"{skipped}",
        highlight=False,
        soft_wrap=True,
    )
    pretrained = settings.corpus == INVENTED and shape.name in PRETRAINED_NAMES
    start = _start(shape, text, settings.seed, defaults, folder, console, pretrained=pretrained)
    vocabulary = start.vocabulary
    trigram = _trigram(vocabulary, text, () if pretrained else text.public)
    console.print(
        f"trigram of all text in one place: top-1 {100 * trigram.top1:.1f} %, top-3 {100 * trigram.top3:.1f} %",
        highlight=False,
        soft_wrap=True,
    )
    model = folder / "model"
    packaged = write_start(model, shape, replace(start, held_out=()), (LANGUAGE,), BUILD / "programs")
    owner_key = "" if packaged else signed_by_owner(folder)
    _write_held_out(folder / HELD_OUT, text.phones)
    speed = 86_400 / (settings.day_s or defaults.day_s)
    coordinator = coordinator_table(settings, defaults, ports, trigram)
    phones = [phone_table(settings, number, ports, speed, owner_key) for number in range(settings.phones)]
    for number, phone in enumerate(text.phones):
        home = folder / phones[number]["device"]
        home.mkdir()
        corpora.write_messages(home / "messages.txt", phone.typed)
    phone_configs = [write_toml(folder / p["device"] / "agent.toml", p) for p in phones]
    return configured(
        settings,
        console,
        folder,
        coordinator,
        phone_configs,
        ports,
        defaults,
        corpus_name=corpus.name,
        baseline=trigram,
        keyboard_url=f"http://{LOOPBACK}:{ports.keyboard}/",
    )


def configured(
    settings: DemoSettings,
    console: Console,
    folder: Path,
    coordinator: dict[str, Any],
    phone_configs: Sequence[Path],
    ports: DemoPorts,
    defaults: Defaults,
    *,
    corpus_name: str,
    baseline: NgramRecall,
    keyboard_url: str = "",
) -> PreparedRun:
    """Write the coordinator's configuration, enrol the phones, and describe the run."""
    coordinator_config = write_toml(folder / "coordinator.toml", coordinator)
    if not settings.plain:
        with console.status("making certificates"):
            enrol_phones(coordinator_config, {path.parent.name: path.parent / "data" for path in phone_configs})
    return PreparedRun(
        settings=settings,
        folder=folder,
        corpus_name=corpus_name,
        coordinator_config=coordinator_config,
        phone_configs=tuple(phone_configs),
        url=f"http://{LOOPBACK}:{ports.page}",
        keyboard_url=keyboard_url,
        broker_port=ports.broker,
        trigram=baseline,
        limit_s=defaults.round_limit_s * settings.rounds + 120,
        service_port=ports.service,
        tls=None if settings.plain else folder / coordinator["data_dir"] / FOLDER,
    )


def run_folder(settings: DemoSettings) -> Path:
    """The folder of a run, created; older runs are removed.

    Raises:
        ConfigError: the folder cannot be used.
    """
    if settings.folder is not None:
        folder = settings.folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                msg = f"--folder {folder} is not empty: a run needs a new folder"
                raise ConfigError(msg)
        except OSError as error:
            msg = f"--folder {folder} cannot be used: {error.strerror or error}; give a folder that can be written"
            raise ConfigError(msg) from error
        return folder.resolve()
    runs = BUILD / "demo"
    runs.mkdir(parents=True, exist_ok=True)
    for old in sorted(runs.iterdir())[: -KEPT_RUNS + 1]:
        shutil.rmtree(old, ignore_errors=True)
    now = datetime.datetime.now(tz=datetime.UTC)
    folder = runs / now.strftime("%Y%m%dT%H%M%S.%f")
    folder.mkdir()
    return folder.resolve()


def _start(
    shape: ModelConfiguration,
    text: Split,
    seed: int,
    defaults: Defaults,
    folder: Path,
    console: Console,
    *,
    pretrained: bool,
) -> Start:
    """The first version, and the public text that it knows.

    For invented people it is the pre-trained model: they write in phrases of their own, which the fleet has to learn in
    addition to English. Another corpus brings its own: text of other people than the phones'.
    """
    if pretrained:
        start = pretrained_start(shape, seed, None)
        said = f"starts from the pre-trained model, which was made from public chat of before {start.before}"
    else:
        vocabulary = Vocabulary.build(text.public, shape.max_vocabulary)
        public = [vocabulary.encode(words(message)) for message in text.public]
        with (
            console.status("training the first version on public text"),
            quiet_child(folder / "logs" / "preparation.log") as child,
        ):
            warm = child.submit(warm_start, shape, vocabulary.size, public[: defaults.public_messages], PASSES, seed)
            weights = outcome(warm, "the warm start")
        start = Start(vocabulary, weights, compile_ngram(public, vocabulary.size), ())
        said = f"starts from a model trained on {len(public):,} messages of other people"
    console.print(f"{said}; vocabulary {start.vocabulary.size:,}", highlight=False, soft_wrap=True)
    return start


def _trigram(vocabulary: Vocabulary, text: Split, public: Sequence[str]) -> NgramRecall:
    """The trigram baseline: trained on public and typed text, measured on the same held-out text as the model."""
    typed = (message for phone in text.phones for message in phone.typed)
    seen = [vocabulary.encode(words(message)) for message in (*public, *typed)]
    held_out = [vocabulary.encode(words(message)) for phone in text.phones for message in phone.held_out]
    return train_trigram(seen, vocabulary.size).recall(held_out)


def _write_held_out(path: Path, phones: Sequence[Participant]) -> None:
    rows = ["user\ttext"]
    for number, phone in enumerate(phones):
        rows += [f"{phone_name(number)}\t{' '.join(message.split())}" for message in phone.held_out]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
