"""Every page of experiments runs in its smoke form, and its rows can be recorded and run again."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from nightjar.experiments import __main__, record, running
from nightjar.experiments.__main__ import PAGES, main
from nightjar.experiments.data_sets import cifar10
from nightjar.experiments.frame import Form, Request, ResultRow, averaged, row, run_page
from nightjar.wire.errors import ConfigError

pytestmark = pytest.mark.tensorflow  # some pages train with it


@pytest.mark.parametrize("name", PAGES)
def test_the_smoke_form_of_a_page_yields_finite_rows(name, tmp_path):
    rows = list(run_page(name, import_module(f"nightjar.experiments.{name}").run, Request(Form.SMOKE, tmp_path)))
    assert rows
    assert len({each.name for each in rows}) == len(rows)
    for each in rows:
        assert math.isfinite(each.measured)
        assert each.command.startswith(f"python -m nightjar.experiments.{name} --form smoke")
        assert each.seeds
    msgspec.json.encode(rows)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_at_most_200_lines(name):
    module = import_module(f"nightjar.experiments.{name}")
    with Path(module.__file__).open() as source:
        assert sum(1 for _ in source) <= 200


def _page(request):
    return [row(request, "a", [0.5, 0.7], seeds=[1, 2], pooled=0.7, curves={"x": [(0, 0.1), (1, 0.6)]})]


def test_recorded_rows_are_kept_and_replaced_beside_those_of_the_laboratory(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "RESULTS", tmp_path / "results.json")
    (first,) = run_page("made", _page, Request(Form.SHORT, tmp_path, tmp_path))
    assert first.measured == pytest.approx(0.6)
    assert first.delta_accuracy == pytest.approx(0.1)
    assert first.command == "python -m nightjar.experiments.made --form short --data DATA"
    record.keep([first, ResultRow(name="b", command="learn", measured=0.1, seeds=[1])])
    record.keep([msgspec.structs.replace(first, measured=0.9)])
    assert [(each.name, each.measured) for each in record.results()] == [("b", 0.1), ("a", 0.9)]


def test_a_row_that_runs_alone_has_a_command_of_its_own(tmp_path):
    rows = [row(Request(Form.LONG, tmp_path), "a cell", [1.0], seeds=[1], alone=True)]
    (found,) = run_page("thesis", lambda _: rows, Request(Form.LONG, tmp_path))
    assert found.command == "python -m nightjar.experiments.thesis --form long --only 'a cell'"


def test_rows_of_several_seeds_become_means_with_their_spread():
    request = Request(Form.LONG, Path())
    of_seeds = [
        [row(request, "a", [y], seeds=[seed], pooled=y + 1, figures={"b": y * 2}, curves={"c": [(1, y), (2, 0)]})]
        for seed, y in ((1, 0.0), (2, 2.0))
    ]
    (found,) = averaged(of_seeds)
    assert (found.measured, found.spread, found.pooled, found.delta_accuracy) == (1.0, 2**0.5, 2.0, 1.0)
    assert (found.seeds, found.figures, found.curves) == ([1, 2], {"b": 2.0}, {"c": [(1, 1.0), (2, 0.0)]})
    assert averaged(of_seeds[:1]) == of_seeds[0]


def test_a_page_that_was_stopped_goes_on_where_it_was(tmp_path, monkeypatch):
    def cells(request):
        for name in ("a", "b"):
            if name not in request.done:
                made.append(name)
                yield row(request, name, [1.0], seeds=[1], bound=name == "a")
                if len(made) == 1:
                    raise KeyboardInterrupt

    made = []
    monkeypatch.setattr(record, "RESULTS", tmp_path / "results.json")
    monkeypatch.setattr(__main__, "PAGES", {"cells": 1})
    monkeypatch.setattr(running, "import_module", lambda _: type("cells", (), {"run": staticmethod(cells)}))
    for _ in range(2):
        CliRunner().invoke(main, ["--record", "--resume", "--out", str(tmp_path)])
    assert made == ["a", "b"]
    assert [(each.name, each.bound) for each in record.results()] == [("a", True), ("b", False)]


def test_a_long_form_replaces_a_short_one_and_not_the_other_way_round(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "RESULTS", tmp_path / "results.json")
    short, long = (
        ResultRow(name="a", command="", page="p", form=form, measured=0.1, seeds=[1]) for form in ("short", "long")
    )
    for each in (short, long, short):
        record.keep([each])
    assert record.results() == [long]


def test_a_name_that_another_page_has_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "RESULTS", tmp_path / "results.json")
    one, other = (ResultRow(name="a", command="", page=page, form="short", measured=0.1, seeds=[1]) for page in "pq")
    record.keep([one])
    with pytest.raises(ConfigError, match="of p; rename"):
        record.keep([other])


def test_recorded_rows_have_names_of_their_own_and_commands_of_their_pages():
    rows = record.results()
    assert len({each.name for each in rows}) == len(rows)
    # Silos were a command of the simulation when their rows were recorded.
    others = {"": "simulation learn experiments/", "silos": ("simulation silos ", "experiments.silos ")}
    for each in rows:
        assert each.page in others.keys() | PAGES.keys()
        module = others.get(each.page, f"experiments.{each.page} --form {each.form}")
        command = each.command.replace("-m nightjar.", "-m ")
        assert command.removeprefix("python -m ").startswith(module)


def test_a_smoke_form_is_not_recorded():
    answer = CliRunner().invoke(main, ["--form", "smoke", "--record"])
    assert answer.exit_code == 2
    assert "smoke" in answer.output


@pytest.mark.parametrize(("chosen", "status"), [([], 0), (["--page", "cifar"], 2)])
def test_a_page_without_its_data_set_is_left_out_with_the_command_that_fetches_it(
    chosen, status, tmp_path, monkeypatch
):
    monkeypatch.delenv("NIGHTJAR_EXPERIMENTS_DATA", raising=False)
    lacking = type("cifar", (), {"run": staticmethod(lambda request: cifar10(request.data))})
    monkeypatch.setattr(__main__, "PAGES", {"cifar": 1})
    monkeypatch.setattr(running, "import_module", lambda _: lacking)
    answer = CliRunner().invoke(main, [*chosen, "--out", str(tmp_path)])
    assert answer.exit_code == status
    assert "not run: cifar" in answer.stderr
    assert "git clone https://" in answer.stderr


def test_pages_that_ran_say_how_long_the_others_will_take(tmp_path, monkeypatch):
    monkeypatch.setattr(__main__, "PAGES", {"one": 10, "other": 20})
    monkeypatch.setattr(running, "import_module", lambda _: type("one", (), {"run": staticmethod(_page)}))
    answer = CliRunner().invoke(main, ["--out", str(tmp_path)], catch_exceptions=False)
    first, last = answer.stderr.splitlines()
    assert first.endswith("pages left: 1, about 1 min")
    assert last.startswith("other: 0 s, 0 s of processors")


def test_all_pages_are_run_in_turn(tmp_path, monkeypatch):
    monkeypatch.setattr(__main__, "PAGES", {"made": 1})
    monkeypatch.setattr(running, "import_module", lambda _: type("made", (), {"run": staticmethod(_page)}))
    answer = CliRunner().invoke(main, ["--form", "smoke", "--json", "--out", str(tmp_path)], catch_exceptions=False)
    (only,) = msgspec.json.decode(answer.stdout, type=list[ResultRow])
    assert (only.name, only.page, only.form) == ("a", "made", "smoke")


@pytest.mark.slow
def test_pages_side_by_side_give_the_rows_of_pages_in_turn(tmp_path):
    pages = [part for page in ("catalogue.refusals", "hierarchical") for part in ("--page", page)]
    command = [*pages, "--form", "smoke", "--json", "--out", str(tmp_path)]
    in_turn = CliRunner().invoke(main, command, catch_exceptions=False)
    # As a person runs it: a spawned process does not load the __main__ of a package.
    aside = [sys.executable, "-m", "nightjar.experiments", *command, "--jobs", "2"]
    beside = subprocess.run(aside, capture_output=True, text=True, check=True)
    assert beside.stdout == in_turn.stdout
    assert sorted(line.partition(":")[0] for line in beside.stderr.splitlines()) == sorted(pages[1::2])


def _dies(_name, _request):
    os._exit(1)


@pytest.mark.slow
def test_a_page_whose_process_is_killed_is_said_in_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "_whole_page", _dies)
    killed = ["--page", "hierarchical", "--form", "smoke", "--jobs", "2", "--out", str(tmp_path)]
    answer = CliRunner().invoke(main, killed, catch_exceptions=False)
    assert answer.exit_code == 3
    assert "a page's process was killed" in answer.output
