"""The coordinator's web server: artifacts for devices, the dashboard and its API for people."""

ROOT = "/api/v1"
"""Root of the API; all answers below it are JSON, including errors."""
ANSWER_TIMEOUT_S = 10.0
"""Longest wait for a change; the driver answers within a second, unless the disk or the database does not work."""
