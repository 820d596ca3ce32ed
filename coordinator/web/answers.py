"""The responses that every API view may give, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from spectree import Response as Answers

from coordinator.web import documents as docs


def answers(ok: type, *codes: int, status: int = 200) -> Answers:
    """The responses of a view: the successful one, and every problem that may occur."""
    problems: dict[str, Any] = {f"HTTP_{code}": docs.Problem for code in (401, 403, 422, 429, 503, *codes)}
    return Answers(**{f"HTTP_{status}": ok}, **problems)
