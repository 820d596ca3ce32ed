"""What the driver keeps up besides sessions: stored events, the keyboard's model, and the agent's release."""
