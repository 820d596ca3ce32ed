"""Writes many cards in parallel, one thread each: claims, checks again, writes and customises each card.

A fault on one card does not affect the others. The image is unpacked separately for each card, so zstd or a plain image
suits a fleet better than xz.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from threading import Event

from nightjar.firmware_scripts.core.cards import Card
from nightjar.firmware_scripts.core.confirm import differences
from nightjar.firmware_scripts.core.plan import Survey
from nightjar.firmware_scripts.core.rules import Reason, Rule
from nightjar.firmware_scripts.core.targets import MachineState, judge
from nightjar.firmware_scripts.ports import BlockFile, OpenImage, ProgressReport
from nightjar.firmware_scripts.shell.block_file import open_block, open_file
from nightjar.firmware_scripts.shell.file_use import uses_of
from nightjar.firmware_scripts.shell.naming import DiskTarget, FileTarget, Target
from nightjar.firmware_scripts.writing import Interrupted, Outcome, Written, clear_first_block, write_image
from nightjar.wire.errors import NightjarError, UnavailableError


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A target that was judged and confirmed; ``card`` is its line in the fleet's list."""

    target: Target
    card: Card | None = None


@dataclass(frozen=True, slots=True)
class TargetRefused:
    """Nothing was written: the target may not be written to, or is not the one that was confirmed."""

    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class CustomiseFailed:
    """The image was written, but customising it failed; the card's first block was cleared again."""

    text: str


CardOutcome = Outcome | TargetRefused | CustomiseFailed

OpenTarget = Callable[[Target, int], AbstractContextManager[BlockFile | Reason]]

# Called after a card's image is written and verified, before success is reported. Raises NightjarError or OSError.
Customise = Callable[[Confirmed], None]


def open_target(target: Target, image_bytes: int) -> AbstractContextManager[BlockFile | Reason]:
    """Open a disk or a file exclusively for this process."""
    match target:
        case DiskTarget(path):
            return open_block(path)
        case FileTarget(path):
            return open_file(path, image_bytes)


@dataclass(frozen=True, slots=True)
class FlashJob:
    """The parts of a flash that all cards share."""

    survey: Survey
    open_image: OpenImage  # opens the image again, at its start
    look: Callable[[], MachineState]
    allow: frozenset[Rule]  # the rules that the user has overridden by name
    customise: Customise | None = None  # customises a written card; None if cards are not customised
    open: OpenTarget = open_target  # opens a target exclusively, or returns the reason why that is refused
    sector_sizes: frozenset[int] = frozenset()  # what the image's partition table is for; empty if it has none


def refusals(
    machine: MachineState,
    target: Target,
    image_bytes: int,
    allow: frozenset[Rule],
    sector_sizes: frozenset[int] = frozenset(),
) -> tuple[Reason, ...]:
    """Every current reason to refuse ``target``, except those overridden by name.

    ``sector_sizes`` are those that the image's partition table is for; empty if that does not matter.
    """
    if isinstance(target, FileTarget):
        return uses_of(target.path)
    reasons = [reason for reason in judge(machine, target.device).reasons if reason.rule not in allow]
    sector = target.device.sector_bytes
    if sector and sector_sizes and sector not in sector_sizes and Rule.SECTOR_SIZE not in allow:
        made_for = " or ".join(str(each) for each in sorted(sector_sizes))
        text = (
            f"the disk has sectors of {sector} bytes, the image is made for {made_for}: it would not boot from it; "
            "take another card, or an image that is made for such disks"
        )
        reasons.append(Reason(Rule.SECTOR_SIZE, text))
    size = target.device.size_bytes
    if size and size < image_bytes:
        reasons.append(Reason(Rule.TOO_SMALL, f"the image has {image_bytes} bytes, the disk only {size}"))
    return tuple(reasons)


def write_cards(
    job: FlashJob, confirmed: Sequence[Confirmed], reports: Sequence[ProgressReport], at_once: int, stop: Event
) -> tuple[CardOutcome, ...]:
    """Write all cards, each with its own report.

    ``stop`` ends all of them within one chunk; the outcome of each is still returned.
    """
    with ThreadPoolExecutor(max_workers=at_once, thread_name_prefix="card") as threads:
        pairs = zip(confirmed, reports, strict=True)
        work = [threads.submit(_write_card, job, card, report, stop.is_set) for card, report in pairs]
        return tuple(future.result() for future in work)


def _write_card(
    job: FlashJob, confirmed: Confirmed, report: ProgressReport, should_stop: Callable[[], bool]
) -> CardOutcome:
    if should_stop():
        return Interrupted(touched=False)
    with job.open(confirmed.target, job.survey.image_bytes) as opened:
        if isinstance(opened, Reason):
            return TargetRefused((opened,))
        # Checked while the disk is held: it cannot be mounted from now on, so the result stays true.
        if isinstance(confirmed.target, DiskTarget):
            try:
                size = job.survey.image_bytes
                reasons = changed_or_refused(job.look(), confirmed.target, opened, size, job.allow, job.sector_sizes)
            except UnavailableError as error:
                reasons = (Reason(Rule.UNKNOWN_FACT, str(error)),)
            if reasons:
                return TargetRefused(reasons)
        outcome = write_image(job.survey, job.open_image, opened, report, should_stop)
        if isinstance(outcome, Written) and job.customise is not None:
            try:
                job.customise(confirmed)
                opened.sync()
            except (NightjarError, OSError) as error:
                clear_first_block(opened)
                return CustomiseFailed(str(error))
        return outcome


def changed_or_refused(
    machine: MachineState,
    target: DiskTarget,
    opened: BlockFile,
    image_bytes: int,
    allow: frozenset[Rule],
    sector_sizes: frozenset[int] = frozenset(),
) -> tuple[Reason, ...]:
    """Every reason not to write to a disk that was confirmed before and is open now."""
    device = machine.devices.numbered(opened.number)
    if device is None:
        return (Reason(Rule.NOT_LISTED, f"{target.path} is not there any more"),)
    changed = differences(target.device, device)
    if changed or opened.size_bytes != device.size_bytes:
        text = f"{target.path} is not what was confirmed ({', '.join(changed) or 'size'} differs): look again"
        return (Reason(Rule.CHANGED, text),)
    device = replace(device, sector_bytes=opened.sector_bytes)  # older kernels and lsblk do not say
    return refusals(machine, DiskTarget(target.path, device), image_bytes, allow, sector_sizes)
