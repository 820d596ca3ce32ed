"""Two-sided compression: what the server sends is compressed as well, and both ends keep what they left out.

::

    client i   e_i <- e_i + d_i;  send C(e_i);  e_i <- e_i - C(e_i)         d_i: its trained minus the shared weights
    server     s <- s + mean C(e_i);  send C(s);  s <- s - C(s);  x <- x + C(s)

C keeps the largest. Every client applies every C(s), so all have the same x. Without the server's s, what C leaves out
of the mean is lost. Refused where devices appear once, and with masks: each client chooses coordinates of its own.

Source: the book's 3.9 and 3.13; Tang et al. 2019, "DoubleSqueeze", algorithm 1.
"""

from __future__ import annotations

import numpy as np

from nightjar.experiments.catalogue.compressing import DENSE_BYTES, VALUE_BYTES, kept_of, largest, seconds
from nightjar.experiments.comparing import Study, study
from nightjar.experiments.engine import (
    Advance,
    Chosen,
    ClientPlan,
    Federation,
    Played,
    descend,
    play,
    sizes,
    weighted_mean,
)
from nightjar.experiments.frame import Request, ResultRow, page_command
from nightjar.wire.parameters import Vector

DENSITY = 0.1


def split(whole: Vector, count: int) -> tuple[Vector, Vector]:
    """What is sent, and what is left for later.

    >>> [each.tolist() for each in split(np.array([1.0, -4.0, 2.0], np.float32), 1)]
    [[0.0, -4.0, 0.0], [1.0, 0.0, 2.0]]
    """
    sent = np.where(largest(whole, count), whole, np.float32(0))
    return sent, whole - sent


def compressed(federation: Federation, plan: ClientPlan, *, down: bool, remember: bool = True) -> Advance:
    """Rounds of all clients; the cost is seconds.

    Args:
        federation: who trains what.
        plan: what a client does.
        down: whether the server compresses; if not, it sends each value that is not 0, or all.
        remember: whether it keeps what it left out.
    """
    size = federation.network.size
    count = kept_of(size, DENSITY)
    errors = [np.zeros(size, np.float32) for _ in federation.clients]
    left = np.zeros(size, np.float32)

    def advance(_: int, weights: Vector, chosen: Chosen, rng: np.random.Generator) -> tuple[Vector, float]:
        nonlocal left
        sent = []
        for each in chosen:
            delta = descend(federation.network, weights, federation.clients[each], plan, rng) - weights
            up, errors[each] = split(errors[each] + delta, count)
            sent.append(up)
        change = weighted_mean(sent, sizes(federation, chosen)).astype(np.float32)
        if down:
            change, rest = split(left + change, count)
            left = rest if remember else left
        down_bytes = min(DENSE_BYTES * size, VALUE_BYTES * int(np.count_nonzero(change)))
        return weights + change, seconds(VALUE_BYTES * count + down_bytes)

    return advance


def run(request: Request) -> list[ResultRow]:
    """Both ends compressed, with and without the server's memory, beside clients alone, by simulated seconds."""
    plan = ClientPlan(rate=0.02, batch=20, steps=5)
    horizon_s = request.pick(50.0, 1000.0, 3000.0)

    def method(*, down: bool, remember: bool = True) -> Study:
        def played(federation: Federation, seed: int, rounds: int) -> Played:
            advance = compressed(federation, plan, down=down, remember=remember)
            return play(federation, advance, seed, rounds, len(federation.clients), every=5, cost=horizon_s)

        return played

    methods = {
        "two-sided": method(down=True),
        "the server forgets": method(down=True, remember=False),
        "one-sided": method(down=False),
    }
    return [study(request, "two-sided top-k, 10 %", methods, plan, rounds=(20, 600, 1800), cost="second")]


main = page_command("catalogue.two_sided", run)
if __name__ == "__main__":
    main()
