"""Bundles: the agent and its dependencies for one platform, in a signed archive that installs without a network."""
