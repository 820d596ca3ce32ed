"""The update codecs: sparsification, quantisation, and entropy coding of positions and values. Pure; numpy only."""

from nightjar.wire.codec.codecs import NAMES, Entry, codec_for
from nightjar.wire.codec.contract import Codec
from nightjar.wire.codec.sparsify import Sparse

__all__ = ["NAMES", "Codec", "Entry", "Sparse", "codec_for"]
