from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nightjar.models.configurations import configuration
from nightjar.models.pretraining.examples import shared_examples
from nightjar.models.pretraining.pace import EVERY_S, Paced
from nightjar.models.vocabulary import FIRST_WORD
from nightjar.wire.parameters import Vector

SIZE = 40
MESSAGES = np.random.default_rng(1).integers(FIRST_WORD, SIZE, (150, 5)).tolist()


class KilledError(Exception):
    """In the place of a kill."""


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_killed_training_goes_on_to_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nightjar.models.pretraining import training

    monkeypatch.setattr(training, "CHECKPOINT_EVERY_S", 0.0)
    begun: list[int] = []

    def train(checkpoint: Path, killed_at: int | None = None, passes: float = 3.0) -> Vector:
        def stop(step: int) -> None:
            begun.append(step)
            if step == killed_at:
                raise KilledError

        plan = training.PretrainingPlan(passes, learning_rate=3.0, clip_norm=1.0)
        examples = shared_examples(MESSAGES, [0] * len(MESSAGES), 20, least_people=1)
        return training.train(
            configuration("tiny"), SIZE, examples, plan, 7, tmp_path / checkpoint, lambda _done, _steps: None, stop
        )

    whole = train(Path("whole"))
    steps = len(begun)
    begun.clear()
    for killed_at in (1, 5):
        with pytest.raises(KilledError):
            train(Path("killed"), killed_at)
    again = train(Path("killed"))
    assert np.array_equal(again, whole)
    assert begun == [0, 1, *range(1, 6), *range(5, steps)]
    begun.clear()
    train(Path("killed"), passes=1.0)
    assert begun[0] == 0  # the checkpoint is of another training


def test_progress_is_said_every_few_seconds_and_at_the_end() -> None:
    now_s, lines = 0.0, []
    pace = Paced(lines.append, lambda: now_s)
    for step in range(1, 101):
        now_s += EVERY_S / 10
        pace("tiny", step, 100)
    assert len(lines) == 10
    assert lines[0].startswith("tiny: step 11 of 100 (11 %)")
    assert lines[-1] == "tiny: step 100 of 100 (100 %), 0.0 minutes left"
