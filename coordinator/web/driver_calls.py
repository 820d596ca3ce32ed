"""Passes an operator's change to the driver and waits for the result; for the API and the pages' buttons."""

from __future__ import annotations

import queue

from flask import abort, g

from nightjar.coordinator.records.inbox import Operated
from nightjar.coordinator.tasks.operations import BlockDevice, LabelDevice, Operation, OperationRefused
from nightjar.coordinator.web import ANSWER_TIMEOUT_S
from nightjar.coordinator.web import documents as docs
from nightjar.coordinator.web.ports import WebPorts


def operate(ports: WebPorts, operation: Operation) -> bool:
    """Make a change in the caller's name; False if nothing had to change.

    Raises:
        HTTPException: 409, if the driver refuses the change; 503, if it could not be stored yet.
    """
    answer: queue.SimpleQueue[bool | OperationRefused] = queue.SimpleQueue()
    ports.post(Operated(operation, g.caller.name, answer.put))
    try:
        changed = answer.get(timeout=ANSWER_TIMEOUT_S)
    except queue.Empty:
        abort(503, "it could not be stored yet, and is done as soon as it can be; look at /healthz")
    if isinstance(changed, OperationRefused):
        abort(409, changed.reason)
    return changed


def operate_on_known(ports: WebPorts, wanted: LabelDevice | BlockDevice) -> bool:
    """Change something of a device; False if nothing had to change.

    The device was heard of, has a key, or a claim names it.

    Raises:
        HTTPException: 404, if there is no such device: with a mistyped name, the one that was meant would go on; and as
            :func:`operate`.
    """
    with ports.repository.transaction() as view:
        known = view.lease(wanted.device) is not None
    if not known and (ports.issuer is None or not ports.issuer.register.expects(wanted.device)):
        abort(404, f"no device {wanted.device} was ever heard of, and no claim names it: look at its name")
    return operate(ports, wanted)


def change(ports: WebPorts, operation: Operation) -> docs.Changed:
    """Make a change in the caller's name, and return the answer of an API view."""
    return docs.Changed(operate(ports, operation))
