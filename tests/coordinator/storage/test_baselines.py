"""What versions are compared with: what was measured counts more than what was given."""

from pathlib import Path

from nightjar.coordinator.config import BaselineConfig, TaskConfig
from nightjar.coordinator.storage.baselines import KeptBaselines, compared
from nightjar.models.baselines import Baselines, Measured

GIVEN = BaselineConfig(label="theirs", top1=0.2, top3=0.3)
KEPT = KeptBaselines(
    measured=Baselines(
        trigram=Measured(top1=0.19, top3=0.31, seconds=1.0),
        central=Measured(top1=0.22, top3=0.34, loss=4.5, seconds=60.0, steps=1200),
        before=Measured(top1=0.0, top3=0.0, loss=9.2, seconds=0.0),
        corpus="public.tsv",
        corpus_sha256="a" * 64,
        messages=12_345,
        text_sha256="b" * 64,
        learning_rate=1.0,
        clip_norm=1.0,
        epochs=10,
        seed=7,
        weights_sha256="c" * 64,
    ),
    made_s=5.0,
    code_version="0.1.0",
)


def test_without_anything_there_is_nothing_to_compare_with():
    assert compared(TaskConfig(model=Path()), None) == []


def test_what_was_given_is_shown_as_given():
    [shown] = compared(TaskConfig(model=Path(), baseline=GIVEN), None)
    assert (shown.label, shown.top1, shown.loss, shown.source) == ("theirs", 0.2, None, "given in the configuration")


def test_what_was_measured_replaces_it_and_says_how_it_was_made():
    trigram, central = compared(TaskConfig(model=Path(), baseline=GIVEN), KEPT)
    assert (trigram.label, trigram.top1, trigram.source) == (
        "trigram",
        0.19,
        "counted on 12,345 messages of public.tsv",
    )
    assert (central.label, central.top1, central.loss) == ("central", 0.22, 4.5)
    assert "10 epochs, 1,200 steps, learning rate 1, seed 7, Nightjar 0.1.0" in central.source
