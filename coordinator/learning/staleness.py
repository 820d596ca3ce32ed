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
from dataclasses import dataclass

from wire.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Staleness:
    """How the weight of an update falls.

    Attributes:
        exponent: a of f(s) = (1 + s)^-a; 0 for the constant f(s) = 1.
    """

    exponent: float

    def weight(self, staleness: int) -> float:
        """f(s), in (0, 1].

        >>> Staleness(0.5).weight(0), Staleness(0.5).weight(3), Staleness(0.0).weight(3)
        (1.0, 0.5, 1.0)

        Args:
            staleness: s, number of versions published since the base version of the update; not negative.
        """
        return float((1 + staleness) ** -self.exponent)


def parse_staleness(text: str) -> Staleness:
    """The function that a setting names.

    >>> parse_staleness("polynomial:0.5"), parse_staleness("constant")
    (Staleness(exponent=0.5), Staleness(exponent=0.0))

    Args:
        text: ``constant``, or ``polynomial:a`` with a in (0, 10].

    Raises:
        ConfigError: the text is neither.
    """
    if text == "constant":
        return Staleness(0.0)
    name, _, value = text.partition(":")
    try:
        exponent = float(value)
    except ValueError:
        exponent = math.nan
    if name != "polynomial" or not 0 < exponent <= 10:
        msg = f"expected constant, or polynomial:a with a above 0 and at most 10, as polynomial:0.5, got {text[:40]!r}"
        raise ConfigError(msg)
    return Staleness(exponent)
