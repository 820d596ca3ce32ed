"""Memory-maps the weights of a model from disk instead of reading them.

The pages belong to the page cache: all processes that map the file share them, and the system reclaims them when
memory is short. The file may be unlinked while it is in use; it is never changed in place.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nightjar.edge_agent.model import Model
from nightjar.wire.errors import RemoteProtocolError, UnavailableError
from nightjar.wire.parameters import Vector


def mapped_weights(model: Model, personal: Path | None = None) -> Vector:
    """The weights of a model without a copy: (n,) float32, not writable.

    ``personal`` is a file of other weights with the same layout, used instead.

    Raises:
        RemoteProtocolError: the length does not match the layout, or a value is not finite.
        UnavailableError: the file cannot be read.
    """
    manifest, path = model.manifest, personal or model.weights
    try:
        found_bytes = path.stat().st_size
        if found_bytes != 4 * manifest.layout.size:
            msg = f"weights of this model have {4 * manifest.layout.size} bytes, got {found_bytes}"
            raise RemoteProtocolError(msg, code="weights-length")
        # A plain array: every view of a numpy.memmap adds bookkeeping.
        vector = np.asarray(np.memmap(path, "<f4", "r"))
    except OSError as error:
        msg = f"the weights of model version {manifest.version} cannot be read: {error}"
        raise UnavailableError(msg) from error
    if not np.isfinite(vector).all():
        msg = "weights hold a value that is not finite"
        raise RemoteProtocolError(msg, code="not-finite")
    return vector
