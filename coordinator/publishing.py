"""What a new version is published as, so that devices fetch little of it.

The server optimizer says where the weights should go. What is published may be coarser, in a way that devices receive
in few bytes, and what it lacks is the *residual*: it is added to the next version's step, so that in the long run
nothing is lost (error feedback on the way down).

=======  ====================================================  ==================================================
form     published weights                                     ways to them, beside the whole float32 file
=======  ====================================================  ==================================================
f32      as the optimizer says; no residual                    what changed, exactly
f16      rounded to float16                                    the float16 file; what changed, exactly
topk-8   the version before, moved by its k largest changes    the coded changes; what changed, exactly
topk-4   the same with coarser changes                         the same
=======  ====================================================  ==================================================

"What changed, exactly" is offered against each of the last few versions, as long as it is much shorter than the whole.
Does not store anything: the caller does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from coordinator.jobs import DownlinkChoice
from models.manifest import Artifact, Transfer
from wire.codec import codec_for, transfers
from wire.errors import ConfigError
from wire.messages import CodecChoice
from wire.parameters import ParameterLayout, Vector, weights_to_bytes

Wide = npt.NDArray[np.float64]

FORMS = ("f32", "f16", "topk-8", "topk-4")
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
        way: the transfer that the form itself gives, and whether it needs the version before; None for form f32.
    """

    weights: Vector
    residual: Wide | None
    way: tuple[bytes, bool] | None


@dataclass(frozen=True, slots=True, eq=False)
class Base:
    """An earlier version that devices may hold.

    Attributes:
        sha256: of its weights.
        weights: (n,) float32.
    """

    sha256: str
    weights: Vector


def keeps_residual(choice: DownlinkChoice) -> bool:
    """Whether a form publishes less than the optimizer says.

    >>> keeps_residual(DownlinkChoice(form="f32")), keeps_residual(DownlinkChoice(form="f16"))
    (False, True)
    """
    return choice.form != "f32"


def publish(
    previous: Vector, target: Wide, choice: DownlinkChoice, layout: ParameterLayout, rng: np.random.Generator
) -> Published:
    """Find the weights of the next version.

    Args:
        previous: (n,) float32, the version before.
        target: (n,) float64, where the optimizer and the last residual want the weights.
        choice: the form.
        layout: of n parameters.
        rng: rounds in form topk-8.

    Raises:
        ConfigError: no such form.
    """
    match choice.form:
        case "f32":
            return Published(target.astype(np.float32), None, None)
        case "f16":
            largest = float(np.finfo(np.float16).max)
            weights = np.clip(target, -largest, largest).astype(np.float16).astype(np.float32)
            return Published(weights, target - weights, (transfers.half_transfer(weights, layout), False))
        case "topk-8" | "topk-4":
            codec = codec_for(CodecChoice(name=choice.form, density=choice.density))
            payload = codec.encode((target - previous).astype(np.float32), layout, rng)
            form = transfers.TOPK_8 if choice.form == "topk-8" else transfers.TOPK_4
            way = transfers.topk_transfer(form, payload, layout)
            weights = transfers.apply_transfer(way, previous, layout)
            return Published(weights, target - weights, (way, True))
        case other:
            msg = f"expected a downlink form of {', '.join(FORMS)}, got {other!r}"
            raise ConfigError(msg)


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
        data, relative = published.way
        found.append((Transfer(Artifact.of(data), previous.sha256 if relative else None), data))
        whole_bytes = whole_bytes if relative else len(data)
    for base in chain((previous,), earlier) if worth_it else ():
        if np.count_nonzero(base.weights != published.weights) > MOST_CHANGED * layout.size:
            break  # older ones differ even more
        data = transfers.exact_transfer(base.weights, published.weights, layout)
        if len(data) < whole_bytes:
            found.append((Transfer(Artifact.of(data), base.sha256), data))
    return found
