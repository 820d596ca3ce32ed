"""Studies behind our defaults: each gave a figure that an ADR cites, and is kept so that it can be repeated."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the networks are so small that threads only wait for each other
