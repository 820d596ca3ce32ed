"""Whole numbers for the entropy coder: a token that is modelled, and the bits below it that are not.

A number below ``2**direct_bits`` is its own token. Above that a token stands for half an octave (the position of the
leading bit, and the bit after it), and the remaining bits are sent as they are. This is the *hybrid integer* of JPEG XL
(ISO/IEC 18181-1, C.3.3) with one bit of mantissa.

Numbers whose mean the reader knows beforehand (how far apart are c positions in W places?) get that mean's *class* as
their context, and the geometric distribution of the class as prior, computed in integers.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

LARGEST = (1 << 40) - 1
"""Numbers above this are not coded; a line of a tensor has at most 2**28 places."""
DIRECT_BITS = 2
"""For numbers of known mean."""
_ONE = 1 << 30  # 1.0 in fixed point; a product of two fits 62 bits


def tokens(numbers: Ints, direct_bits: int = DIRECT_BITS) -> tuple[Ints, Ints, Ints]:
    """Cut numbers in two.

    >>> [part.tolist() for part in tokens(np.array([3, 4, 5, 6, 13]))]
    [[3, 4, 4, 5, 7], [0, 0, 1, 0, 1], [0, 1, 1, 1, 2]]

    Args:
        numbers: (m,) int64 in [0, LARGEST].
        direct_bits: d >= 1.

    Returns:
        token, rest and the width of the rest in bits, each (m,) int64.
    """
    # The exponent of the (exact) float is the bit length.
    leading = np.frexp(numbers.astype(np.float64))[1].astype(np.int64) - 1
    direct = leading < direct_bits
    width = np.where(direct, 0, leading - 1)
    token = np.where(direct, numbers, (1 << direct_bits) + 2 * (leading - direct_bits) + ((numbers >> width) & 1))
    return token, numbers & ((np.int64(1) << width) - 1), width


def token_of(number: int, direct_bits: int = DIRECT_BITS) -> int:
    """The token of one number, as :func:`tokens` says it of many.

    >>> [token_of(number) for number in (3, 4, 5, 6, 13)]
    [3, 4, 4, 5, 7]
    """
    leading = number.bit_length() - 1
    if leading < direct_bits:
        return number
    return (1 << direct_bits) + 2 * (leading - direct_bits) + (number >> (leading - 1) & 1)


def rest_widths(token: Ints, direct_bits: int = DIRECT_BITS) -> Ints:
    """Bits of the rest that belongs to each token: (m,) int64."""
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
    """How many tokens the numbers from 0 to ``largest`` have.

    >>> alphabet_for(3), alphabet_for(13)
    (4, 8)
    """
    return token_of(largest, direct_bits) + 1


def mean_class(numerator: Ints, denominator: Ints) -> Ints:
    """Class of a mean numerator / denominator: the token of eight times the mean, rounded down.

    Args:
        numerator: (m,) int64 in [0, 2**36].
        denominator: (m,) int64 >= 1.

    Returns:
        (m,) int64 in [0, 79].
    """
    return tokens(8 * numerator // denominator)[0]


def class_of_mean(numerator: int, denominator: int) -> int:
    """As :func:`mean_class`, of one mean."""
    return token_of(8 * numerator // denominator)


@functools.cache
def geometric_prior(alphabet: int, classes: int, weight: int) -> Ints:
    """Expected counts of tokens for geometric numbers of each class.

    The class's mean is taken as t / 8, t being the middle of the numbers of its token (rounded down) and half a unit
    for class 0; so a number is at least v with probability q**v, q = 2t / (2t + 16).

    Args:
        alphabet: S.
        classes: C.
        weight: the sum that the counts of one class would have without rounding and without the 1 that each has.

    Returns:
        (C, S) int64 >= 1.
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
    """The least number of a token."""
    one = np.array([token], np.int64)
    return int(join(one, np.zeros(1, np.int64))[0])


def _at_least(number: int, power: list[int]) -> int:
    """Q ** number in fixed point, by its bits from the lowest; each product is rounded down."""
    result, bit = _ONE, 0
    while number >> bit:
        if bit == len(power):
            power.append(power[-1] * power[-1] >> 30)
        if number >> bit & 1:
            result = result * power[bit] >> 30
        bit += 1
    return result
