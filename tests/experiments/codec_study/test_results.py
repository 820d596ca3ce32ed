import io
import math

import pytest
from rich.console import Console

from nightjar.experiments.codec_study.results import CurvePoint, FinishedTraining, append, outcomes, read, table
from nightjar.experiments.codec_study.variants import DENSE, VARIANTS
from nightjar.wire.errors import ConfigError, UnavailableError


def training(
    variant="topk-4 1 %", *, corpus="c", seed=1, start=6.0, end=5.0, population="often", rounds=10, report_bytes=1000.0
):
    return FinishedTraining(
        corpus=corpus,
        population=population,
        variant=variant,
        seed=seed,
        rounds=rounds,
        report_bytes=report_bytes,
        curve=(
            CurvePoint(round=0, nll=start, top1=0.0, top3=0.1),
            CurvePoint(round=rounds, nll=end, top1=0.1, top3=0.1 + (start - end) / 10),
        ),
        seconds=1.0,
    )


def dense(**fields):
    return training(DENSE.name, **fields)


def test_variants_have_names_of_their_own():
    assert len({variant.name for variant in VARIANTS}) == len(VARIANTS)


def test_finished_trainings_are_found_again(tmp_path):
    path = tmp_path / "new" / "trainings.jsonl"
    assert read(path) == []
    append(path, dense())
    append(path, training())
    assert read(path) == [dense(), training()]
    assert len({found.key for found in read(path)}) == 2


@pytest.mark.parametrize("text", ['{"corpus": "c"}\n', '{"cor', "[]\n"])
def test_a_line_that_is_no_training_is_said(tmp_path, text):
    path = tmp_path / "trainings.jsonl"
    append(path, dense())
    path.write_text(path.read_text() + text)
    with pytest.raises(ConfigError, match="finished training in each line"):
        read(path)


def test_a_file_that_cannot_be_used_is_said(tmp_path):
    with pytest.raises(ConfigError, match="cannot read"):
        read(tmp_path)
    with pytest.raises(UnavailableError, match="cannot write"):
        append(tmp_path, dense())


def test_shares_compare_with_the_dense_training_of_the_same_seed():
    rows = outcomes([dense(end=4.0), training(end=5.0), dense(seed=2, end=5.0), training(seed=2, end=5.25)])
    assert [row.variant for row in rows] == [DENSE.name, "topk-4 1 %"]
    assert (rows[0].share.mean, rows[0].share.deviation) == (1.0, 0.0)
    assert rows[1].gap.mean == pytest.approx((1.0 + 0.25) / 2)
    assert rows[1].share.mean == pytest.approx((0.5 + 0.75) / 2)
    assert rows[1].share.deviation == pytest.approx(0.25 / 2**0.5)
    assert rows[1].seeds == 2


def test_populations_and_rounds_are_never_mixed():
    other = [dense(population="rare", end=5.0), training(population="rare", end=5.5)]
    rows = outcomes([dense(), training(end=5.5), *other, training(rounds=99)])
    assert [(row.population, row.seeds) for row in rows] == [("often", 1), ("often", 1), ("rare", 1), ("rare", 1)]


def test_a_training_without_a_dense_one_beside_it_is_left_out():
    assert outcomes([training(), dense(seed=2)]) == outcomes([dense(seed=2)])


def test_there_is_no_share_of_a_dense_training_that_learned_nothing():
    (row,) = outcomes([dense(seed=1, end=6.0), dense(seed=2, end=5.0)])
    assert math.isnan(row.share.mean)
    assert row.seeds == 2


def test_the_table_is_ready_for_a_page():
    file = io.StringIO()
    Console(file=file, width=140).print(table(outcomes([dense(report_bytes=742_964.0), training(end=5.5)])))
    lines = [line.split("|") for line in file.getvalue().splitlines() if "topk-4" in line or "dense-f32" in line]
    assert [cell.strip() for cell in lines[0][1:5]] == ["often", "dense-f32", "1", "742,964"]
    assert [cell.strip() for cell in lines[1][4:8]] == ["1,000", "5.500 ± 0.000", "0.500 ± 0.000", "0.50 ± 0.00"]
