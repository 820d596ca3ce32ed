"""Enrolment: claims, and which devices' certificates grant access (docs/enrolment.md)."""
