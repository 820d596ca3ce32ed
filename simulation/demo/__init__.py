"""The one-command demo: a broker, the coordinator and emulated phones as separate processes, watched to the end."""
