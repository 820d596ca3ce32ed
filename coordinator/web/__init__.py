"""The coordinator's HTTP side: artifacts for devices, the dashboard and its API for people."""
