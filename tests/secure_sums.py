"""Cohorts for the tests of secure sums: real keys, small numbers."""

import functools
import hashlib

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec

from nightjar.benchmarks.sum_in_process import Member, Silent
from nightjar.host.primitives import EnrolledKey, LibraryPrimitives
from nightjar.wire.secure_sum.terms import Terms

PRIMITIVES = LibraryPrimitives()


def terms(threshold=3, minimum=7, values=20, bits=16, session=b"s"):
    digest = hashlib.sha256(session).digest()
    return Terms(session=digest, threshold=threshold, minimum=minimum, values=values, bits=bits)


@functools.cache
def enrolled_key(number):
    key = EnrolledKey(ec.derive_private_key(1000 + number, ec.SECP256R1()))
    key.sign = functools.cache(key.sign)  # ECDSA is random: two runs are to be compared
    return key


def update(number, agreed):
    return np.random.default_rng(number).integers(0, 2 ** min(agreed.bits, 8), agreed.values, dtype=np.uint32)


def cohort(agreed, count=10, silent=None, values=None):
    """Devices, those named in ``silent`` dropping out."""
    return [
        Member(
            enrolled_key(number).public,
            enrolled_key(number).sign,
            hashlib.sha256(b"%d" % number).digest(),
            update(number, agreed) if values is None else values[number],
            (silent or {}).get(number, Silent.NEVER),
        )
        for number in range(count)
    ]
