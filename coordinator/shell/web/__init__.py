"""The coordinator's HTTP side: artifacts for devices, the status page and its JSON for people."""
