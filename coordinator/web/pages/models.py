"""Model pages: the list of versions with their recall, and each version's origin, content and holders."""

from __future__ import annotations

from flask import Blueprint, redirect, render_template, url_for
from werkzeug.wrappers import Response

from nightjar.coordinator.access import Role
from nightjar.coordinator.records.versions import VersionRecord
from nightjar.coordinator.storage.baselines import compared
from nightjar.coordinator.tasks.operations import PromoteVersion, RollBack
from nightjar.coordinator.versions.quality_gate import Example
from nightjar.coordinator.views.rows import recall_on_devices, saved_on_devices, version_detail
from nightjar.coordinator.web import request_parsing
from nightjar.coordinator.web.admission import needs
from nightjar.coordinator.web.documents import Before, ReasonBody
from nightjar.coordinator.web.driver_calls import operate
from nightjar.coordinator.web.pages.refused import form_on
from nightjar.coordinator.web.ports import Site


def add_models(blueprint: Blueprint, site: Site) -> None:
    """Add the model pages."""
    ports = site.ports

    @blueprint.get("/models")
    @needs(Role.VIEWER)
    def models() -> str:
        asked = request_parsing.query(Before)
        with ports.repository.transaction() as view:
            records = view.versions(request_parsing.PAGE, asked.before)[::-1]
            tallies = view.measured_on_devices(record.version for record in records)
        last = records[-1].version if len(records) == request_parsing.PAGE else None
        return render_template(
            "models.html",
            versions=records,
            asked=asked,
            last=last,
            census=site.census.now(),
            on_devices=recall_on_devices(tallies),
            keystrokes=saved_on_devices(tallies),
            figures=next(
                (site.figures(each.manifest) for each in records if each.pruned_s is None), ("top-1", "top-3")
            ),
            evaluated=ports.config.task.evaluation_text is not None,
        )

    @blueprint.get("/models/<int:number>")
    @needs(Role.VIEWER)
    def one_model(number: int) -> str:
        with ports.repository.transaction() as view:
            record = request_parsing.found(view.version(request_parsing.number(number, "version")), f"version {number}")
            detail = version_detail(record, view.federated(number))
            parent = number - 1 if record.lineage is None else record.lineage.parent
            before = None if parent is None or parent < 0 else view.version(parent)
            first = view.version(0)
            newest = view.last_version_number()
            kept = view.baselines()
            rounds = [] if record.round is None else view.recent_rounds(1, record.round + 1)
        return render_template(
            "model.html",
            record=record,
            before=before,
            examples=_compared(record, first),
            newest=newest,
            evaluated=ports.config.task.evaluation_text is not None,
            detail=detail,
            manifest=site.manifest(record.manifest) if record.pruned_s is None else None,
            figures=site.figures(record.manifest) if record.pruned_s is None else ("top-1", "top-3"),
            round=rounds[0] if rounds else None,
            census=site.census.now(),
            baselines=compared(ports.config.task, kept) if record.task in {"", ports.config.task.name} else [],
        )

    @blueprint.post("/models/<int:number>/promote")
    @needs(Role.OPERATOR)
    @form_on("one_model")
    def promote(number: int) -> Response:
        operate(
            ports, PromoteVersion(request_parsing.number(number, "version"), request_parsing.form(ReasonBody).reason)
        )
        return redirect(url_for("pages.one_model", number=number), 303)

    @blueprint.post("/models/<int:number>/take-back")
    @needs(Role.OPERATOR)
    @form_on("one_model")
    def take_back(number: int) -> Response:
        operate(
            ports,
            RollBack(reason=request_parsing.form(ReasonBody).reason, version=request_parsing.number(number, "version")),
        )
        return redirect(url_for("pages.one_model", number=number), 303)


def _compared(record: VersionRecord, first: VersionRecord | None) -> list[tuple[Example, Example | None]]:
    """The examples of a version, each beside that of version 0 in the same place of the same text, if there is one."""
    metrics, before = record.metrics, None if first is None else first.metrics
    was = {} if before is None or record is first else {(e.beginning, e.meant): e for e in before.examples}
    return [] if metrics is None else [(e, was.get((e.beginning, e.meant))) for e in metrics.examples]
