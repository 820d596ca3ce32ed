"""The downlink: the form in which a new version is published, so that devices download little.

The server optimizer computes target weights. The published weights may be coarser, so that devices need few bytes to
get them. The difference is the *residual*. It is added to the next version's step, so that nothing is lost in the long
run (error feedback on the downlink).

=======  ====================================================  ==================================================
form     published weights                                     transfers, in addition to the whole float32 file
=======  ====================================================  ==================================================
f32      the optimizer's weights; no residual                  exact differences from each of the last versions
topk-8   the previous version plus its k largest changes       encoded changes of each of the last versions
=======  ====================================================  ==================================================

An exact difference is offered if it is much smaller than the whole file. A device that missed versions takes the
encoded changes of each, unless the whole file is shorter. This module stores nothing; the caller does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

import msgspec
import numpy as np

from nightjar.coordinator.learning.strategies import Wide
from nightjar.models.manifest import Artifact, Manifest, Transfer
from nightjar.wire.codec import codec_for, transfers
from nightjar.wire.errors import ConfigError
from nightjar.wire.messages import CodecChoice
from nightjar.wire.parameters import ParameterLayout, Vector, weights_to_bytes

F32 = "f32"
TOPK_8 = "topk-8"
FORMS = (F32, TOPK_8)
DENSITY = 0.25
"""Share of the weights that change in form topk-8; a twentieth costs recall (docs/learning.md)."""
VERSIONS_BACK = 8
"""Number of earlier versions with a transfer: about a day of rounds."""
MOST_CHANGED = 0.25
"""Maximum share of changed weights: above it an exact difference saves less than about half, and takes seconds."""
LEAST_WHOLE_BYTES = 16 * 1024
"""Smaller files are sent whole: reading a transfer would take a device longer than downloading the rest."""


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """A version as it is published to devices.

    Attributes:
        weights: (n,) float32.
        residual: (n,) float64, target weights minus published weights; None for form f32.
        way: encoded changes from the previous version; None for form f32.
    """

    weights: Vector
    residual: Wide | None
    way: bytes | None


@dataclass(frozen=True, slots=True, eq=False)
class Base:
    """An earlier version that devices may hold: the hash of its weights, and the weights, (n,) float32."""

    sha256: str
    weights: Vector


def keeps_residual(form: str) -> bool:
    """Whether a form publishes coarser weights than the optimizer computed.

    >>> keeps_residual("f32"), keeps_residual("topk-8")
    (False, True)
    """
    return form != F32


def publish(previous: Vector, target: Wide, form: str, layout: ParameterLayout, rng: np.random.Generator) -> Published:
    """Compute the published weights of the next version.

    Args:
        previous: (n,) float32, weights of the previous version.
        target: (n,) float64, the optimizer's weights plus the last residual.
        form: one of FORMS.
        layout: layout of the n parameters.
        rng: source of the stochastic rounding in form topk-8.

    Raises:
        ConfigError: the form does not exist.
    """
    if form == F32:
        return Published(target.astype(np.float32), None, None)
    if form != TOPK_8:
        msg = f"expected a downlink form of {', '.join(FORMS)}, got {form!r}"
        raise ConfigError(msg)
    codec = codec_for(CodecChoice(name="topk-8", density=DENSITY))
    payload = codec.encode((target - previous).astype(np.float32), layout, rng)
    way = transfers.topk_transfer(transfers.TOPK_8, payload, layout)
    weights = transfers.apply_transfer(way, previous, layout)
    return Published(weights, target - weights, way)


def ways_to(
    published: Published, previous: Base, earlier: Iterable[Base], layout: ParameterLayout
) -> list[tuple[Transfer, bytes]]:
    """Every new transfer worth offering, with its bytes.

    ``earlier`` has the versions before the previous one, newest first.
    """
    if published.way is not None:
        return [(Transfer(Artifact.of(published.way), previous.sha256), published.way)]
    whole_bytes = len(weights_to_bytes(published.weights))
    ways = []
    for base in chain((previous,), earlier) if whole_bytes >= LEAST_WHOLE_BYTES else ():
        if np.count_nonzero(base.weights != published.weights) > MOST_CHANGED * layout.size:
            break  # older versions differ even more
        data = transfers.exact_transfer(base.weights, published.weights, layout)
        if len(data) < whole_bytes:
            ways.append((Transfer(Artifact.of(data), base.sha256), data))
    return ways


def earlier_steps(published: Published, previous: Manifest) -> list[Transfer]:
    """The previous version's transfers, as the first steps of devices that missed it; the latest versions first.

    None in form f32: its exact differences lead from each version in one step.
    """
    if published.way is None:
        return []
    leads_to = previous.weights.sha256
    steps = [msgspec.structs.replace(each, target=each.target or leads_to) for each in previous.transfers]
    return steps[: VERSIONS_BACK - 1]
