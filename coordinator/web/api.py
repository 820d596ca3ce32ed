"""``/api/v1``: the JSON API for what the pages show and operators change; the OpenAPI document is generated from it.

Reading needs a viewer's token unless ``public_reading`` opens it; changes always need a token. Errors are problem
documents (RFC 9457). Lists are paged: the next request passes the answer's ``next`` as its position.
"""

from __future__ import annotations

import functools
import inspect
import typing
from dataclasses import replace
from typing import Any

from flask import Blueprint, Flask, abort, current_app, g, request
from flask_limiter import Limiter
from spectree import SecurityScheme, SpecTree
from spectree.model_adapter import get_msgspec_model_adapter
from spectree.models import SecureType, SecuritySchemeData

from nightjar.coordinator.access import ANYBODY, Caller, Role, new_token
from nightjar.coordinator.enrolment.routes import add_enrolment
from nightjar.coordinator.rounds.labelling import LabelRule
from nightjar.coordinator.rounds.lease import Lease
from nightjar.coordinator.storage.apart import lost_before, reasons_apart
from nightjar.coordinator.tasks.operations import BlockDevice, DropLabelRule, LabelDevice, SetLabelRule, UnblockDevice
from nightjar.coordinator.tasks.schedule import DAY_S
from nightjar.coordinator.views.rows import (
    Counters,
    DeviceDetail,
    RoundDetail,
    counters,
    device_detail,
    device_row,
    round_detail,
    round_row,
)
from nightjar.coordinator.web import ROOT, request_parsing
from nightjar.coordinator.web import documents as docs
from nightjar.coordinator.web.admission import client_network, problem
from nightjar.coordinator.web.answers import Api
from nightjar.coordinator.web.driver_calls import change, operate_on_known
from nightjar.coordinator.web.ports import WebPorts
from nightjar.coordinator.web.release_routes import add_release_routes
from nightjar.coordinator.web.task_routes import add_task_routes
from nightjar.coordinator.web.version_routes import add_version_routes
from nightjar.host.value_faults import fault_in_words
from nightjar.wire.identifiers import DeviceId

CHANGES_PER_MINUTE = 60


def add_api(app: Flask, ports: WebPorts, limiter: Limiter) -> None:
    """Add the API and its OpenAPI document to the application."""
    blueprint = Blueprint("api", __name__, url_prefix=ROOT)
    spec = SpecTree(
        "flask",
        title="Nightjar coordinator",
        version="1",
        path="docs",
        mode="strict",
        naming_strategy=lambda model: model.__name__,
        page_templates={},
        validation_error_status=422,
        validation_error_model=docs.Problem,
        before=_explain_invalid,
        model_adapter=_model_adapter(),
        security_schemes=[
            SecurityScheme(name="token", data=SecuritySchemeData(type=SecureType.HTTP, scheme="bearer")),
        ],
    )

    api = Api(blueprint, spec)
    _add_reading(api, ports)
    _add_changing(api, ports)
    add_task_routes(api, ports)
    add_version_routes(api, ports)
    add_release_routes(api, ports)
    _add_tokens(replace(api, tag="tokens"), ports)
    add_enrolment(replace(api, tag="enrolment"), ports, limiter)
    limiter.limit(
        f"{CHANGES_PER_MINUTE}/minute", key_func=_who_counts, methods=["POST", "DELETE"], override_defaults=False
    )(blueprint)
    app.register_blueprint(blueprint)
    spec.register(app)
    with app.app_context():
        _announce_problems(spec.spec)


@functools.cache
def _model_adapter() -> Any:
    """An adapter that keeps schemas: spectree asks for an error's once for each answer of each view."""
    adapter = get_msgspec_model_adapter()
    adapter.json_schema = functools.cache(adapter.json_schema)  # type: ignore[assignment]
    return adapter


def _announce_problems(document: dict[str, Any]) -> None:
    """Set the errors' content type in the OpenAPI document, which spectree cannot do."""
    for operations in document["paths"].values():
        for operation in operations.values():
            for status, answer in operation["responses"].items():
                if status >= "400":
                    answer["content"] = {"application/problem+json": answer["content"].pop("application/json")}


def _who_counts() -> str:
    asks: Caller = g.get("caller", ANYBODY)
    return asks.name or client_network()


def _explain_invalid(_request: object, _response: object, error: Exception | None, *_: object) -> None:
    if error is not None:
        view = inspect.unwrap(current_app.view_functions[request.endpoint or ""])
        wanted = typing.get_type_hints(view, include_extras=True)
        asked = "json" in wanted
        sent = request.get_json(silent=True) if asked else request.args
        abort(problem(422, fault_in_words(error, wanted["json"] if asked else wanted.get("query"), sent)))


# Looking


def _add_reading(api: Api, ports: WebPorts) -> None:
    @api.look("/rounds", docs.Rounds)
    def rounds(query: docs.Newest) -> docs.Rounds:
        """List rounds, newest first."""
        now_s = ports.clock.now_s()
        with ports.repository.transaction() as view:
            summaries = view.recent_rounds(query.limit, query.before)[::-1]
            made = view.versions_made_in(summaries)
        items = [round_row(each, made.get(each.version or 0), now_s) for each in summaries]
        return docs.Rounds(items, items[-1].number if len(items) == query.limit else None)

    @api.look("/rounds/<int:number>", RoundDetail, 404)
    def one_round(number: int) -> RoundDetail:
        """Show a round, with the outcome of each selected device."""
        states = current_app.extensions["census"].now().states
        with ports.repository.transaction() as view:
            detail = round_detail(view, request_parsing.number(number, "round"), ports.clock.now_s(), states)
        return request_parsing.found(detail, f"round {number}")

    @api.look("/counters", Counters)
    def counted() -> Counters:
        """Count rounds, reports, dropouts and bytes since the database was created."""
        with ports.repository.transaction() as view:
            return counters(view)

    def why_apart(leases: list[Lease]) -> dict[DeviceId, str]:
        names, before_s = [each.device for each in leases], lost_before(ports.clock.now_s(), ports.distrust())
        gone: frozenset[DeviceId] = frozenset() if ports.issuer is None else ports.issuer.register.revoked(names)
        return reasons_apart(leases, before_s, gone)

    @api.look("/devices", docs.DeviceList)
    def devices(query: docs.DevicesAsked) -> docs.DeviceList:
        """List devices, sorted by name; with ``label``, those that have it."""
        now_s = ports.clock.now_s()
        with ports.repository.transaction() as view:
            leases = view.leases_after(query.limit, query.after, query.label)
        why = why_apart(leases)
        items = [device_row(each, now_s, why[each.device]) for each in leases]
        return docs.DeviceList(items, items[-1].device if len(items) == query.limit else None)

    @api.look("/devices/<name>", DeviceDetail, 404)
    def one_device(name: str) -> DeviceDetail:
        """Show a device's last known state, and how it spent the last week."""
        with ports.repository.transaction() as view:
            lease = view.lease(request_parsing.device(name))
        if lease is None:
            abort(404, f"no device {name} was ever heard of")
        return device_detail(lease, ports.clock.now_s(), why_apart([lease])[lease.device])

    @api.look("/audit", docs.AuditLog, role=Role.OPERATOR)
    def audit(query: docs.Newest) -> docs.AuditLog:
        """List the changes in the audit log, newest first."""
        with ports.repository.transaction() as view:
            items = view.audit(query.limit, query.before)
        return docs.AuditLog(items, items[-1].number if len(items) == query.limit else None)


# Changing


def _add_changing(api: Api, ports: WebPorts) -> None:
    @api.change("/devices/<name>/block", 404)
    def block(name: str, json: docs.ReasonBody) -> docs.Changed:
        """Block a device; it was heard of, has a key, or is named by a claim."""
        return docs.Changed(operate_on_known(ports, BlockDevice(request_parsing.device(name), json.reason)))

    @api.change("/devices/<name>/unblock", 404)
    def unblock(name: str, json: docs.EmptyBody) -> docs.Changed:  # noqa: ARG001 - checked to be empty
        """Unblock a device."""
        return change(ports, UnblockDevice(request_parsing.device(name)))

    @api.change("/devices/<name>/labels", 404, 409)
    def label(name: str, json: docs.LabelsWanted) -> docs.Changed:
        """Give labels to a device, and take others away; it was heard of, has a key, or is named by a claim."""
        return docs.Changed(operate_on_known(ports, LabelDevice(request_parsing.device(name), json.add, json.remove)))

    @api.look("/label-rules", docs.LabelRules)
    def label_rules() -> docs.LabelRules:
        """List the rules that give devices labels."""
        with ports.repository.transaction() as view:
            labelling = view.labelling()
        return docs.LabelRules(list(labelling.rules), labelling.after is None)

    @api.change("/label-rules", 409)
    def set_label_rule(json: LabelRule) -> docs.Changed:
        """Give a label by a rule, in place of the one that there is for this label."""
        return change(ports, SetLabelRule(json))

    @api.remove("/label-rules/<label>", 404, 409)
    def drop_label_rule(label: str) -> docs.Changed:
        """Take a rule away, and its label from all devices."""
        return change(ports, DropLabelRule(request_parsing.label(label)))


def _add_tokens(api: Api, ports: WebPorts) -> None:
    @api.look("/tokens", docs.Tokens, role=Role.ADMIN)
    def tokens() -> docs.Tokens:
        """List all tokens, without their secret text."""
        return docs.Tokens([docs.TokenView(t.name, t.role, t.created_s, t.expires_s) for t in ports.tokens.all()])

    @api.change("/tokens", 409, role=Role.ADMIN, ok=docs.TokenMade, status=201)
    def create_token(json: docs.TokenWanted) -> tuple[docs.TokenMade, int]:
        """Create a token; its secret text is shown only once."""
        characters, record = new_token(json.name, json.role, ports.clock.now_s(), json.days * DAY_S)
        if not ports.tokens.add(record, g.caller.name):
            abort(409, f"there is a token {json.name} already; revoke it first, or take another name")
        return docs.TokenMade(record.name, record.role, characters, record.expires_s), 201

    @api.remove("/tokens/<name>", 404, role=Role.ADMIN)
    def revoke_token(name: str) -> docs.Changed:
        """Revoke a token at once."""
        if not ports.tokens.remove(name, g.caller.name, ports.clock.now_s()):
            abort(404, f"there is no token {name[:64]}")
        return docs.Changed(changed=True)
