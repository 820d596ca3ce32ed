"""The one-command demo: runs a broker, the coordinator and emulated phones as processes and shows their progress."""
