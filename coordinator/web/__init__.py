"""The coordinator's web server: artifacts for devices, the dashboard and its API for people."""
