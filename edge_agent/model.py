"""A version of the model as it lies on this device. It names the files; nothing here opens one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nightjar.models.manifest import Manifest
from nightjar.wire.identifiers import Sha256


@dataclass(frozen=True, slots=True)
class Model:
    """A version of the model on this device, complete and verified.

    Attributes:
        sha256: hash of the manifest, which names the model.
        weights: path of the flat weights.
        bases: path of the bases of updates for secure sums, if the manifest has some.
        lexicons: the lexicons on this device, language -> path.
        ngram: the n-gram model; None if this device has none.
        program_signed: whether whoever made this value found that the device's owner signed the program, or the owner
            brought it. Otherwise only a packaged program is run.
    """

    sha256: Sha256
    manifest: Manifest
    program: Path
    weights: Path
    vocabulary: Path
    bases: Path | None = None
    lexicons: Mapping[str, Path] = field(default_factory=dict, hash=False)
    ngram: Path | None = None
    program_signed: bool = field(default=False, compare=False)

    @property
    def personal_weights(self) -> Path:
        """Path of the personal weights, if there are any: beside the version's files, and removed with them.

        The file holds their difference from the version's (:func:`nightjar.edge_agent.shell.weights.own_weights`).
        """
        return self.vocabulary.with_name(f"{self.sha256}.personal")
