"""The worker process that hands its jobs to a Ray cluster; ``worker_child`` is the one that does them itself."""

from __future__ import annotations

import sys

from nightjar.coordinator.engine.ray_worker import RayWorker
from nightjar.coordinator.engine.worker_child import serve


def main(arguments: list[str]) -> None:
    """Entry point; the arguments are the process id of the parent and the address of the cluster."""
    parent, address = arguments
    serve(int(parent), lambda stores: RayWorker(stores, address).answer)


if __name__ == "__main__":
    main(sys.argv[1:])
