"""The commands of ``nightjar-coordinator`` beside ``serve`` and ``broker``: they look on, or keep house."""
