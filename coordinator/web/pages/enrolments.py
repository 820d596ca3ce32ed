"""The enrolment page: devices that wait for approval, claims, and keys, with the actions of its buttons.

It also has the action that forgets a device, which revokes its keys. Without TLS the page says that devices do not
enrol.
"""

from __future__ import annotations

import base64
import io

import msgspec
import segno
from flask import Blueprint, g, redirect, render_template, request, url_for
from markupsafe import Markup
from msgspec import structs
from werkzeug.wrappers import Response

from nightjar.coordinator.access import Role
from nightjar.coordinator.enrolment.claims import KeyState, carried
from nightjar.coordinator.enrolment.register import KeyPosition
from nightjar.coordinator.enrolment.routes import ClaimWanted, decide, end_claim, forget, make_claim
from nightjar.coordinator.web import request_parsing
from nightjar.coordinator.web.admission import needs
from nightjar.coordinator.web.documents import EmptyBody
from nightjar.coordinator.web.pages.first_phone import first_phone
from nightjar.coordinator.web.pages.refused import form_on
from nightjar.coordinator.web.ports import Site


class KeysAsked(msgspec.Struct, frozen=True):
    """The key after which the list continues."""

    asked: float = 0.0
    after: str = ""


def add_enrolments(blueprint: Blueprint, site: Site) -> None:
    """Add the enrolment page and its actions."""
    ports = site.ports

    def page(asked: KeysAsked, **made: object) -> str:
        if ports.issuer is None:
            return render_template("enrolments.html", enrols=False)
        register = ports.issuer.register
        over = KeyPosition(asked.asked, asked.after) if asked.after else None
        keys = register.credentials(limit=request_parsing.PAGE, after=over)
        return render_template(
            "enrolments.html",
            enrols=True,
            waiting=register.credentials([KeyState.WAITING]),
            claims=register.claims(),
            keys=keys,
            asked=asked,
            last=keys[-1] if len(keys) == request_parsing.PAGE else None,
            live={KeyState.GRANTED, KeyState.ISSUED, KeyState.ACTIVE},
            **made,
        )

    @blueprint.get("/enrolments")
    @needs(Role.OPERATOR)
    def enrolments() -> str:
        return page(request_parsing.query(KeysAsked))

    @blueprint.post("/enrolments/<key>/approve")
    @needs(Role.ADMIN)
    @form_on("enrolments")
    def approve(key: str) -> Response:
        request_parsing.form(EmptyBody)
        decide(ports, key, g.caller.name, approved=True)
        return redirect(url_for("pages.enrolments"), 303)

    @blueprint.post("/enrolments/<key>/refuse")
    @needs(Role.ADMIN)
    @form_on("enrolments")
    def refuse(key: str) -> Response:
        request_parsing.confirmed_form(EmptyBody)
        decide(ports, key, g.caller.name, approved=False)
        return redirect(url_for("pages.enrolments"), 303)

    @blueprint.post("/claims")
    @needs(Role.ADMIN)
    @form_on("enrolments")
    def create_claim() -> tuple[str, int]:
        named = {"name": request.form.get("device", "")}  # the form for the first phone has one field
        made = make_claim(ports, request_parsing.form(ClaimWanted, named), g.caller.name)
        phone = first_phone(ports.config)
        made = structs.replace(made, url=phone.url)
        file = carried(made)
        saved = "data:application/json;base64," + base64.b64encode(file).decode()
        use = phone.use(made.name)
        return page(KeysAsked(), made=made, saved=saved, code=_drawn(file), phone=phone, use=use), 201

    @blueprint.post("/claims/<name>/revoke")
    @needs(Role.ADMIN)
    @form_on("enrolments")
    def revoke_claim(name: str) -> Response:
        request_parsing.confirmed_form(EmptyBody)
        end_claim(ports, name, g.caller.name)
        return redirect(url_for("pages.enrolments"), 303)

    @blueprint.post("/devices/<name>/forget")
    @needs(Role.ADMIN)
    @form_on("enrolments")
    def forget_device(name: str) -> Response:
        request_parsing.confirmed_form(EmptyBody)
        forget(ports, name, g.caller.name)
        return redirect(url_for("pages.enrolments"), 303)


def _drawn(data: bytes) -> Markup:
    """A QR code, dark on light in both themes; it scales to the available width."""
    drawn = io.BytesIO()
    code = segno.make(data, error="l", micro=False)
    code.save(drawn, kind="svg", xmldecl=False, svgns=True, omitsize=True, light="#fff", nl=False)
    return Markup(drawn.getvalue().decode())  # noqa: S704 - contains only numbers
