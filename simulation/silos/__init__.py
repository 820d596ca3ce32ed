"""A task of two silos, as hospitals and banks run it: real coordinator and agents, enrolled, with mutual TLS."""
