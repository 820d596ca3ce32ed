"""Emulated phones: a scripted day and a person's messages around the ordinary agent. Labelled as such everywhere."""
