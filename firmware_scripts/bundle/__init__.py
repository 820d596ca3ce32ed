"""The agent and all that it needs, for one kind of device, in one signed archive that installs with no network."""
