"""Which tests may be skipped where everything is installed, by name. Under NIGHTJAR_NO_SKIPS others fail the run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

RECORDED = "recorded data lie beside the checkout, not in it"
"""The reason of tests of data that may not be copied into the project."""
NOT_ALLOWED = "this machine or user may not"
"""In the reasons of tests of rights that no installation gives: containers have no loop devices, users no chown."""
NO_HISTORY = "the history of this checkout does not reach so far"
"""Of a test that runs the code of an earlier commit: a shallow clone or an sdist has none."""
NO_GPU = "sees no GPU on this machine"
"""After the name of the library."""

_HOSTS = "tests/hosts/test_several_hosts.py::"
_LOOP = "tests/firmware_scripts/shell/test_loop_device.py::"
_CARD = "tests/edge_agent/test_card_sectors.py::"
_READ_ONLY = "tests/edge_agent/test_read_only_disk.py::"
_USE = "tests/firmware_scripts/shell/test_file_use.py::"
_PRUNE = "tests/coordinator/commands/test_prune.py::"
_READING = "tests/coordinator/web/test_public_reading.py::"
_SILOS = "tests/experiments/silos/test_federation.py::"
_FORMER = tuple(
    f"tests/faults/test_former_version.py::test_{name}"
    for name in (
        "agents_of_before_train_for_this_coordinator",
        "an_agent_of_before_is_told_that_it_lacks_the_codec",
        "agents_of_this_checkout_train_for_a_coordinator_of_before",
        "a_coordinator_hears_of_a_release_that_an_agent_of_before_rolled_back_and_the_reverse_does_no_harm",
        "a_device_of_before_takes_a_release_of_this_coordinator",
        "a_device_of_this_checkout_takes_a_release_of_a_coordinator_of_before",
    )
)
MAY_BE_SKIPPED = {
    _SILOS + "test_each_of_three_hosts_is_killed_and_every_round_counts_once": NOT_ALLOWED,
    _HOSTS + "test_a_host_that_does_not_lead_shows_the_pages_and_leaves_changes_to_the_leader": NOT_ALLOWED,
    _HOSTS + "test_another_host_leads_and_nothing_accepted_is_lost_or_counted_twice": NOT_ALLOWED,
    **dict.fromkeys(_FORMER, NO_HISTORY),
    "tests/models/test_evaluation.py::test_figures_on_a_gpu_are_those_of_the_cpu": NO_GPU,
    "tests/simulation/laboratory/test_jax_executor.py::test_reports_of_a_gpu_are_those_of_the_device_program": NO_GPU,
    "tests/simulation/rounds/test_availability.py::test_the_real_traces_are_those_that_were_measured": RECORDED,
    _READING + "test_another_user_does_not_read_from_a_port_that_this_user_has_elsewhere": NOT_ALLOWED,
    "tests/edge_agent/shell/test_folder.py::test_somebody_elses_folder_is_refused": NOT_ALLOWED,
    _PRUNE + "test_on_a_disk_without_a_free_byte_it_deletes_what_is_not_needed": NOT_ALLOWED,
    _PRUNE + "test_the_reserve_stays_where_pruning_works_without_it_or_is_refused": NOT_ALLOWED,
    _READ_ONLY + "test_a_start_on_a_disk_that_takes_nothing_is_tried_again": NOT_ALLOWED,
    _CARD + "test_a_busy_hour_stays_within_the_limit_in_sectors_and_is_told": NOT_ALLOWED,
    _LOOP + "test_a_mounted_device_is_refused_by_the_kernel_and_by_us": NOT_ALLOWED,
    _LOOP + "test_while_we_hold_a_device_the_kernel_lets_nobody_else_claim_or_mount_it": NOT_ALLOWED,
    _LOOP + "test_a_device_that_another_writer_has_locked_is_refused": NOT_ALLOWED,
    _LOOP + "test_a_loop_device_is_refused_unless_it_is_allowed_by_name": NOT_ALLOWED,
    _LOOP + "test_a_read_only_device_is_refused": NOT_ALLOWED,
    _LOOP + "test_yes_without_a_serial_is_no_confirmation_of_a_disk": NOT_ALLOWED,
    _USE + "test_a_file_that_a_loop_device_presents_is_refused_under_every_name": NOT_ALLOWED,
    _USE + "test_a_file_that_is_mounted_through_a_loop_device_says_where": NOT_ALLOWED,
    _USE + "test_a_loop_device_does_not_hide_that_its_file_is_mounted_through_another": NOT_ALLOWED,
    _USE + "test_a_file_that_is_bound_over_another_is_refused_also_by_what_uses_that": NOT_ALLOWED,
    _USE + "test_another_file_of_the_same_content_and_of_the_name_of_a_deleted_one_is_free": NOT_ALLOWED,
    _LOOP + "test_an_image_for_small_sectors_is_refused_on_a_disk_of_large_ones": NOT_ALLOWED,
    _LOOP + "test_an_image_for_large_sectors_is_written_to_a_disk_of_large_ones_and_customised": NOT_ALLOWED,
    _LOOP + "test_customising_a_disk_whose_table_counts_in_other_sectors_says_so": NOT_ALLOWED,
    _LOOP + "test_what_may_not_be_written_is_said_before_what_is_missing": NOT_ALLOWED,
    _LOOP + "test_a_file_system_that_is_full_is_told_and_is_no_success": NOT_ALLOWED,
    _LOOP + "test_a_card_is_customised_where_it_lies_and_a_mounted_one_is_not": NOT_ALLOWED,
}
"""The only reason for which a test may be skipped, by its name without parameters."""


@dataclass(frozen=True, slots=True)
class Skips:
    """What a run did not test.

    Attributes:
        allowed: names of tests that may be skipped, and were for that reason.
        forbidden: names and reasons of the others.
    """

    allowed: tuple[str, ...]
    forbidden: tuple[tuple[str, str], ...]


def sort_skips(skipped: Iterable[tuple[str, str]]) -> Skips:
    """Sort the skipped tests of a run.

    Args:
        skipped: name (pytest's node id) and reason of each.
    """
    ordered = sorted(set(skipped))
    allowed = tuple(name for name, reason in ordered if _allowed(name, reason))
    return Skips(allowed, tuple((name, reason) for name, reason in ordered if not _allowed(name, reason)))


def _allowed(name: str, reason: str) -> bool:
    wanted = MAY_BE_SKIPPED.get(name.partition("[")[0])
    return wanted is not None and wanted in reason


def skipped_names(reports: Iterable[object]) -> list[str]:
    """The tests that were skipped, as pytest takes them: without the group that pytest-xdist adds.

    Args:
        reports: with ``nodeid``, as the terminal reporter holds them.
    """
    return sorted({re.sub(r"@[^\]@]*$", "", str(getattr(report, "nodeid", ""))) for report in reports})
