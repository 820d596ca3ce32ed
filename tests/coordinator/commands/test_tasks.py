import re
import subprocess
import sys

import pytest

from nightjar.coordinator.learning.strategies import StrategyName
from nightjar.coordinator.records.inbox import Operated
from nightjar.coordinator.storage.blobs import FileBlobs
from nightjar.coordinator.tasks.operations import CreateTask, OperationRefused, PauseTask, ResumeTask, StopTask
from nightjar.coordinator.tasks.record import TaskRecord
from nightjar.coordinator.tasks.task import Task
from nightjar.coordinator.tasks.validation import noise_terms
from nightjar.wire.messages import Work
from tests.coordinator.commands.site import web_half


@pytest.fixture
def served(site):
    """A service that writes down a task that is asked for, and only notes the rest."""
    operations = []

    def post(event, database) -> None:
        if not isinstance(event, Operated):
            return
        operations.append(event.operation)
        answer = True
        match event.operation:
            case CreateTask(settings, _) if settings.goal < 5:
                answer = OperationRefused("the goal is too small")
            case CreateTask(settings, _):
                with database.transaction() as tx:
                    noise = noise_terms(settings, "5ec2e7" * 10)
                    state = Task(name=settings.name, number=2, created_s=100.0, noise=noise)
                    tx.save_task(TaskRecord(state=state, settings=settings))
        event.answer(answer)

    with web_half(site, post):
        yield operations


def test_the_tasks_are_listed_with_what_each_waits_for(ask):
    (row,) = ask("task", "list")
    assert (row["name"], row["kind"], row["status"], row["committed"], row["round"]) == (
        "keyboard",
        "train",
        "active",
        1,
        2,
    )
    assert row["reason"] == "waiting: 1 of 2 reports, 1 phone at work"


PRIVATE = ("privacy=dp", "rounds=500", "minimum_separation=100", "dp.epsilon=8.9", "plan.evaluation_share=0")


def test_what_a_private_task_promises_is_said_when_it_is_created(served, run, site):
    settings = [part for pair in PRIVATE for part in ("--set", pair)]
    status, _, said = run("task", "create", "private", *settings, "--config", site.config)
    assert status == 0
    assert "after 500 rounds: epsilon 8.9, delta 1e-06, for each device; after the 0 so far: epsilon 0.0" in said
    assert "a device takes part at most 5 times" in said
    (made,) = served
    assert made.settings.dp.epsilon == 8.9


def test_the_privacy_of_a_task_is_explained_even_before_the_service_ran(run, site, ask, tmp_path):
    assert ask("privacy", "explain")["ledger"] is None
    assert "reads each device's report" in ask("privacy", "explain", "keyboard")["explained"][0]
    settings = 'rounds = 500\nminimum_separation = 100\nprivacy = "dp"\ndp.epsilon = 8.9\nplan.evaluation_share = 0.0\n'
    fresh = site.config.with_name("fresh.toml")
    fresh.write_text(site.config.read_text().replace('"data"', '"none"') + settings)
    status, out, _ = run("privacy", "explain", "--config", fresh)
    assert status == 0
    assert "after 500 rounds: epsilon 8.9" in out
    assert run("privacy", "explain", "nobody", "--config", fresh)[0] == 2


def test_a_task_is_shown_with_its_settings_and_rounds_and_without_a_name_it_is_the_files(ask, run, site):
    shown = ask("task", "show")
    assert shown["settings"] == ask("task", "show", "keyboard")["settings"]
    assert shown["settings"]["plan"]["learning_rate"] == 1.0
    assert [row["number"] for row in shown["rounds"]] == [2, 1]
    status, out, _ = run("task", "show", "--config", site.config)
    assert status == 0
    lines = dict(re.findall(r"^ *(\S.*?) {2,}(\S.*?) *$", out, re.MULTILINE))
    assert lines["setting plan.learning_rate"] == "1.0"
    assert lines["task"] == "keyboard, train"
    assert lines["status"] == "active: waiting: 1 of 2 reports, 1 phone at work"
    assert not {"best_top1", "created_s", "since"} & lines.keys()
    status, _, err = run("task", "show", "nothing", "--config", site.config)
    assert status == 2
    assert "there is no task nothing" in err


@pytest.mark.parametrize(
    ("more", "warning"),
    [
        (("minimum=2",), ""),
        (("minimum=3",), "known devices: 2, and a round needs 3"),
        (
            ("minimum=2", "--experiment", "rates", "--share", "0.01"),
            "known devices in its share of the experiment rates: 0, and a round needs 2",
        ),
    ],
)
def test_a_task_for_fewer_known_devices_than_it_needs_is_created_with_a_warning(served, run, site, more, warning):
    status, _, err = run("task", "create", "new", "--config", site.config, "--set", "goal=8", "--set", *more)
    assert (status, bool(err)) == (0, bool(warning))
    assert warning in err


def test_a_task_is_made_with_what_is_given_over_what_the_file_says(served, ask, tmp_path):
    extra = tmp_path / "extra.toml"
    extra.write_text("goal = 8\n[schedule]\npause_s = 5.0\n")
    made = ask(
        "task",
        "create",
        "hot",
        "--file",
        extra,
        "--rounds",
        3,
        "--experiment",
        "rates",
        "--share",
        0.25,
        "--set",
        "plan.learning_rate=0.5",
        "--set",
        "codec.name=topk-8",
        "--set",
        "strategy=fedadam",
    )
    (operation,) = served
    wanted = operation.settings
    assert (wanted.name, wanted.kind, wanted.goal, wanted.rounds) == ("hot", Work.TRAIN, 8, 3)
    assert (wanted.plan.learning_rate, wanted.codec.name, wanted.schedule.pause_s) == (0.5, "topk-8", 5.0)
    assert wanted.strategy.name == StrategyName.FEDADAM, "a strategy or codec may be given by its name alone"
    assert (wanted.variant.experiment, wanted.variant.share) == ("rates", 0.25)
    assert operation.manifest is None
    assert made["name"] == "hot"


def test_a_task_can_begin_with_a_model_of_its_own(served, ask, site):
    ask("task", "create", "other", "--model", site.config.parent / "model")
    (operation,) = served
    assert FileBlobs(site.data / "artifacts").get(operation.manifest)


def test_an_evaluation_is_a_kind_of_task(served, ask):
    ask("task", "create", "look", "--kind", "evaluate", "--set", "source.version=1")
    (operation,) = served
    assert (operation.settings.kind, operation.settings.source.version) == (Work.EVALUATE, 1)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--set", "plan.learnig_rate=1"), "plan.learnig_rate"),
        (("--set", "goal=0"), "goal"),
        (("--set", "goal"), "NAME=VALUE"),
        (("--set", "target_top1=nan"), "target_top1: expected a number, got nan"),
        (("--set", "plan.learning_rate=inf"), "plan.learning_rate: expected a number, got inf"),
        (("--set", "goal=4"), "the goal is too small"),
        (("--file", "nowhere.toml"), "nowhere.toml"),
    ],
)
def test_what_cannot_be_is_refused_in_words(served, run, site, options, word):
    status, _, err = run("task", "create", "odd", *options, "--config", site.config)
    assert status == 2
    assert word in err
    assert all(isinstance(operation, CreateTask) for operation in served)


def test_to_create_a_task_loads_half_of_what_commands_with_a_database_do(site):
    count = "sum(name.split('.')[0] == 'nightjar' for name in sys.modules)"
    run_it = "import sys; from nightjar.coordinator.__main__ import main\ntry: main()\nfinally: print(" + count + ")"
    command = [sys.executable, "-P", "-c", run_it, "task", "create", "new", "--config", site.config]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "no coordinator runs on" in run.stderr
    assert int(run.stdout) <= 70


def test_a_task_is_paused_resumed_and_stopped_by_its_name(served, ask):
    ask("task", "create", "second")
    assert ask("task", "pause", "--reason", "night") == {"changed": True}
    ask("task", "resume", "second")
    ask("task", "stop", "second", "--reason", "enough")
    assert served[1:] == [PauseTask("keyboard", "night"), ResumeTask("second"), StopTask("second", "enough")]
