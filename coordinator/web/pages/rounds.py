"""Round pages: the list, and each round's selected devices, their outcomes, and the version that it made."""

from __future__ import annotations

from typing import Annotated

import msgspec
from flask import Blueprint, render_template
from msgspec import Meta

from nightjar.coordinator.access import Role
from nightjar.coordinator.rounds.round import Phase
from nightjar.coordinator.rounds.seats import SeatState
from nightjar.coordinator.web import request_parsing
from nightjar.coordinator.web.admission import needs
from nightjar.coordinator.web.documents import Before
from nightjar.coordinator.web.ports import Site


class RoundsAsked(Before, frozen=True):
    """Position in the list of rounds, and its filters."""

    phase: Phase | None = None
    task: Annotated[str, Meta(max_length=64)] | None = None


class SeatsAsked(msgspec.Struct, frozen=True):
    """Filters of a round's list of selected devices."""

    after: str = ""
    state: SeatState | None = None


def add_rounds(blueprint: Blueprint, site: Site) -> None:
    """Add the round pages."""
    ports = site.ports

    @blueprint.get("/rounds")
    @needs(Role.VIEWER)
    def rounds() -> str:
        asked = request_parsing.query(RoundsAsked)
        with ports.repository.transaction() as view:
            summaries = view.recent_rounds(request_parsing.PAGE, asked.before, asked.phase, asked.task)[::-1]
            made = view.versions_made_in(summaries)
            tasks = [each.state.name for each in view.tasks()]
        last = summaries[-1].number if len(summaries) == request_parsing.PAGE else None
        return render_template(
            "rounds.html", rounds=summaries, made=made, asked=asked, last=last, phases=list(Phase), tasks=tasks
        )

    @blueprint.get("/rounds/<int:number>")
    @needs(Role.VIEWER)
    def one_round(number: int) -> str:
        asked = request_parsing.query(SeatsAsked)
        with ports.repository.transaction() as view:
            state = request_parsing.found(view.round(request_parsing.number(number, "round")), f"round {number}")
            (summary,) = view.recent_rounds(1, number + 1)
            wanted = [
                device
                for device, seat in sorted(state.seats.items())
                if device > asked.after and asked.state in {None, seat.state}
            ]
            shown = wanted[: request_parsing.PAGE]
            reports = {report.device: report for report in view.reports_in(number, shown)}
            made = None if state.version is None else view.version(state.version)
            newest = view.last_round_number()
        seats = [(device, state.seats[device], reports.get(device)) for device in shown]
        return render_template(
            "round.html",
            state=state,
            summary=summary,
            seats=seats,
            asked=asked,
            made=made,
            newest=newest,
            last=shown[-1] if len(wanted) > len(shown) else None,
            counts={each: sum(seat.state is each for seat in state.seats.values()) for each in SeatState},
        )
