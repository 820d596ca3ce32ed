"""The weights of a model as they lie on disk, mapped instead of read.

The pages are the page cache's: shared by every process that maps the file, and taken back when the system is short of
memory. The file may be unlinked while it is in use; nobody changes it in place.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from edge_agent.ports import Model
from wire.errors import RemoteProtocolError, UnavailableError
from wire.parameters import Vector


def mapped_weights(model: Model, personal: Path | None = None) -> Vector:
    """The weights of a model without a copy: (n,) float32, not writable.

    Args:
        model: the version.
        personal: a file of other weights of the same layout, to be used instead.

    Raises:
        RemoteProtocolError: another length than the layout's, or a value that is not finite.
        UnavailableError: the file cannot be read.
    """
    manifest, path = model.manifest, personal or model.weights
    try:
        found_bytes = path.stat().st_size
        if found_bytes != 4 * manifest.layout.size:
            msg = f"weights of this model have {4 * manifest.layout.size} bytes, got {found_bytes}"
            raise RemoteProtocolError(msg, code="weights-length")
        # A plain array: every view of a numpy.memmap would pay for its bookkeeping.
        vector = np.asarray(np.memmap(path, "<f4", "r"))
    except OSError as error:
        msg = f"the weights of model version {manifest.version} cannot be read: {error}"
        raise UnavailableError(msg) from error
    if not np.isfinite(vector).all():
        msg = "weights hold a value that is not finite"
        raise RemoteProtocolError(msg, code="not-finite")
    return vector
