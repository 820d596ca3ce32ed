"""Debian packages of the agent and its input method for desktops, made from a signed bundle."""
