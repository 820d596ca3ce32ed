"""What a new version is published as, so that devices fetch little of it.

The server optimizer says where the weights should go. What is published may be coarser, in a way that devices receive
in few bytes, and what it lacks is the *residual*: it is added to the next version's step, so that in the long run
nothing is lost (error feedback on the way down).

=======  ====================================================  ==================================================
form     published weights                                     ways to them, beside the whole float32 file
=======  ====================================================  ==================================================
f32      as the optimizer says; no residual                    what changed, exactly
topk-8   the version before, moved by its k largest changes    the coded changes; what changed, exactly
=======  ====================================================  ==================================================

"What changed, exactly" is offered against each of the last few versions, as long as it is much shorter than the whole.
Does not store anything: the caller does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

import numpy as np

from coordinator.learning.optimizers import Wide
from models.manifest import Artifact, Transfer
from wire.codec import codec_for, transfers
from wire.errors import ConfigError
from wire.messages import CodecChoice
from wire.parameters import ParameterLayout, Vector, weights_to_bytes

F32, TOPK_8 = FORMS = ("f32", "topk-8")
DENSITY = 0.05
"""Share of the weights that a version of form topk-8 moves: about what a cohort's sparse updates move together."""
VERSIONS_BACK = 8
"""How old a device's weights may be for fetching only what changed: a day of rounds, each a twentieth of a second."""
MOST_CHANGED = 0.25
"""Share of changed weights above which an exact transfer saves hardly half, and takes seconds to make."""
LEAST_WHOLE_BYTES = 16 * 1024
"""Shorter weights are sent as they are: to read a transfer would take a device longer than to fetch the rest."""


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """A version as devices will have it.

    Attributes:
        weights: (n,) float32.
        residual: (n,) float64, what they lack; None for form f32.
        way: the transfer from the version before that the form itself gives; None for form f32.
    """

    weights: Vector
    residual: Wide | None
    way: bytes | None


@dataclass(frozen=True, slots=True, eq=False)
class Base:
    """An earlier version that devices may hold.

    Attributes:
        sha256: of its weights.
        weights: (n,) float32.
    """

    sha256: str
    weights: Vector


def keeps_residual(form: str) -> bool:
    """Whether a form publishes less than the optimizer says.

    >>> keeps_residual("f32"), keeps_residual("topk-8")
    (False, True)
    """
    return form != F32


def publish(previous: Vector, target: Wide, form: str, layout: ParameterLayout, rng: np.random.Generator) -> Published:
    """Find the weights of the next version.

    Args:
        previous: (n,) float32, the version before.
        target: (n,) float64, where the optimizer and the last residual want the weights.
        form: one of FORMS.
        layout: of n parameters.
        rng: rounds in form topk-8.

    Raises:
        ConfigError: no such form.
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
    """Every transfer worth offering, with its bytes.

    Args:
        published: the new version.
        previous: the version before it.
        earlier: older ones, newest first.
        layout: of n parameters.
    """
    whole_bytes = len(weights_to_bytes(published.weights))
    worth_it = whole_bytes >= LEAST_WHOLE_BYTES
    found = []
    if published.way is not None:
        found.append((Transfer(Artifact.of(published.way), previous.sha256), published.way))
    for base in chain((previous,), earlier) if worth_it else ():
        if np.count_nonzero(base.weights != published.weights) > MOST_CHANGED * layout.size:
            break  # older ones differ even more
        data = transfers.exact_transfer(base.weights, published.weights, layout)
        if len(data) < whole_bytes:
            found.append((Transfer(Artifact.of(data), base.sha256), data))
    return found
