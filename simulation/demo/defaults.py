"""Default settings of the demo for each model configuration.

The values were tuned on ``personas`` and on chat text (docs/adr/0006-demo-settings.md): a short warm start on public
text leaves room to learn, and a few local epochs at a moderate rate raise recall in a handful of rounds.
"""

from __future__ import annotations

from dataclasses import dataclass

from models.configurations import CONFIGURATIONS


@dataclass(frozen=True, slots=True)
class Defaults:
    """Settings of one model configuration.

    Attributes:
        vocabulary: maximum number of ids, specials included.
        messages: maximum number of messages per phone, held-out ones included.
        public_people: number of people that ``personas`` invents in addition to the phones.
        warm_start_steps: number of steps on public text before the first round.
        warm_start_rate: learning rate of the warm start.
        learning_rate: learning rate of the phones.
        clip_norm: maximum gradient norm on the phones and in the warm start.
        local_epochs: local epochs of the phones.
        server_learning_rate: learning rate of the server optimizer.
        goal_share: a round's goal of reports, as a share of the phones.
        report_deadline_s: real seconds for training and reporting.
        round_limit_s: real seconds per round after which the demo gives up.
        day_s: real seconds of a phone's day.
    """

    vocabulary: int
    messages: int
    public_people: int
    warm_start_steps: int
    warm_start_rate: float
    learning_rate: float
    clip_norm: float
    local_epochs: int
    server_learning_rate: float
    goal_share: float
    report_deadline_s: float
    round_limit_s: float
    day_s: float


DEFAULTS = {
    "tiny": Defaults(
        vocabulary=2_000,
        messages=2_000,
        public_people=12,
        warm_start_steps=200,
        warm_start_rate=2.0,
        learning_rate=6.0,
        clip_norm=0.5,
        local_epochs=5,
        server_learning_rate=1.0,
        goal_share=0.6,
        report_deadline_s=60.0,
        round_limit_s=90.0,
        day_s=60.0,
    ),
    "gboard": Defaults(
        vocabulary=10_000,
        messages=1_000,
        public_people=12,
        warm_start_steps=600,
        warm_start_rate=2.0,
        learning_rate=3.0,
        clip_norm=0.5,
        local_epochs=5,
        server_learning_rate=1.0,
        goal_share=0.6,
        report_deadline_s=240.0,
        round_limit_s=400.0,
        day_s=300.0,
    ),
}
DEFAULTS |= {shape.name: DEFAULTS[shape.family] for shape in CONFIGURATIONS.values()}
