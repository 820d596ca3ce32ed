"""Adapters: database, files, MQTT, HTTP, processes. They translate and retry, and decide nothing."""
