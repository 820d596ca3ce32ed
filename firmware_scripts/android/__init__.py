"""Support for Android phones: the agent runs in Debian inside Termux. ``push`` copies it to phones over USB."""
