"""The models on this device's disk: files named by their sha256, written whole or not at all.

``artifacts/<sha256>`` is verified; ``artifacts/<sha256>.part`` is a download in progress. Three files name manifests:
``current`` that of the newest complete model, ``announced`` that of the version that the keyboard has, and ``first``
that of the first one that it had. Rounds train versions that are not announced yet, so the first two may differ. Each
is replaced only when the next model is complete, so the keyboard keeps the last good model whatever happens to a
download. Files that none of the three needs any more are removed.

Weights are fetched with the shortest transfers in the manifest that start from weights on the device
(:func:`shortest_transfers`). If the result does not have the hash of the full weights, the full weights are fetched.

Where a keyboard has a version, what transfers lead to stays in memory, and is written to the disk only if the keyboard
adopts it: of most versions that are trained nothing else is needed (docs/adr/0058). Full weights are written at once,
so that an interrupted download goes on where it was.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import structlog

from nightjar.edge_agent import __version__
from nightjar.edge_agent.model import Model
from nightjar.edge_agent.shell.held_models import ANNOUNCED, CURRENT, FIRST, announced, named_by, opened
from nightjar.edge_agent.shell.http import Downloader
from nightjar.edge_agent.shell.memory_file import MemoryFile, held_in_memory
from nightjar.edge_agent.shell.owned_programs import SIGNED, CheckProgram
from nightjar.host.files import put_in_place, replace_file
from nightjar.host.put_away import put_away
from nightjar.models.folder import MANIFEST, NGRAM, PROGRAM, VOCABULARY, WEIGHTS, lexicon_name
from nightjar.models.manifest import MAX_MANIFEST_BYTES, Manifest, Transfer
from nightjar.models.task_types import task_type
from nightjar.wire.codec.transfers import apply_transfer
from nightjar.wire.errors import IntegrityError, RemoteProtocolError, UnavailableError
from nightjar.wire.identifiers import Sha256
from nightjar.wire.parameters import ParameterLayout, Vector, weights_from_bytes, weights_to_bytes
from nightjar.wire.release_version import numbers

log = structlog.get_logger()

PERSONAL = ".personal"
"""Suffix of the file that holds the personal weights trained on this device; the stem is the manifest's hash."""


class ModelFiles:
    """Implements :class:`nightjar.edge_agent.ports.Artifacts`. Call :meth:`fetch` from one thread only.

    ``check_program`` decides which programs are fetched at all.

    Only a keyboard needs lexicons, the n-gram model, and the first version that this device had, for comparison.
    """

    def __init__(
        self,
        folder: Path,
        downloader: Downloader,
        check_program: CheckProgram,
        agent_version: str = __version__,
        *,
        keyboard: bool = False,
    ) -> None:
        self._folder = folder
        self._downloader = downloader
        self._check_program = check_program
        self._agent_version = agent_version
        self._keyboard = keyboard
        self._held: MemoryFile | None = None  # the weights that transfers led to last, if they are not on the disk
        folder.mkdir(parents=True, exist_ok=True)
        if keyboard and not (folder / ANNOUNCED).exists() and (folder / CURRENT).exists():
            # The keyboard of an agent of before had whatever came last.
            replace_file(folder / ANNOUNCED, (folder / CURRENT).read_bytes())

    def current(self) -> Model | None:
        """The newest model that is complete on this device's disk."""
        return named_by(self._folder, CURRENT)

    def announced(self) -> Model | None:
        """The version that the keyboard has; the newest one if none was announced yet."""
        return announced(self._folder)

    def first(self) -> Model | None:
        """The first version with the current vocabulary that was complete here; None without a keyboard."""
        return named_by(self._folder, FIRST)

    def fetch(self, manifest: Sha256, should_stop: Callable[[], bool]) -> Model:
        """Download a model: only the parts that the device does not have yet. A full disk is an UnavailableError."""
        try:
            self._bring(manifest, MAX_MANIFEST_BYTES, should_stop)
            wanted = Manifest.decode((self._folder / manifest).read_bytes())
            if numbers(self._agent_version) < numbers(wanted.minimum_agent_version):
                msg = f"the model needs agent {wanted.minimum_agent_version} or newer, this is {self._agent_version}"
                raise RemoteProtocolError(msg, code="outdated-agent")
            self._check_program(wanted)
            self._put_damaged_away(wanted)
            for artifact in (wanted.program, wanted.vocabulary, *([wanted.bases] if wanted.bases else [])):
                self._bring(Sha256(artifact.sha256), artifact.size_bytes, should_stop)
            weights = self._bring_weights(wanted, should_stop)
            self._bring_for_keyboard(wanted, should_stop)
            model = replace(opened(self._folder, manifest, weights), program_signed=True)
            task_type(wanted.task_type).check(wanted, model.vocabulary.read_bytes())
            if self._on_disk(model):
                replace_file(self._folder / CURRENT, manifest.encode())
            self._remove_unused(model)
        except OSError as error:
            msg = f"the model could not be stored in {self._folder}: {error}"
            raise UnavailableError(msg) from error
        finally:
            self._downloader.hang_up()
        return model

    def adopt(self, model: Model) -> Model:
        """Give the keyboard a version that was fetched and is announced. A full disk is an UnavailableError."""
        if not self._keyboard:
            return model
        try:
            if not self._on_disk(model):
                replace_file(self._folder / model.manifest.weights.sha256, model.weights.read_bytes())
                model = replace(opened(self._folder, model.sha256), program_signed=model.program_signed)
                self._held = None
            first = self.first()
            if first is None or first.manifest.vocabulary != model.manifest.vocabulary:
                replace_file(self._folder / FIRST, model.sha256.encode())
            for pointer in (ANNOUNCED, CURRENT):
                replace_file(self._folder / pointer, model.sha256.encode())
            self._remove_unused(model)
        except OSError as error:
            msg = f"the version of the keyboard could not be noted in {self._folder}: {error}"
            raise UnavailableError(msg) from error
        return model

    def hold(self, folder: Path) -> Model:
        """Give the keyboard the model of a folder that the machine's owner exported, if it does not have it already.

        Raises:
            RemoteProtocolError: its manifest is not valid.
            IntegrityError: a file is not the one of the manifest.
            OSError: a file cannot be read, or the disk is full.
        """
        given = exported_model(folder)
        held = self.announced()
        if held is not None and held.sha256 == given.sha256:
            return held
        wanted = given.manifest
        files = {given.program: wanted.program, given.weights: wanted.weights, given.vocabulary: wanted.vocabulary}
        files |= {given.lexicons[each.language]: each.file for each in wanted.lexicons}
        if given.ngram is not None and wanted.ngram is not None:
            files[given.ngram] = wanted.ngram
        for path, artifact in files.items():
            data = path.read_bytes()
            if hashlib.sha256(data).hexdigest() != artifact.sha256:
                msg = f"{path} is not the file that {MANIFEST} lists"
                raise IntegrityError(msg)
            replace_file(self._folder / artifact.sha256, data)
        replace_file(self._folder / given.sha256, wanted.encode())
        return self.adopt(opened(self._folder, given.sha256))

    def runnable(self, model: Model) -> Model:
        """A model of this device whose program may be run.

        Raises:
            RemoteProtocolError: it may not.
            UnavailableError: that cannot be found out now.
        """
        self._check_program(model.manifest)
        return replace(model, program_signed=True)

    def forget_personal(self) -> None:
        """Remove the weights that were trained on this device's own messages. Must not run during training."""
        for path in self._folder.glob(f"*{PERSONAL}*"):
            path.unlink(missing_ok=True)

    def _put_damaged_away(self, wanted: Manifest) -> None:
        """Put away files of another length than they had when they were verified, so that they are fetched again."""
        parts = (wanted.program, wanted.vocabulary, wanted.weights, *wanted.for_keyboards)
        for artifact in (*parts, *([wanted.bases] if wanted.bases else [])):
            path = self._folder / artifact.sha256
            if path.exists() and path.stat().st_size != artifact.size_bytes:
                why = f"it has {path.stat().st_size} bytes, expected {artifact.size_bytes}"
                log.warning("damaged_file_put_away", file=path.name[:12], why=why)
                put_away(self._folder.parent, [path], why)

    def _bring(self, name: Sha256, limit_bytes: int, should_stop: Callable[[], bool]) -> None:
        path = self._folder / name
        if path.exists():
            return
        partial = self._folder / f"{name}.part"
        self._downloader.fetch(name, partial, limit_bytes, should_stop)
        put_in_place(partial, path)

    def _bring_weights(self, wanted: Manifest, should_stop: Callable[[], bool]) -> Path:
        """Try the shortest transfers first; if anything is wrong with one, fetch the full weights.

        Returns:
            Where the weights are.
        """
        name = Sha256(wanted.weights.sha256)
        if self._weights(name).exists():
            return self._weights(name)
        steps = shortest_transfers(wanted, lambda base: self._weights(base).exists())
        try:
            for step in steps:
                self._bring(Sha256(step.file.sha256), step.file.size_bytes, should_stop)
            if steps:
                self._keep(name, weights_to_bytes(self._after(steps, wanted.layout)))
        except (RemoteProtocolError, IntegrityError) as error:
            log.warning("transfers_unusable", version=wanted.version, code=error.code, reason=str(error)[:200])
        for step in steps:
            (self._folder / step.file.sha256).unlink(missing_ok=True)
        if not self._weights(name).exists():
            self._bring(name, wanted.weights.size_bytes, should_stop)
        return self._weights(name)

    def _weights(self, name: str) -> Path:
        """Where the weights with a hash are, or would be: in memory or on the disk."""
        return self._held.path if self._held is not None and self._held.name == name else self._folder / name

    def _on_disk(self, model: Model) -> bool:
        return model.weights.parent == self._folder

    def _after(self, steps: Sequence[Transfer], layout: ParameterLayout) -> Vector:
        *earlier, last = steps
        if earlier:
            held: Vector | None = self._after(earlier, layout)
        else:
            held = None if last.base is None else weights_from_bytes(self._weights(last.base).read_bytes(), layout)
        return apply_transfer((self._folder / last.file.sha256).read_bytes(), held, layout)

    def _bring_for_keyboard(self, wanted: Manifest, should_stop: Callable[[], bool]) -> None:
        """A keyboard without these files is worse, but better than one without the model."""
        for file in wanted.for_keyboards if self._keyboard else ():
            try:
                self._bring(Sha256(file.sha256), file.size_bytes, should_stop)
            except (RemoteProtocolError, IntegrityError) as error:
                log.warning("keyboard_file_not_fetched", file=file.sha256[:12], error=str(error))

    def _keep(self, name: Sha256, data: bytes) -> None:
        digest = hashlib.sha256(data).hexdigest()
        if digest != name:
            msg = f"the transfer led to weights {digest[:12]}, expected {name[:12]}"
            raise IntegrityError(msg)
        if self._keyboard and named_by(self._folder, ANNOUNCED) is not None:
            self._held = held_in_memory(name, data)
        if self._weights(name) == self._folder / name:
            replace_file(self._folder / name, data)

    def _remove_unused(self, fetched: Model) -> None:
        """Remove the files that neither this model nor one that a file names needs."""
        pointers = (CURRENT, ANNOUNCED, FIRST) if self._keyboard else (CURRENT,)
        kept = {*pointers}
        for model in (fetched, *(named_by(self._folder, pointer) for pointer in pointers)):
            if model is not None:
                kept |= {model.sha256, model.program.name, model.weights.name, model.vocabulary.name}
                kept |= {
                    f"{model.program.name}{SIGNED}",
                    f"{model.sha256}{PERSONAL}",
                    *(file.sha256 for file in model.manifest.for_keyboards),
                }
                if model.bases is not None:
                    kept.add(model.bases.name)
        for path in self._folder.iterdir():
            if path.name not in kept:
                path.unlink(missing_ok=True)


def shortest_transfers(wanted: Manifest, has: Callable[[str], bool]) -> tuple[Transfer, ...]:
    """The transfers to apply, one after another; none if the whole file is not longer.

    Bellman and Ford's shortest path, backwards from the wanted weights; a manifest has at most 64 transfers.

    ``has`` says whether the weights with a sha256 are on the device.
    """
    ways: dict[str | None, tuple[int, tuple[Transfer, ...]]] = {wanted.weights.sha256: (0, ())}
    for _ in wanted.transfers:
        for step in wanted.transfers:
            size, rest = ways.get(step.target or wanted.weights.sha256, (wanted.weights.size_bytes, ()))
            size += step.file.size_bytes
            if size < ways.get(step.base, (wanted.weights.size_bytes, ()))[0]:
                ways[step.base] = size, (step, *rest)
    possible = [way for base, way in ways.items() if base is None or has(base)]
    return min(possible, key=lambda way: way[0], default=(0, ()))[1]


def exported_model(folder: Path) -> Model:
    """The model in a folder that the machine's owner exported (:mod:`nightjar.models.folder`), with its own program.

    Not for what came from a coordinator.

    Raises:
        RemoteProtocolError: its manifest is not valid.
    """
    manifest = Manifest.decode((folder / MANIFEST).read_bytes())
    return Model(
        Sha256(manifest.sha256),
        manifest,
        folder / PROGRAM,
        folder / WEIGHTS,
        folder / VOCABULARY,
        lexicons={each.language: folder / lexicon_name(each.language) for each in manifest.lexicons},
        ngram=None if manifest.ngram is None else folder / NGRAM,
        program_signed=True,
    )
