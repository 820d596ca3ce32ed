"""Enrolment: claims, the certificate authority, and who may come in with which certificate (docs/enrolment.md)."""
