"""What a device's owner signs to let it compute a program: the statement, and the file with its signatures. Pure.

A program is a ``.tflite`` file. The coordinator's signed orders choose among programs that the device knows: those that
come with the package (:mod:`nightjar.models.packaged`), and those that its owner signed with a key that is kept
offline (``nightjar-firmware keys sign``). Nothing else reaches an interpreter (docs/security.md).

The statement holds everything of a manifest that decides what a program computes from: its hash, the task type, the
shapes of its inputs and weights. Weights, vocabulary and version are not in it: they change from round to round.
Keys and signatures are Ed25519 in lower-case hex; this module neither makes nor verifies signatures.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from nightjar.models.manifest import Manifest, Sha256Hex
from nightjar.wire.errors import RemoteProtocolError

UNSIGNED = "unsigned-program"
"""Code of the error about a program that neither came with the agent nor was signed by the device's owner."""
SIGNATURE_FILE = "signature.json"
"""Name of the file in a model folder."""
PROGRAMS_PATH = "/programs/"
"""Where a coordinator serves the file, by the hash of the program."""
MOST_BYTES = 16 * 1024
MOST_SIGNATURES = 20

_Key = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z", max_length=64, description="64 hexadecimal digits")]
_Signature = Annotated[str, Meta(pattern=r"^[0-9a-f]{128}\Z", max_length=128, description="128 hexadecimal digits")]


class OwnerSignature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One key's signature of a statement."""

    key: _Key
    signature: _Signature


class SignedProgram(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The signatures of a program's statement."""

    program: Sha256Hex
    signatures: Annotated[tuple[OwnerSignature, ...], Meta(min_length=1, max_length=MOST_SIGNATURES)]

    def encode(self) -> bytes:
        """The content of the file."""
        return msgspec.json.encode(self) + b"\n"

    @staticmethod
    def decode(data: bytes) -> SignedProgram:
        """Read an untrusted file.

        Raises:
            RemoteProtocolError: it is none.
        """
        try:
            return _DECODER.decode(data[: MOST_BYTES + 1])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            msg = f"expected the signatures of a program, as 'nightjar-firmware keys sign' writes them, got: {error}"
            raise RemoteProtocolError(msg, code=UNSIGNED) from error


_DECODER = msgspec.json.Decoder(SignedProgram)


def statement(manifest: Manifest) -> bytes:
    """The bytes that the owner signs for the program of a manifest."""
    stated = {
        "program": manifest.program.sha256,
        "task_type": manifest.task_type,
        "layout": [[spec.name, list(spec.shape)] for spec in manifest.layout.tensors],
        "batch_rows": manifest.batch_rows,
        "sequence_length": manifest.sequence_length,
        "hidden": manifest.hidden,
        "inputs": list(manifest.inputs),
    }
    return b"nightjar program 1\n" + msgspec.json.encode(stated, order="sorted")
