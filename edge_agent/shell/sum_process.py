"""Makes the steps of secure sums in a short-lived process, because the cryptography takes eight megabytes of memory.

A round has four steps. The driver waits for each: a second on a phone.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec

from nightjar.edge_agent.core.secure_sum import Tools
from nightjar.edge_agent.core.sum_steps import SumRequest, SumStep, advance
from nightjar.edge_agent.enrolment.identity import CREDENTIAL, FOLDER
from nightjar.host.children import python_command
from nightjar.wire.errors import UnavailableError

TIMEOUT_S = 120.0
"""A busy board takes some seconds to load the library from its SD card."""
SEED_BYTES = 32

_REQUEST: msgspec.msgpack.Decoder[SumRequest] = msgspec.msgpack.Decoder(SumRequest)


@dataclass(frozen=True, slots=True)
class SumInProcess:
    """Implements :data:`nightjar.edge_agent.ports.SumMachine` in this process, for emulated phones."""

    data_dir: Path

    def __call__(self, request: SumRequest) -> SumStep:
        """Make a step."""
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        from nightjar.host.primitives import EnrolledKey, LibraryPrimitives

        path = self.data_dir / FOLDER / CREDENTIAL
        try:
            private = load_pem_private_key(path.read_bytes(), None)
        except (OSError, ValueError) as error:
            msg = f"a secure sum needs the key of an enrolled device, in {path}: {error}"
            raise UnavailableError(msg) from error
        if not isinstance(private, ec.EllipticCurvePrivateKey):
            msg = f"{path}: expected the key of an enrolled device"
            raise UnavailableError(msg)
        key = EnrolledKey(private)
        tools = Tools(LibraryPrimitives(), key.sign)
        return advance(request, tools, key.public, lambda: secrets.token_bytes(SEED_BYTES))


@dataclass(frozen=True, slots=True)
class SumProcess:
    """Implements :data:`nightjar.edge_agent.ports.SumMachine` with a process for each step."""

    data_dir: Path

    def __call__(self, request: SumRequest) -> SumStep:
        """Make a step; a process that fails or takes too long is an UnavailableError."""
        command = python_command("-m", "nightjar.edge_agent.shell.sum_process", str(self.data_dir))
        asked = msgspec.msgpack.encode(request)
        try:
            done = subprocess.run(command, input=asked, capture_output=True, timeout=TIMEOUT_S, check=True)  # noqa: S603 - our own module
            return msgspec.msgpack.decode(done.stdout, type=SumStep)
        except subprocess.CalledProcessError as error:
            msg = f"a step of a secure sum failed: {error.stderr.decode(errors='replace').strip()[-300:]}"
            raise UnavailableError(msg) from error
        except (OSError, subprocess.SubprocessError, msgspec.MsgspecError) as error:
            msg = f"a step of a secure sum could not be made: {error}"
            raise UnavailableError(msg) from error


if __name__ == "__main__":
    step = SumInProcess(Path(sys.argv[1]))(_REQUEST.decode(sys.stdin.buffer.read()))
    sys.stdout.buffer.write(msgspec.msgpack.encode(step))
