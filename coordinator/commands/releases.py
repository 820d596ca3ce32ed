"""The command ``release``: adds releases of the agent, and asks the running service to change who gets them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import click
from msgspec import Meta
from msgspec.structs import replace

from nightjar.coordinator.commands.console import show, when
from nightjar.coordinator.commands.options import answer_options, checked_as, irreversible
from nightjar.coordinator.commands.service_call import change
from nightjar.coordinator.commands.stored import noted, opened, opened_artifacts
from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.engine.clock import WallClock
from nightjar.coordinator.storage.release_metadata import ReleaseMetadata, expiries
from nightjar.coordinator.tasks.operations import ReleaseAction
from nightjar.coordinator.versions.releases import find, with_bundles
from nightjar.coordinator.views.rows import ReleaseView, release_view, release_views
from nightjar.wire.errors import ConfigError, UnavailableError

_COLUMNS = ("release", "stage", "share", "devices", "trained", "went back", "silent", "bundles", "why")
_reason = click.option("--reason", default="no reason given", show_default=True, help="Kept in the audit log.")
_version = click.argument(
    "version",
    callback=checked_as(Annotated[str, Meta(pattern=r"^\d+\.\d+\.\d+\Z", description="a version such as 1.2.3")]),
)
_Command = TypeVar("_Command", bound=Callable[..., Any])


@click.group("release")
def release() -> None:
    """Releases of the agent: add, start, pause, promote, roll back."""


@release.command()
@answer_options
@click.argument("bundles", nargs=-1, type=click.Path(path_type=Path))
@click.option("--metadata", required=True, type=click.Path(path_type=Path), help="Folder of root and targets.")
@click.option("--online-key", type=click.Path(path_type=Path), help="Needed the first time and after its rotation.")
def add(
    config: CoordinatorConfig, bundles: tuple[Path, ...], metadata: Path, online_key: Path | None, *, as_json: bool
) -> None:
    """Publish bundles and the metadata that lists them; no device takes them before 'start'.

    Without bundles, publish renewed or rotated metadata.
    """
    now_s = WallClock().now_s()
    with opened(config) as database, opened_artifacts(config) as artifacts:
        with database.transaction() as view:
            files = view.release_files()
        try:
            store = ReleaseMetadata(config.data_dir, artifacts)
            added, files = store.take_in(metadata, online_key, bundles, files, now_s)
        except OSError as error:
            msg = f"the release cannot be added: {error}"
            raise UnavailableError(msg) from error
        with database.transaction() as tx:
            tx.save_release_files(files)
            for each in added:
                tx.save_releases(with_bundles(tx.releases(), replace(each, added_s=now_s)))
                tx.add_audit(noted("add-release", each.version, after=", ".join(each.bundles)))
        until = expiries(files, artifacts)
    rows = [(each.version, name, sha256) for each in added for name, sha256 in each.bundles.items()]
    rows += [("", f"{role} is valid until", when(until_s)) for role, until_s in until.items()]
    show(added, ("release", "bundle", "sha256"), rows, as_json=as_json)


@release.command("list")
@answer_options
def list_releases(config: CoordinatorConfig, *, as_json: bool) -> None:
    """List releases, newest version first, and how their devices fare."""
    with opened(config) as database, database.transaction() as view:
        rows = release_views(view, WallClock().now_s())
    show(rows, _COLUMNS, [_cells(each) for each in rows], as_json=as_json)


@release.command("show")
@answer_options
@_version
def show_release(config: CoordinatorConfig, version: str, *, as_json: bool) -> None:
    """Show a release: its stage with the reason, and how its devices fare."""
    with opened(config) as database, database.transaction() as view:
        found = find(view.releases(), version)
        if found is None:
            msg = f"there is no release {version}; 'release list' shows them"
            raise ConfigError(msg)
        row = release_view(view, found, WallClock().now_s())
    show(row, _COLUMNS, [_cells(row)], as_json=as_json)


def _add_decision(action: ReleaseAction, does: str, now: str, *more: click.Option) -> None:
    """Add the command that asks the running service for an action."""

    def asks(command: _Command) -> _Command:
        final = action is ReleaseAction.ROLLBACK
        return irreversible("Take back release {version} for good?")(command) if final else command

    @release.command(action.value, help=does)
    @answer_options
    @_version
    @_reason
    @asks
    def decide(config: CoordinatorConfig, version: str, reason: str, *, as_json: bool, **start: Any) -> None:
        share, labels = start.get("share", 100.0), start.get("labels")
        body: dict[str, object] = {"action": action.value, "reason": reason, "share": share / 100}
        if labels is not None:
            body["labels"] = [label for label in labels.split(",") if label]
        change(config, f"/releases/{version}", body, now.format(version=version, share=share), as_json=as_json)

    decide.params.extend(more)


_add_decision(
    ReleaseAction.START,
    "Offer a release to a share of the devices, change the share, or go on after a pause.",
    "{share:g} % of the devices try {version}",
    click.Option(["--share"], default=5.0, show_default=True, type=click.FloatRange(0, 100, min_open=True), help="%."),
    click.Option(["--labels"], help="Only devices that have all these, such as kitchen,porch; '' for all devices."),
)
_add_decision(
    ReleaseAction.PAUSE, "Offer it to no further device; 'start' goes on.", "no further device takes {version}"
)
_add_decision(ReleaseAction.PROMOTE, "Offer it to all devices.", "all devices take {version}")
_add_decision(ReleaseAction.ROLLBACK, "Take it back for good: devices go back.", "devices leave {version}")


def _cells(row: ReleaseView) -> tuple[object, ...]:
    tried = None if row.health is None else row.health.tried
    counts = (None,) * 4 if tried is None else (tried.devices, tried.trained, tried.taken_back, tried.silent)
    stage = f"{row.rollout.stage.value}{', paused' if row.paused else ''}"
    share = " of ".join([f"{100 * row.share:g} %", *filter(None, [", ".join(row.labels)])])
    return row.version, stage, share, *counts, len(row.bundles), row.rollout.reason
