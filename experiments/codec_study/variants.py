"""The variants under comparison: codecs, with and without error feedback, and the handling of late reports."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from nightjar.wire.messages import CodecChoice

LATE_SHARE = 0.2


class AfterLate(enum.Enum):
    """What a phone does with its error-feedback state when its report was late."""

    KEEP = "keep"
    """The state does not change: this update is lost."""
    ADD = "add"
    """The whole update is added to the state, and is sent later, although it is relative to an older model."""


@dataclass(frozen=True, slots=True)
class CodecVariant:
    """Codec and lateness of a training.

    Attributes:
        codec: codec of the updates.
        feedback: whether phones use error feedback.
        late_share: share of late reports, chosen at random.
        after_late: what a phone with error feedback does after a late report.
    """

    codec: CodecChoice
    feedback: bool = False
    late_share: float = 0.0
    after_late: AfterLate = AfterLate.KEEP

    @property
    def name(self) -> str:
        """Identifies the variant in tables and in stored trainings.

        >>> CodecVariant(CodecChoice(name="topk-8", density=0.01), feedback=True, late_share=0.2).name
        'topk-8 1 % EF, 20 % late: keep'
        """
        density = "" if self.codec.name.startswith("dense") else f" {100 * self.codec.density:g} %"
        feedback = " EF" if self.feedback else ""
        late = f", {100 * self.late_share:g} % late: {self.after_late.value}" if self.late_share else ""
        return f"{self.codec.name}{density}{feedback}{late}"


DENSE = CodecVariant(CodecChoice(name="dense-f32"))


def _variant(name: str, density: float = 0.01, *, feedback: bool = False) -> CodecVariant:
    return CodecVariant(CodecChoice(name=name, density=density), feedback=feedback)


VARIANTS = (
    DENSE,
    *(_variant("topk-4", d, feedback=f) for d in (0.05, 0.01, 0.001) for f in (False, True)),
    *(_variant("mask-4", feedback=f) for f in (False, True)),
    # Without error feedback, which would hide some of the loss from coarse values.
    *(_variant(name) for name in ("topk-8", "topk-3", "topk-2", "topk-4-unbiased")),
    *(replace(_variant("topk-4", feedback=True), late_share=LATE_SHARE, after_late=after) for after in AfterLate),
)
