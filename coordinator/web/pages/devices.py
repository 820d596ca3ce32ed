"""Device pages: the list with search and filters, and each device's state, model and reports; block and unblock."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from flask import Blueprint, redirect, render_template, url_for
from msgspec import Meta
from werkzeug.wrappers import Response as AnyResponse

from nightjar.coordinator.access import Role
from nightjar.coordinator.enrolment.standing import Standing, standing_word, what_to_do
from nightjar.coordinator.rounds.labelling import conditions
from nightjar.coordinator.rounds.lease import SHARE_WINDOW, Lease, counted_rounds
from nightjar.coordinator.rounds.week import DAY_S, spent
from nightjar.coordinator.storage.apart import LOST_AFTER_DAYS, apart, lost_before, reasons_apart
from nightjar.coordinator.storage.fleet import APART, BLOCKED, GROUPS, LOST
from nightjar.coordinator.storage.reading import HeardPosition, Wanted
from nightjar.coordinator.tasks.operations import BlockDevice, LabelDevice, UnblockDevice
from nightjar.coordinator.views import words
from nightjar.coordinator.views.rows import last_week
from nightjar.coordinator.web import request_parsing
from nightjar.coordinator.web.admission import needs
from nightjar.coordinator.web.documents import EmptyBody, Number, ReasonBody
from nightjar.coordinator.web.driver_calls import operate, operate_on_known
from nightjar.coordinator.web.pages import charts
from nightjar.coordinator.web.pages.refused import form_on
from nightjar.coordinator.web.ports import Site
from nightjar.wire.identifiers import DeviceId

HOUR_S = 3600
MOST_DRAWN = 6
"""Occupations in the plot of a week: as many as the style sheet has colours for."""

FLEET = "fleet"
"""The choice of devices that are not apart from the fleet."""

Short = Annotated[str, Meta(max_length=64)]


class DevicesAsked(msgspec.Struct, frozen=True):
    """Which devices, and the position after which the list continues."""

    name: Short = ""
    doing: Short = ""
    why: Annotated[str, Meta(max_length=500)] | None = None
    which: Literal["fleet", "revoked", "blocked", "lost", "never heard of"] | None = None
    version: Number | None = None
    label: Short = ""
    seen: float = 0.0
    after: Short = ""


def _week_plot(lease: Lease, now_s: float) -> str:
    """The plot of hours by day and occupation; empty before there is an hour, which it could not show."""
    days, names = spent(lease.week, now_s), [each.doing for each in last_week(lease, now_s)]
    if sum(sum(spans.values()) for spans in days.values()) < HOUR_S:
        return ""
    series = [
        (words.in_words(name), tuple(round(spans.get(name, 0) / 3600, 1) for spans in days.values()))
        for name in names[:MOST_DRAWN]
    ]
    labels = tuple(words.utc(day * DAY_S)[5:10] for day in days)
    name = "How the device spent its last days; the list above has the figures"
    return charts.bars(name, labels, tuple(series), "h")


class LabelsForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All labels of a device."""

    labels: request_parsing.Labels = ""


def add_devices(blueprint: Blueprint, site: Site) -> None:
    """Add the device pages."""
    ports = site.ports

    @blueprint.get("/devices")
    @needs(Role.VIEWER)
    def devices() -> str:
        asked = request_parsing.query(DevicesAsked)
        lost_before_s = lost_before(ports.clock.now_s(), ports.distrust())
        with ports.repository.transaction() as view:
            if asked.version is not None and view.version(asked.version) is None:
                request_parsing.missing(f"version {asked.version}")
            wanted = Wanted(
                name=asked.name,
                states=GROUPS.get(asked.doing, frozenset()),
                reason=asked.why,
                blocked=asked.which == BLOCKED,
                apart="" if asked.which == FLEET else asked.which,
                lost_before_s=lost_before_s,
                version=asked.version,
                label=asked.label,
            )
            after = HeardPosition(asked.seen, asked.after) if asked.after else None
            leases, last = view.search_devices(wanted, request_parsing.PAGE, after)
            rules = [(rule.label, conditions(rule)) for rule in view.labelling().rules]
        revoked: frozenset[DeviceId] = frozenset()
        if ports.issuer is not None:
            revoked = ports.issuer.register.revoked([lease.device for lease in leases])
        return render_template(
            "devices.html",
            devices=leases,
            apart=reasons_apart(leases, lost_before_s, revoked),
            choices={FLEET: "of the fleet", **{why: why for why in APART}},
            lost_after_days=LOST_AFTER_DAYS,
            asked=asked,
            last=last,
            census=site.census.now(),
            groups=list(GROUPS),
            rules=rules,
        )

    @blueprint.get("/devices/<name>")
    @needs(Role.VIEWER)
    def one_device(name: str) -> str:
        device = request_parsing.device(name)
        with ports.repository.transaction() as view:
            lease, standing = view.lease(device), Standing(name)
            if ports.issuer is not None:
                standing = ports.issuer.register.standing_of(device)
            if lease is None and standing.keys:
                lease = Lease(device=device)  # enrolled or waiting, and never heard of
            if lease is None:
                request_parsing.missing(f"device {name}: none of that name was ever heard of")
            reports = view.reports_of(lease.device, counted_rounds(lease))
            now_s = ports.clock.now_s()
            holds = None if lease.version is None else view.version(lease.version)
        return render_template(
            "device.html",
            device=lease,
            reports=reports,
            holds=holds,
            week=last_week(lease, now_s),
            week_plot=_week_plot(lease, now_s),
            window=SHARE_WINDOW,
            standing=standing_word(standing),
            remedy=what_to_do(standing),
            enrols=ports.issuer is not None,
            lost=apart(lease, lost_before(now_s, ports.distrust()), revoked=False) == LOST,
        )

    @blueprint.post("/devices/<name>/labels")
    @needs(Role.OPERATOR)
    @form_on("one_device")
    def label(name: str) -> AnyResponse:
        wanted = set(request_parsing.form(LabelsForm).labels.split())
        device = request_parsing.device(name)
        with ports.repository.transaction() as view:
            lease = view.lease(device)
        former = set() if lease is None else set(lease.labels.split())
        operate_on_known(ports, LabelDevice(device, tuple(wanted - former), tuple(former - wanted)))
        return redirect(url_for("pages.one_device", name=name), 303)

    @blueprint.post("/devices/<name>/block")
    @needs(Role.OPERATOR)
    @form_on("one_device")
    def block(name: str) -> AnyResponse:
        operate_on_known(ports, BlockDevice(request_parsing.device(name), request_parsing.form(ReasonBody).reason))
        return redirect(url_for("pages.one_device", name=name), 303)

    @blueprint.post("/devices/<name>/unblock")
    @needs(Role.OPERATOR)
    @form_on("one_device")
    def unblock(name: str) -> AnyResponse:
        request_parsing.form(EmptyBody)
        operate(ports, UnblockDevice(request_parsing.device(name)))
        return redirect(url_for("pages.one_device", name=name), 303)
