"""TLS: the certificate authority, the files that servers read, and HTTPS in front of the web server.

It knows no device: :mod:`nightjar.coordinator.enrolment` decides which certificates are issued and refused, and the
broker, the web server and enrolment import this package, never the reverse.
"""
