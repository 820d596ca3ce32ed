"""Adds views to the API and to its OpenAPI document: what they answer with, and who may ask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from flask import Blueprint
from spectree import Response as Answers
from spectree import SpecTree

from nightjar.coordinator.access import Role
from nightjar.coordinator.web import documents as docs
from nightjar.coordinator.web.admission import needs
from nightjar.wire.enrolment import EnrolmentPending

BODY = (413, 415)
"""The problems of a body: it is too large, or no JSON."""

_View = TypeVar("_View", bound=Callable[..., Any])


def answers(ok: type, *codes: int, status: int = 200, waiting: bool = False) -> Answers:
    """The responses of a view: the successful one, every problem that may occur, and 202 where a device may wait."""
    others: dict[str, Any] = {f"HTTP_{code}": docs.Problem for code in (401, 403, 422, 429, 503, *codes)}
    if waiting:
        others["HTTP_202"] = EnrolmentPending
    return Answers(**{f"HTTP_{status}": ok}, **others)


@dataclass(frozen=True, slots=True)
class Api:
    """Where views are added; ``codes`` are the problems of a view that not every view may have."""

    blueprint: Blueprint
    spec: SpecTree
    tag: str = ""  # the group of its views in the document; empty: looking or changing

    def look(self, path: str, ok: type, *codes: int, role: Role = Role.VIEWER) -> Callable[[_View], _View]:
        """Add a view that only reads."""
        return self._add("GET", path, answers(ok, *codes), role, self.tag or "looking")

    def change(
        self, path: str, *codes: int, role: Role = Role.OPERATOR, ok: type = docs.Changed, status: int = 200
    ) -> Callable[[_View], _View]:
        """Add a view that changes something as the JSON object says that is sent to it."""
        return self._add("POST", path, answers(ok, *codes, *BODY, status=status), role, self.tag or "changing")

    def remove(self, path: str, *codes: int, role: Role = Role.OPERATOR) -> Callable[[_View], _View]:
        """Add a view that removes something."""
        return self._add("DELETE", path, answers(docs.Changed, *codes), role, self.tag or "changing")

    def _add(self, method: str, path: str, resp: Answers, role: Role, tag: str) -> Callable[[_View], _View]:
        def add(view: _View) -> _View:
            validated = self.spec.validate(resp=resp, security={"token": []}, tags=[tag])(needs(role)(view))
            self.blueprint.route(path, methods=[method])(validated)
            return view

        return add
