"""The keyboard's programs that come with the package, for vocabularies of a few sizes (``models/programs``).

Every device knows their hashes, so a fleet that predicts words needs no signature of its owner, and neither a corpus
nor a version of TensorFlow makes another program. A vocabulary that is smaller than a program is padded
(:mod:`nightjar.models.padding`). For vocabularies of a configuration's full size there is a program without what
padding needs. ``python -m scripts.packaged_programs`` made the files.

The table is pure, and the agent imports it; :func:`packaged_file` reads a file.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from nightjar.models.configurations import ModelConfiguration, configuration
from nightjar.models.manifest import KEYBOARD, Manifest
from nightjar.wire.errors import ConfigError, RemoteProtocolError

PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True, slots=True)
class PackagedProgram:
    """One program.

    Attributes:
        configuration: name of the model configuration.
        rows: V, rows of the embedding.
        padded: whether rows that are zero are no words.
        sha256: hash of the file.
    """

    configuration: str
    rows: int
    padded: bool
    sha256: str

    @property
    def file_name(self) -> str:
        """Name of the file in ``models/programs``."""
        return f"{self.configuration}-{self.rows}{'-padded' if self.padded else ''}.tflite"


PACKAGED = (
    PackagedProgram("tiny", 500, True, "43900a6ec3c9bd74e2f1df5619f80590a368a9af20bbe13c33ed26280a318c1a"),
    PackagedProgram("tiny", 1_000, True, "32e68f7b6288b4067458cd0c7da47df28780bcb57c493ce47344f975ad4172ef"),
    PackagedProgram("tiny", 2_000, True, "3a40ed6efdd7d81c7cc600d5dc3f749ce0f628ddca071059cd5272aa3b2c2961"),
    PackagedProgram("tiny", 2_000, False, "bb52b9600436b1ae6b6d9d37732248b6ee56951ef4416d2f2d06c01e0c93eef9"),
    PackagedProgram("gboard", 5_000, True, "1f205c8f63aad8c671aff726e642a88effa05f21349b6275cbff03a9dc1b3b7f"),
    PackagedProgram("gboard", 10_000, True, "0acc9fcde2747f235af96998e93939e418e2f9b7a0ad46ce8df3b39a4a973f10"),
    PackagedProgram("gboard", 10_000, False, "c7ee228f1f28543ce846262874a7751c34a46001cd4d5a14b4d7ff5292ce0717"),
)
_BY_HASH = {each.sha256: each for each in PACKAGED}


def packaged_program(manifest: Manifest) -> PackagedProgram | None:
    """The packaged program that a manifest names; None if it names another.

    Raises:
        RemoteProtocolError: it names one for another model than its own.
    """
    found = _BY_HASH.get(manifest.program.sha256)
    if found is None:
        return None
    shape = configuration(found.configuration)
    expected = (KEYBOARD, shape.layout(found.rows), shape.batch_rows, shape.sequence_length, shape.hidden, ())
    got = (
        manifest.task_type,
        manifest.layout,
        manifest.batch_rows,
        manifest.sequence_length,
        manifest.hidden,
        manifest.inputs,
    )
    if got != expected:
        msg = (
            f"the program {found.file_name} is for a keyboard of configuration {found.configuration!r} with "
            f"{found.rows} word ids; the manifest gives it another model"
        )
        raise RemoteProtocolError(msg, code="unsigned-program")
    return found


def program_for(shape: ModelConfiguration, size: int) -> PackagedProgram | None:
    """The smallest packaged program of a configuration for ``size`` word ids; None if there is none.

    >>> from nightjar.models.configurations import configuration
    >>> [program_for(configuration("tiny"), size).file_name for size in (480, 2_000)]
    ['tiny-500-padded.tflite', 'tiny-2000.tflite']
    >>> program_for(configuration("tiny-gru"), 480) is None
    True
    """
    fitting = (
        each
        for each in PACKAGED
        if configuration(each.configuration) == shape and (each.rows >= size if each.padded else each.rows == size)
    )
    return min(fitting, key=lambda each: (each.rows, each.padded), default=None)


def packaged_file(program: PackagedProgram) -> bytes:
    """The ``.tflite`` file.

    Raises:
        ConfigError: it is missing or damaged.
    """
    path = PROGRAMS / program.file_name
    try:
        data = path.read_bytes()
    except OSError as error:
        msg = f"{path} cannot be read: {error}; install Nightjar again"
        raise ConfigError(msg) from error
    if hashlib.sha256(data).hexdigest() != program.sha256:
        msg = f"{path} is not the file that was packaged; install Nightjar again"
        raise ConfigError(msg)
    return data
