"""Adapters between the agent's ports and the world: TFLite, sqlite, HTTP, MQTT, /sys. They decide nothing."""
