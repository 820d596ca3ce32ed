"""Error feedback: what a codec leaves out of one report is added to the next.

It gives any codec a state, the *residual*, which is an argument and a result. Agents did so until sampled updates
learned as much without it (docs/adr/0054-sampled-updates.md). This module stores nothing.
Source: Seide et al. 2014; Karimireddy et al. 2019, algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nightjar.wire.codec import Codec
from nightjar.wire.parameters import ParameterLayout, Vector


@dataclass(frozen=True, slots=True)
class FeedbackCodec:
    """A codec with a residual.

    >>> from nightjar.wire.codec import codec_for
    >>> from nightjar.wire.messages import CodecChoice
    >>> from nightjar.wire.parameters import ParameterSpec
    >>> layout = ParameterLayout((ParameterSpec("w", (4,)),))
    >>> feedback = FeedbackCodec(codec_for(CodecChoice(name="topk-4", density=0.25)))
    >>> delta = np.array([4, 1, 2, 3], np.float32)
    >>> payload, residual = feedback.encode(delta, feedback.init(layout), layout, np.random.default_rng(0))
    >>> residual.tolist()
    [0.0, 1.0, 2.0, 3.0]
    """

    codec: Codec

    @staticmethod
    def init(layout: ParameterLayout) -> Vector:
        """The first residual: zeros."""
        return np.zeros(layout.size, np.float32)

    def encode(
        self, delta: Vector, residual: Vector, layout: ParameterLayout, rng: np.random.Generator
    ) -> tuple[bytes, Vector]:
        """Encode an update; returns the payload and the next residual, with ``sent + next = delta + residual``.

        The caller must adopt the next residual only once the report was accepted; until then it keeps the old one.
        """
        corrected = delta + residual
        encoded = self.codec.write(corrected, layout, rng)
        following = corrected.copy()
        following[encoded.sent.indices] -= encoded.sent.values
        return encoded.payload(), following
