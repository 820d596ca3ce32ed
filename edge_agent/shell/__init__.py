"""Adapters between the agent's ports and the world: TFLite, sqlite, HTTP, MQTT, /sys. They make no decisions."""
