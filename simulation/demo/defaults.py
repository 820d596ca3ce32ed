"""Default settings of the demo for each model configuration.

The first version is trained on public text, as by ``models export``, and phones train as the product's default task
says (docs/adr/0006-demo-settings.md). What differs is that everything is small and quick.
"""

from __future__ import annotations

from dataclasses import dataclass

from models.configurations import CONFIGURATIONS


@dataclass(frozen=True, slots=True)
class Defaults:
    """Settings of one model configuration.

    Attributes:
        messages: maximum number of messages per phone, held-out ones included.
        public_messages: maximum number of public messages that the first version is trained on.
        report_deadline_s: real seconds for training and reporting.
        round_limit_s: real seconds per round after which the demo gives up.
        day_s: real seconds of a phone's day.
    """

    messages: int
    public_messages: int
    report_deadline_s: float
    round_limit_s: float
    day_s: float


DEFAULTS = {
    "tiny": Defaults(
        messages=2_000,
        public_messages=20_000,
        report_deadline_s=60.0,
        round_limit_s=90.0,
        day_s=60.0,
    ),
    "gboard": Defaults(
        messages=1_000,
        public_messages=8_000,
        report_deadline_s=240.0,
        round_limit_s=400.0,
        day_s=300.0,
    ),
}
DEFAULTS |= {shape.name: DEFAULTS[shape.family] for shape in CONFIGURATIONS.values()}
