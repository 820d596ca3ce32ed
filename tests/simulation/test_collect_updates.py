import io
import math

import msgspec
import numpy as np
import pytest
from rich.console import Console

from models.configurations import CONFIGURATIONS
from models.corpora import Corpus
from simulation.collect_updates import (
    ABOUT,
    FEWEST_MESSAGES,
    LAYOUT,
    MOST_MESSAGES,
    WARM_UP_STEPS,
    About,
    CollectedUpdate,
    CollectionSettings,
    Updates,
    choose_clients,
    collect,
    load,
    main,
    save,
)
from wire.errors import ConfigError, CorpusError
from wire.parameters import ParameterLayout, ParameterSpec

LAYOUT_OF_SIX = ParameterLayout((ParameterSpec("w", (2, 3)),))


def corpus(**counts):
    return Corpus("c", {user: tuple(f"{user} {number}" for number in range(count)) for user, count in counts.items()})


def updates(clients=2):
    rows = tuple(
        CollectedUpdate(file=f"client-{number:03d}.npy", messages=20, num_examples=90, steps=2, loss=4.5, norm=1.0)
        for number in range(clients)
    )
    about = About(
        format=1,
        corpus="c",
        model="tiny",
        seed=1,
        clients=clients,
        warm_up_steps=3,
        warm_up_rate=3.0,
        learning_rate=0.5,
        local_epochs=1,
        clip_norm=1.0,
        parameters=6,
        vocabulary=9,
        invented_words=0,
        runtime="r 1",
        base_loss=5.0,
        base_top1=0.1,
        base_top3=0.2,
        updates=rows,
    )
    return Updates(LAYOUT_OF_SIX, [np.arange(6, dtype=np.float32) * (n + 1) for n in range(clients)], about)


# --- who trains ---


def test_clients_typed_enough_and_the_warm_up_never_sees_their_text():
    people, public = choose_clients(corpus(a=300, b=FEWEST_MESSAGES, c=FEWEST_MESSAGES - 1, d=25), 2, seed=1)
    assert len(people) == 2
    assert all(FEWEST_MESSAGES <= len(messages) <= MOST_MESSAGES for messages in people)
    authors = {messages[0].split()[0] for messages in people}
    assert "c" not in authors
    assert authors.isdisjoint(message.split()[0] for message in public)
    assert len(public) == 300 + 20 + 19 + 25 - sum({"a": 300, "b": 20, "d": 25}[author] for author in authors)


def test_a_client_trains_on_its_newest_messages():
    (messages,), _ = choose_clients(corpus(a=300, b=1), 1, seed=1)
    assert messages[-1] == "a 299"
    assert len(messages) == MOST_MESSAGES


def test_the_seed_decides_who_is_a_client():
    many = corpus(**{f"u{number}": 30 for number in range(30)})
    chosen = [choose_clients(many, 5, seed)[0] for seed in (1, 1, 2)]
    assert chosen[0] == chosen[1] != chosen[2]


def test_messages_without_a_word_are_passed_over():
    people, public = choose_clients(Corpus("c", {"a": ("?!",) * 99, "b": ("hi", ":)") * 20, "d": ("yo", "...")}), 1, 1)
    assert people == [("hi",) * 20]
    assert public == ["yo"]


@pytest.mark.parametrize("counts", [{"a": 30}, {"a": 30, "b": 30}, {"a": 30, "b": 19, "c": 3}])
def test_too_few_people_are_refused_with_their_number(counts):
    with pytest.raises(CorpusError, match=r"2 clients need .* use fewer clients or more text"):
        choose_clients(corpus(**counts), 2, seed=1)


def test_every_model_has_a_warm_up():
    assert WARM_UP_STEPS.keys() == {shape.family for shape in CONFIGURATIONS.values()}


# --- the folder ---


def test_what_is_saved_is_loaded(tmp_path):
    saved = updates()
    save(tmp_path / "new", saved)
    layout, deltas, about = load(tmp_path / "new")
    assert layout == saved.layout
    assert about == saved.about
    for delta, expected in zip(deltas, saved.deltas, strict=True):
        assert delta.dtype == np.float32
        np.testing.assert_array_equal(delta, expected)


def test_updates_of_two_runs_are_never_mixed(tmp_path):
    (tmp_path / "something").touch()
    with pytest.raises(ConfigError, match="not empty"):
        save(tmp_path, updates())
    with pytest.raises(ConfigError, match="not empty"):
        save(tmp_path / "something", updates())


def change(path, **fields):
    path.write_bytes(msgspec.json.encode(msgspec.json.decode(path.read_bytes()) | fields))


FAULTS = {
    "no about": lambda folder: (folder / ABOUT).unlink(),
    "no layout": lambda folder: (folder / LAYOUT).unlink(),
    "about is cut": lambda folder: (folder / ABOUT).write_bytes((folder / ABOUT).read_bytes()[:50]),
    "about of another format": lambda folder: change(folder / ABOUT, format=2),
    "about of another model": lambda folder: change(folder / ABOUT, parameters=7),
    "about with a client too many": lambda folder: change(folder / ABOUT, clients=3),
    "about with an unknown field": lambda folder: change(folder / ABOUT, more=1),
    "an impossible layout": lambda folder: (folder / LAYOUT).write_text('{"tensors": [{"name": "w", "shape": [0]}]}'),
    "no delta": lambda folder: (folder / "client-001.npy").unlink(),
    "delta is cut": lambda folder: (folder / "client-001.npy").write_bytes(b"\x93NUMPY"),
    "delta is empty": lambda folder: (folder / "client-001.npy").write_bytes(b""),
    "delta of another model": lambda folder: np.save(folder / "client-001.npy", np.zeros(5, np.float32)),
    "delta of doubles": lambda folder: np.save(folder / "client-001.npy", np.zeros(6)),
    "delta with a NaN": lambda folder: np.save(folder / "client-001.npy", np.full(6, np.nan, np.float32)),
    "a pickle": lambda folder: np.save(folder / "client-001.npy", np.array([{}] * 6), allow_pickle=True),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_a_folder_that_is_not_whole_is_refused_by_the_name_of_the_file(tmp_path, fault):
    folder = tmp_path / "updates"
    save(folder, updates())
    fault(folder)
    with pytest.raises(ConfigError, match=r"updates"):
        load(folder)


# --- the command ---


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--corpus", "missing.tsv"], "no corpus file missing.tsv"),
        (["--model", "huge"], "'tiny' or 'gboard'"),
        (["--corpus", "few.tsv"], "24 clients need"),
    ],
)
def test_what_cannot_be_used_is_one_clear_line(tmp_path, monkeypatch, capsys, arguments, expected):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "few.tsv").write_text("user\ttext\na\thello\n")
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--out", "out"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert expected in said
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_not_empty_is_refused_before_the_training(tmp_path, capsys):
    (tmp_path / "kept").write_text("mine")
    with pytest.raises(SystemExit) as ended:
        main(["--corpus", "missing.tsv", "--out", str(tmp_path)])
    assert ended.value.code == 2
    assert "is not empty" in capsys.readouterr().err
    assert (tmp_path / "kept").read_text() == "mine"


@pytest.mark.long
@pytest.mark.tflite
@pytest.mark.tensorflow
def test_clients_train_from_a_model_that_knows_more_than_nothing():
    settings = CollectionSettings(model="tiny", clients=3, seed=5, warm_up_steps=60)
    said = io.StringIO()
    first, again = collect(settings, Console(file=said)), collect(settings, Console(file=said))
    about = first.about
    assert about == again.about
    for delta, same, update in zip(first.deltas, again.deltas, about.updates, strict=True):
        np.testing.assert_array_equal(delta, same)
        assert delta.shape == (about.parameters,)
        assert update.norm == pytest.approx(np.linalg.norm(delta))
        assert update.steps >= update.num_examples / 320
        assert update.loss < about.base_loss + 1
    assert len({delta.tobytes() for delta in first.deltas}) == 3
    assert about.base_loss < math.log(about.vocabulary) - 1
    assert about.base_top3 > 0.05
    assert about.invented_words > 0
    assert "warm-up steps: 60 of 60" in said.getvalue()


@pytest.mark.slow
@pytest.mark.tflite
@pytest.mark.tensorflow
def test_the_command_writes_a_folder_that_loads(tmp_path, capsys):
    out = tmp_path / "updates"
    arguments = ["--model", "tiny", "--clients", "2", "--warm-up-steps", "5", "--local-epochs", "2"]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--learning-rate", "1.5", "--out", str(out)])
    assert ended.value.code == 0
    about = load(out).about
    assert (about.clients, about.local_epochs, about.learning_rate, about.warm_up_steps) == (2, 2, 1.5, 5)
    assert {path.name for path in out.iterdir()} == {LAYOUT, ABOUT, "client-000.npy", "client-001.npy"}
    assert str(out) in capsys.readouterr().out
