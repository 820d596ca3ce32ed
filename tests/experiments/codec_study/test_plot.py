import pytest

from experiments.codec_study.plot import draw
from experiments.codec_study.results import outcomes
from tests.experiments.codec_study.test_results import dense, training
from wire.errors import UnavailableError

TRAININGS = [
    *(dense(seed=seed, end=4.0 + seed / 10, report_bytes=700_000.0) for seed in (1, 2)),
    *(training(seed=seed, end=5.0) for seed in (1, 2)),
    *(training("topk-4 1 % EF", seed=seed, end=4.5) for seed in (1, 2)),
    dense(population="rare", end=5.0),
    training("mask-4 1 %", population="rare", end=5.5),
]


def test_the_same_results_give_the_same_picture(tmp_path):
    for name in ("a.svg", "b.svg"):
        draw(outcomes(TRAININGS), tmp_path / "new" / name)
    drawn = [(tmp_path / "new" / name).read_text() for name in ("a.svg", "b.svg")]
    assert drawn[0] == drawn[1]
    for words in ("topk-4, error feedback", "mask-4", "often", "rare", "bytes a report"):
        assert words in drawn[0]


def test_a_picture_can_be_pixels(tmp_path):
    draw(outcomes(TRAININGS), tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "taken").touch()
    with pytest.raises(UnavailableError, match="cannot write the picture"):
        draw(outcomes(TRAININGS), tmp_path / "taken" / "a.svg")
