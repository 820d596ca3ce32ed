"""MQTT: the coordinator's client, and the brokers that it can start. These are adapters without decisions."""
