"""Which transfers of a manifest a device follows to the new weights: those with the fewest bytes in total. Pure."""

from __future__ import annotations

from collections.abc import Callable

from models.manifest import Manifest, Transfer


def shortest_transfers(wanted: Manifest, has: Callable[[str], bool]) -> tuple[Transfer, ...]:
    """The transfers to apply, one after another; none if the whole file is not longer.

    Bellman and Ford's shortest path, backwards from the wanted weights; a manifest has at most 64 transfers.

    ``has`` says whether the weights with a sha256 are on the device.
    """
    ways: dict[str | None, tuple[int, tuple[Transfer, ...]]] = {wanted.weights.sha256: (0, ())}
    for _ in wanted.transfers:
        for step in wanted.transfers:
            size, rest = ways.get(step.target or wanted.weights.sha256, (wanted.weights.size_bytes, ()))
            size += step.file.size_bytes
            if size < ways.get(step.base, (wanted.weights.size_bytes, ()))[0]:
                ways[step.base] = size, (step, *rest)
    possible = [way for base, way in ways.items() if base is None or has(base)]
    return min(possible, key=lambda way: way[0], default=(0, ()))[1]
