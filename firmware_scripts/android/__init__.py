"""Android phones: the agent runs in a Debian inside of Termux. ``push`` brings it onto phones on a cable."""
