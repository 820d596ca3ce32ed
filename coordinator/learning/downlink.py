"""The downlink: the form in which a new version is published, so that devices download little.

The server optimizer computes target weights. The published weights may be coarser, so that devices need few bytes to
get them. The difference is the *residual*. It is added to the next version's step, so that nothing is lost in the long
run (error feedback on the downlink).

=======  ====================================================  ==================================================
form     published weights                                     transfers, in addition to the whole float32 file
=======  ====================================================  ==================================================
f32      the optimizer's weights; no residual                  exact differences from each of the last versions
topk-8   the reference version plus the k largest changes      these changes, and those that led to the reference
=======  ====================================================  ==================================================

An exact difference is offered if it is much smaller than the whole file. The reference is the version that devices
have on their disks: the announced one, however many versions of the line were trained since. So a device that trains
needs one transfer, of bounded length. A device that missed announced versions takes the changes of each, unless the
whole file is shorter. This module stores nothing; the caller does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

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
MOST_BYTES_PER_WEIGHT = 0.28
"""Length that a transfer of form topk-8 may have, per weight of the model: 395 kB for 1.41 million. Changes of many
rounds together have nearly normal values, which take more bits; then fewer of them are sent."""
VERSIONS_BACK = 8
"""Number of earlier versions with a transfer: about a day of rounds."""
MOST_CHANGED = 0.25
"""Maximum share of changed weights: above it an exact difference saves less than about half, and takes seconds."""
SHORT_BYTES = 100_000
"""A transfer of this length is never too long, however small the model is."""
LEAST_WHOLE_BYTES = 16 * 1024
"""Smaller files are sent whole: reading a transfer would take a device longer than downloading the rest."""


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """A version as it is published to devices.

    Attributes:
        weights: (n,) float32.
        residual: (n,) float64, target weights minus published weights; None for form f32.
        way: the encoded changes, and the transfer from the reference to these weights; None for form f32.
    """

    weights: Vector
    residual: Wide | None
    way: tuple[Transfer, bytes] | None


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


def publish(reference: Base, target: Wide, form: str, layout: ParameterLayout, rng: np.random.Generator) -> Published:
    """Compute the published weights of the next version.

    Args:
        reference: the version that devices have.
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
    way = _largest_changes((target - reference.weights).astype(np.float32), layout, rng)
    weights = transfers.apply_transfer(way, reference.weights, layout)
    return Published(weights, target - weights, (Transfer(Artifact.of(way), reference.sha256), way))


def _largest_changes(change: Vector, layout: ParameterLayout, rng: np.random.Generator) -> bytes:
    density, most_bytes = DENSITY, max(MOST_BYTES_PER_WEIGHT * layout.size, SHORT_BYTES)
    while True:
        payload = codec_for(CodecChoice(name="topk-8", density=density)).encode(change, layout, rng)
        if len(payload) <= most_bytes:
            return transfers.topk_transfer(transfers.TOPK_8, payload, layout)
        density *= 0.95 * most_bytes / len(payload)


def ways_to(published: Published, earlier: Iterable[Base], layout: ParameterLayout) -> list[tuple[Transfer, bytes]]:
    """Every new transfer worth offering, with its bytes.

    ``earlier`` has earlier versions, newest first.
    """
    if published.way is not None:
        return [published.way]
    whole_bytes = len(weights_to_bytes(published.weights))
    ways = []
    for base in earlier if whole_bytes >= LEAST_WHOLE_BYTES else ():
        if np.count_nonzero(base.weights != published.weights) > MOST_CHANGED * layout.size:
            break  # older versions differ even more
        data = transfers.exact_transfer(base.weights, published.weights, layout)
        if len(data) < whole_bytes:
            ways.append((Transfer(Artifact.of(data), base.sha256), data))
    return ways


def earlier_steps(published: Published, reference: Manifest) -> list[Transfer]:
    """The reference's transfers, as the first steps of devices that missed it; the latest versions first.

    None in form f32: its exact differences lead from each version in one step.
    """
    if published.way is None:
        return []
    leads_to = reference.weights.sha256
    steps = [msgspec.structs.replace(each, target=each.target or leads_to) for each in reference.transfers]
    return steps[: VERSIONS_BACK - 1]
