"""The weights of a model: a version's mapped from disk, and personal ones as their difference from them.

The mapped pages belong to the page cache: all processes that map the file share them, and the system reclaims them when
memory is short. The file may be unlinked while it is in use; it is never changed in place.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nightjar.edge_agent.core.personalisation import HALF
from nightjar.edge_agent.model import Model
from nightjar.wire.errors import RemoteProtocolError, UnavailableError
from nightjar.wire.parameters import Vector


def mapped_weights(model: Model) -> Vector:
    """The weights of a version without a copy: (n,) float32, not writable.

    Raises:
        RemoteProtocolError: the length does not match the layout, or a value is not finite.
        UnavailableError: the file cannot be read.
    """
    return _checked(_mapped(model, model.weights, np.dtype("<f4")))


def own_weights(model: Model, personal: Path) -> Vector:
    """The personal weights in a file beside a version: (n,) float32. Raises as :func:`mapped_weights`."""
    return _checked(mapped_weights(model) + _mapped(model, personal, HALF))


def _mapped(model: Model, path: Path, kind: np.dtype[np.floating]) -> Vector:
    manifest = model.manifest
    expected_bytes = kind.itemsize * manifest.layout.size
    try:
        found_bytes = path.stat().st_size
        if found_bytes != expected_bytes:
            msg = f"weights of this model have {expected_bytes} bytes, got {found_bytes}"
            raise RemoteProtocolError(msg, code="weights-length")
        # A plain array: every view of a numpy.memmap adds bookkeeping.
        return np.asarray(np.memmap(path, kind, "r"))
    except OSError as error:
        msg = f"the weights of model version {manifest.version} cannot be read: {error}"
        raise UnavailableError(msg) from error


def _checked(vector: Vector) -> Vector:
    if not np.isfinite(vector).all():
        msg = "weights hold a value that is not finite"
        raise RemoteProtocolError(msg, code="not-finite")
    return vector
