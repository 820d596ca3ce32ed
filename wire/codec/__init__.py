"""The update codecs: sparsification, quantisation, and entropy coding of positions and values. Pure; numpy only."""

from wire.codec.codecs import NAMES, Entry, codec_for
from wire.codec.contract import Codec
from wire.codec.feedback import FeedbackCodec
from wire.codec.sparsify import Sparse

__all__ = ["NAMES", "Codec", "Entry", "FeedbackCodec", "Sparse", "codec_for"]
