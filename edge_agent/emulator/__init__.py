"""Emulated phones: the ordinary agent with a scripted day and a person's messages. Labelled as emulated everywhere."""
