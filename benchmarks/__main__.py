"""``python -m nightjar.benchmarks``: runs every benchmark, one after the other."""

from __future__ import annotations

import subprocess
import sys

import click

from nightjar.host.children import python_command

MODULES = (
    "device",
    "codec",
    "suggestion",
    "keyboard",
    "correction",
    "glide",
    "ingest",
    "connections",
    "round",
    "web",
    "secure_sum",
    "simulation",
    "attack",
)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON per benchmark.")
def main(*, as_json: bool) -> None:
    """Run every benchmark, each in its own process so that none warms the caches of another."""
    failed = []
    for name in MODULES:
        command = python_command("-m", f"nightjar.benchmarks.{name}", *(["--json"] if as_json else []))
        if subprocess.run(command, check=False).returncode:  # noqa: S603 - ourselves
            failed.append(name)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
