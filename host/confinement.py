"""Takes the network from this process and its children for good: they open no sockets but local ones (AF_UNIX).

A seccomp filter answers ``socket`` for every other address family with EAFNOSUPPORT, as systemd's
``RestrictAddressFamilies=`` does, and ``io_uring_setup`` with EPERM, because a ring opens sockets, too. It needs no
rights, so it also works without systemd. Sockets that are open stay usable: a listening one accepts connections.

Source: seccomp(2), linux/seccomp.h, linux/audit.h, linux/filter.h.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # BPF instructions
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data, little-endian
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_X32 = 0x40000000  # added to system call numbers by a second interface of x86-64
_AF_UNIX = 1
_IO_URING_SETUP = 425
_ARCHITECTURES = {
    # bytes of a pointer, machine -> AUDIT_ARCH, number of socket(2)
    (8, "x86_64"): (0xC000003E, 41),
    (8, "aarch64"): (0xC00000B7, 198),
    (4, "armv6l"): (0x40000028, 281),
    (4, "armv7l"): (0x40000028, 281),
    (4, "armv8l"): (0x40000028, 281),
    (4, "aarch64"): (0x40000028, 281),
}
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _SECCOMP_MODE_FILTER = 22, 38, 2


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def forbid_network() -> bool:
    """Allow this process only local sockets from now on. Call it before a second thread starts: each has its filter.

    Returns:
        False where the kernel or the machine has no such filter.
    """
    known = _ARCHITECTURES.get((struct.calcsize("P"), os.uname().machine))
    if sys.platform not in {"linux", "android"} or known is None:
        return False
    program = _program(*known)
    libc = ctypes.CDLL(None, use_errno=True)
    filter_ = _Program(len(program) // 8, program)
    none = ctypes.c_ulong(0)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), none, none, none) != 0:
        return False
    mode = ctypes.c_ulong(_SECCOMP_MODE_FILTER)
    return int(libc.prctl(_PR_SET_SECCOMP, mode, ctypes.byref(filter_), none, none)) == 0


def _program(architecture: int, socket: int) -> bytes:
    """The filter: a jump names how many instructions are skipped if the comparison holds, and if it does not."""
    instructions = (
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 0, 8, architecture),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 6, 0, _X32),
        (_EQUAL, 5, 0, _IO_URING_SETUP),
        (_EQUAL, 0, 3, socket),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_EQUAL, 1, 0, _AF_UNIX),
        (_RETURN, 0, 0, _FAIL | errno.EAFNOSUPPORT),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _FAIL | errno.EPERM),
    )
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in instructions)
