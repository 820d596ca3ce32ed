"""The API's views in the OpenAPI document: their groups, and the responses that they may give."""

from __future__ import annotations

from typing import Any

from spectree import Response as Answers

from coordinator.web import documents as docs
from wire.enrolment import EnrolmentPending

LOOKS: dict[str, Any] = {"security": {"token": []}, "tags": ["looking"]}
CHANGES: dict[str, Any] = {"security": {"token": []}, "tags": ["changing"]}


def answers(ok: type, *codes: int, status: int = 200, waiting: bool = False) -> Answers:
    """The responses of a view: the successful one, every problem that may occur, and 202 where a device may wait."""
    others: dict[str, Any] = {f"HTTP_{code}": docs.Problem for code in (401, 403, 422, 429, 503, *codes)}
    if waiting:
        others["HTTP_202"] = EnrolmentPending
    return Answers(**{f"HTTP_{status}": ok}, **others)
