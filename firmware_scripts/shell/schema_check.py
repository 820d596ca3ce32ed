"""Validates a user-data file with cloud-init's own program."""

from __future__ import annotations

import subprocess
import tempfile

_TIMEOUT_S = 60.0


def cloud_init_schema(user_data: str) -> str | None:
    """Why cloud-init would refuse the file; empty if it would accept it; None if cloud-init cannot be run here."""
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
    output = f"{done.stdout}\n{done.stderr}".replace(file.name, "user-data")
    return " ".join(output.split())[:300] or f"status {done.returncode}"
