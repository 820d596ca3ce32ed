"""The agent's decisions: pure functions and state machines. No clock, thread, file, socket or random source."""
