"""Cohorts for the tests of secure sums: real keys, small numbers."""

import hashlib

from host.primitives import LibraryPrimitives
from wire.secure_sum.terms import Terms

PRIMITIVES = LibraryPrimitives()


def terms(threshold=3, minimum=7, values=20, bits=16, session=b"s"):
    digest = hashlib.sha256(session).digest()
    return Terms(session=digest, threshold=threshold, minimum=minimum, values=values, bits=bits)
