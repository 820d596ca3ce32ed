"""The pure core of the coordinator: every decision, and no I/O."""
