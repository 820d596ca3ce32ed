"""The update codec: sparsify, quantize, code positions and values. Pure; numpy only."""

from wire.codec.codecs import NAMES, Codec, codec_for, encode_with_feedback
from wire.codec.sparsify import Sparse

__all__ = ["NAMES", "Codec", "Sparse", "codec_for", "encode_with_feedback"]
