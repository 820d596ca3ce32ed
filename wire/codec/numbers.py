"""Integers for the entropy coder: each is split into a modelled token and plain lower bits.

A number below ``2**direct_bits`` is its own token. Above that, a token represents half an octave (the position of the
leading bit and the bit after it), and the remaining bits are sent as plain bits. This is the *hybrid integer* of JPEG
XL (ISO/IEC 18181-1, C.3.3) with one bit of mantissa.

Numbers whose mean the reader knows beforehand (such as the gaps between c positions in W places) get the *class* of
this mean as their context, and the geometric distribution of the class as prior, computed in integers.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

LARGEST = (1 << 40) - 1
"""The largest number that can be coded; a line of a tensor has at most 2**28 places."""
DIRECT_BITS = 2
"""Direct bits for numbers of known mean."""
_ONE = 1 << 30  # 1.0 in fixed point; a product of two fits 62 bits


def tokens(numbers: Ints, direct_bits: int = DIRECT_BITS) -> tuple[Ints, Ints, Ints]:
    """Split numbers in [0, LARGEST] into tokens and rests; returns both, and the width of each rest in bits.

    >>> [part.tolist() for part in tokens(np.array([3, 4, 5, 6, 13]))]
    [[3, 4, 4, 5, 7], [0, 0, 1, 0, 1], [0, 1, 1, 1, 2]]
    """
    # The exponent of the (exact) float is the bit length.
    leading = np.frexp(numbers.astype(np.float64))[1].astype(np.int64) - 1
    direct = leading < direct_bits
    width = np.where(direct, 0, leading - 1)
    token = np.where(direct, numbers, (1 << direct_bits) + 2 * (leading - direct_bits) + ((numbers >> width) & 1))
    return token, numbers & ((np.int64(1) << width) - 1), width


def rest_widths(token: Ints, direct_bits: int = DIRECT_BITS) -> Ints:
    """Width in bits of the rest of each token: (m,) int64."""
    leading = direct_bits + ((token - (1 << direct_bits)) >> 1)
    return np.where(token < 1 << direct_bits, 0, leading - 1)


def join(token: Ints, rest: Ints, direct_bits: int = DIRECT_BITS) -> Ints:
    """Inverse of :func:`tokens`.

    >>> join(np.array([3, 4, 4, 5, 7]), np.array([0, 0, 1, 0, 1])).tolist()
    [3, 4, 5, 6, 13]
    """
    above = token - (1 << direct_bits)
    numbers = (((2 + (above & 1)) << rest_widths(token, direct_bits)) | rest).astype(np.int64)
    return np.where(above < 0, token, numbers)


def alphabet_for(largest: int, direct_bits: int = DIRECT_BITS) -> int:
    """Number of tokens for the numbers from 0 to ``largest``.

    >>> alphabet_for(3), alphabet_for(13)
    (4, 8)
    """
    return int(tokens(np.array(largest, np.int64), direct_bits)[0]) + 1


def mean_class(numerator: Ints, denominator: Ints) -> Ints:
    """Class of the mean numerator / denominator: the token of eight times the mean, rounded down.

    Numerators are in [0, 2**36], denominators from 1; classes are in [0, 79].
    """
    return tokens(8 * numerator // denominator)[0]


@functools.cache
def geometric_prior(alphabet: int, classes: int, weight: int) -> Ints:
    """Expected counts >= 1 of tokens for geometric numbers of each class: (classes, alphabet) int64.

    The counts of a class sum to ``weight`` before they are rounded down and 1 is added to each.

    The class's mean is taken as t / 8, where t is the midpoint of the numbers of its token, or 1/2 for class 0. So a
    number is at least v with probability q**v, where q = 2t / (2t + 16).
    """
    prior = np.ones((classes, alphabet), np.int64)
    for number in range(classes):
        low, high = _least(number), _least(number + 1) - 1
        twice_mean = max(low + high, 1)
        power = [_ONE * twice_mean // (twice_mean + 16)]  # q ** (2 ** j)
        above = _ONE
        for token in range(alphabet):
            beyond = _at_least(_least(token + 1), power)
            prior[number, token] += (above - beyond) * weight >> 30
            above = beyond
    return prior


def _least(token: int) -> int:
    """The smallest number of a token."""
    return int(join(np.array(token), np.array(0)))


def _at_least(number: int, power: list[int]) -> int:
    """``q ** number`` in fixed point, from the lowest bit of the number up; each product is rounded down."""
    result, bit = _ONE, 0
    while number >> bit:
        if bit == len(power):
            power.append(power[-1] * power[-1] >> 30)
        if number >> bit & 1:
            result = result * power[bit] >> 30
        bit += 1
    return result
