"""Enrolment: claims, the certificate authority, and which certificates grant access (docs/enrolment.md)."""
