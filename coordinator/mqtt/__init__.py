"""MQTT: the coordinator's client, and the brokers that it can start. Adapters: they decide nothing."""
