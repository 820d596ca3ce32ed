"""The weight of a late update: the more versions were published since its base version, the less it counts. Pure.

With s as the number of versions published between the base version of update u_k and the mean that it goes into, its
factor f(s) multiplies the update but not the divisor of the mean::

    d = sum(f(s_k) w_k u_k) / sum(w_k)

So a buffer of only late updates makes a shorter step, instead of a full step in an outdated direction.

Source: Nguyen et al. 2022, "Federated Learning with Buffered Asynchronous Aggregation", section 3 and appendix;
Xie et al. 2019, "Asynchronous Federated Optimization", section 5, for the polynomial.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from nightjar.wire.errors import ConfigError

Staleness = Callable[[int], float]
"""f: s, not negative -> the factor, in (0, 1]."""


def parse_staleness(text: str) -> Staleness:
    """The function that a setting names: ``constant``, or ``polynomial:a`` for (1 + s)^-a, with a in (0, 10].

    >>> late, constant = parse_staleness("polynomial:0.5"), parse_staleness("constant")
    >>> late(0), late(3), constant(3)
    (1.0, 0.5, 1.0)

    Raises:
        ConfigError: the text is neither.
    """
    if text == "constant":
        return lambda _staleness: 1.0
    name, _, value = text.partition(":")
    try:
        exponent = float(value)
    except ValueError:
        exponent = math.nan
    if name != "polynomial" or not 0 < exponent <= 10:
        msg = f"expected constant, or polynomial:a with a above 0 and at most 10, as polynomial:0.5, got {text[:40]!r}"
        raise ConfigError(msg)
    return lambda staleness: float((1 + staleness) ** -exponent)
