"""Rice codes over whole arrays: many integers to bytes and back, without a Python loop over them.

A Rice code of parameter r writes v as the quotient ``v >> r`` in unary (that many zeros, then a one) and the r low bits
as they are. Here the two halves of all values lie in two separate runs of bits: first every unary part, then every
remainder. That costs nothing and makes decoding a matter of finding the ones, which numpy does at once.

The parameter may differ from value to value, as long as the reader can compute it too. Not self-delimiting: the reader
must know how many values there are. Source: Rice and Plaunt 1971; Golomb 1966.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wire.errors import RemoteProtocolError

Ints = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint8]


def rice_parameter(mean_numerator: Ints, mean_denominator: Ints) -> Ints:
    """The parameter for values of a known mean, numerator / denominator, in integers so that every machine agrees.

    r is the largest integer with ``2**r <= max(1, 0.75 * mean)``: near the best for geometric values.

    >>> rice_parameter(np.array([0, 3, 12, 1000]), np.array([1, 1, 1, 1])).tolist()
    [0, 1, 3, 9]

    Args:
        mean_numerator: (m,) int64 >= 0, below 2**40.
        mean_denominator: (m,) int64 >= 1.

    Returns:
        (m,) int64 in [0, 40].
    """
    floor = (3 * mean_numerator) // (4 * mean_denominator)
    # The bit length of an integer below 2**53 is the exponent of its (exact) float.
    return np.maximum(np.frexp(floor.astype(np.float64))[1].astype(np.int64) - 1, 0)


def rice_encode(values: Ints, parameters: Ints) -> Bits:
    """Code values to bits.

    Args:
        values: (m,) int64 >= 0.
        parameters: (m,) int64 in [0, 40].

    Returns:
        (bits,) uint8 of zeros and ones: every unary part, then every remainder.
    """
    quotients = values >> parameters
    unary = np.zeros(int(quotients.sum()) + values.size, np.uint8)
    unary[np.cumsum(quotients + 1) - 1] = 1
    return np.concatenate([unary, _fields(values & ((np.int64(1) << parameters) - 1), parameters)])


class BitReader:
    """Takes bits from the front of a byte string; every shortage is a :class:`RemoteProtocolError`."""

    def __init__(self, data: bytes) -> None:
        self._bits: Bits = np.unpackbits(np.frombuffer(data, np.uint8))
        self._ones = np.flatnonzero(self._bits)
        self._at = 0

    def rice(self, parameters: Ints) -> Ints:
        """Decode ``len(parameters)`` values coded by :func:`rice_encode`.

        Args:
            parameters: (m,) int64 in [0, 40].

        Returns:
            (m,) int64 >= 0.

        Raises:
            RemoteProtocolError: the bits end too early.
        """
        count = parameters.size
        if count == 0:
            return np.zeros(0, np.int64)
        first = int(np.searchsorted(self._ones, self._at))
        ones = self._ones[first : first + count]
        if ones.size < count:
            raise _short(count, "unary numbers", ones.size)
        quotients = np.diff(ones, prepend=self._at - 1) - 1
        self._at = int(ones[-1]) + 1
        # A quotient is below the number of bits that came and a parameter at most 40: the shift cannot overflow in
        # any payload below 1 MB; above that it can, and must not wrap around to a number that looks right.
        if bool(((quotients >> (62 - parameters)) > 0).any()):
            msg = "a coded number does not fit 62 bits"
            raise RemoteProtocolError(msg, code="payload")
        return (quotients.astype(np.int64) << parameters) | self._fields(parameters)

    def _fields(self, widths: Ints) -> Ints:
        total = int(widths.sum())
        bits = self._bits[self._at : self._at + total]
        if bits.size < total:
            raise _short(total, "bits of remainders", bits.size)
        self._at += total
        owner = np.repeat(np.arange(widths.size), widths)
        place = np.cumsum(widths)[owner] - 1 - np.arange(total)
        values = np.zeros(widths.size, np.int64)
        np.add.at(values, owner, bits.astype(np.int64) << place)
        return values

    def finish(self) -> None:
        """Check that only the zero bits that fill up the last byte are left.

        Raises:
            RemoteProtocolError: more than that is left, so the sender meant something else.
        """
        rest = self._bits[self._at :]
        if rest.size >= 8 or rest.any():
            msg = f"{rest.size} bits are left after the last position, expected fewer than 8 zeros"
            raise RemoteProtocolError(msg, code="payload")


def _short(expected: int, what: str, came: int) -> RemoteProtocolError:
    return RemoteProtocolError(
        f"the coded positions end too early: expected {expected} {what}, got {came}", code="payload"
    )


def _fields(values: Ints, widths: Ints) -> Bits:
    """Each value in its own number of bits, most significant first."""
    owner = np.repeat(np.arange(values.size), widths)
    place = np.cumsum(widths)[owner] - 1 - np.arange(owner.size)
    return ((values[owner] >> place) & 1).astype(np.uint8)
