"""Asks cloud-init's own program whether it would understand a user-data file."""

from __future__ import annotations

import subprocess
import tempfile

_TIMEOUT_S = 60.0


def cloud_init_schema(user_data: str) -> str | None:
    """Why cloud-init would refuse it; empty if it would not; None where there is no cloud-init to ask."""
    with tempfile.NamedTemporaryFile("w", prefix="nightjar-", suffix=".yaml", encoding="utf-8") as file:
        file.write(user_data)
        file.flush()
        command = ["cloud-init", "schema", "--config-file", file.name]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)  # noqa: S603
        except (OSError, subprocess.TimeoutExpired):
            return None
    if done.returncode == 0:
        return ""
    said = f"{done.stdout}\n{done.stderr}".replace(file.name, "user-data")
    return " ".join(said.split())[:300] or f"status {done.returncode}"
