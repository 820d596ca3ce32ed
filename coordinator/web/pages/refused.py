"""Shows a form again after it was refused, on its page, with what was typed and why it was refused.

Each view that takes a form says with :func:`form_on` on which page the form is. Whatever refuses it - the form's own
checks, the driver, a host that does not lead, a database that is away - this page is the answer, with the status of the
refusal. A caller who must log in first gets the form with its values afterwards; the cookie holds them until then.
Passwords and ticks of confirmation are never filled in again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from flask import Flask, Response, current_app, g, render_template, request, session, url_for
from markupsafe import escape
from werkzeug.exceptions import HTTPException

from nightjar.coordinator.web.admission import MAY_SEE
from nightjar.coordinator.web.request_parsing import CONFIRMATION
from nightjar.wire.errors import UnavailableError

KEPT = "typed"
"""Key in the cookie: the page, action and values of a form that waits for a login."""
MOST_KEPT = 2000
"""Characters of a form that a cookie holds; browsers refuse cookies above 4096 bytes."""

_FORM = re.compile(r"<form\b(?P<attributes>[^>]*)>(?P<inner>.*?)</form>", re.DOTALL)
_CONTROL = re.compile(
    r"<input\b(?P<input>[^>]*)>|<select\b(?P<select>[^>]*)>(?P<options>.*?)</select>"
    r"|<textarea\b(?P<textarea>[^>]*)>.*?</textarea>",
    re.DOTALL,
)
_OPTION = re.compile(r"<option\b(?P<attributes>[^>]*)>(?P<text>.*?)</option>", re.DOTALL)
_ATTRIBUTE = re.compile(r'([^\s="/>]+)(?:="([^"]*)")?')
_NEVER = {"hidden", "password", "file", "submit"}

_View = TypeVar("_View", bound=Callable[..., Any])


def form_on(page: str) -> Callable[[_View], _View]:
    """Declare on which page the form is that a view takes, by the name of the page's view."""

    def mark(view: _View) -> _View:
        view.form_on = page  # type: ignore[attr-defined]
        return view

    return mark


def filled_in(page: str, action: str, typed: Mapping[str, str], refusal: str = "") -> str | None:
    """A page with a form's controls as they were sent, and the refusal above them; None if it lacks the form.

    >>> filled_in('<form action="/a"><input name="b" value="1"></form>', "/a", {"b": '"2"'})
    '<form action="/a"><input name="b" value="&#34;2&#34;"></form>'

    ``page`` is HTML of our templates, which double-quote and escape all values of attributes.
    """
    found = False

    def form(match: re.Match[str]) -> str:
        nonlocal found
        if _parsed(match["attributes"]).get("action") != str(escape(action)):
            return match[0]
        found = True
        said = f'<p class="banner bad" role="alert" tabindex="-1" autofocus>{escape(refusal)}</p>' if refusal else ""
        inner = _CONTROL.sub(lambda control: _control(control, typed), match["inner"])
        return f"<form{match['attributes']}>{said}{inner}</form>"

    again = _FORM.sub(form, page)
    return again if found else None


def add_refused(app: Flask) -> None:
    """Fill in a form that waited for its sender to log in."""

    @app.after_request
    def after_login(response: Response) -> Response:
        kept = session.get(KEPT) if request.method == "GET" and response.mimetype == "text/html" else None
        if kept and response.status_code == 200 and request.path == kept["page"]:
            del session[KEPT]
            said = "It was not sent yet, because you were not logged in: send it again"
            response.set_data(filled_in(response.get_data(as_text=True), kept["action"], kept["values"], said) or "")
        return response


def page_of_form() -> str:
    """The address of the page with the form of this request; of this request itself if it is no form."""
    rule = _rule()
    return request.full_path.rstrip("?") if rule is None else url_for(rule[0], **rule[1])


def keep_for_login(*, ours: bool) -> None:
    """Keep the form of this request until its sender has logged in; ``ours``: it came from one of our pages."""
    typed = _typed()
    if _rule() is not None and ours and sum(map(len, (*typed, *typed.values()))) <= MOST_KEPT:
        session[KEPT] = {"page": page_of_form(), "action": request.path, "values": typed}


def shown_again(code: int, name: str, detail: str) -> str | None:
    """The page of this request's form with what was typed; None if the request is no form.

    Where its sender may not see that page, as one whom the rate limit refused before the role was checked, only what
    was typed is shown.
    """
    rule = _rule()
    if rule is None:
        return None
    endpoint, arguments = rule
    g.again = page_of_form()
    said = f"{detail[:1].upper()}{detail[1:]}"
    view = current_app.view_functions[endpoint]
    try:
        page = view(**arguments) if current_app.extensions[MAY_SEE](view) else ""
    except (HTTPException, UnavailableError):
        page = ""
    again = filled_in(page, request.path, _typed(), said) if isinstance(page, str) else None
    return again or render_template(
        "error.html", code=code, name=name, said=detail, back=g.again, typed=_typed(), action=request.path
    )


def _rule() -> tuple[str, dict[str, Any]] | None:
    page = getattr(current_app.view_functions.get(request.endpoint or ""), "form_on", None)
    if request.method != "POST" or page is None:
        return None
    endpoint = f"pages.{page}"
    wanted = next(rule.arguments for rule in current_app.url_map.iter_rules(endpoint))
    return endpoint, {name: value for name, value in (request.view_args or {}).items() if name in wanted}


def _typed() -> dict[str, str]:
    try:
        return {name: value for name, value in request.form.items() if name != CONFIRMATION}
    except HTTPException:  # larger than any of our forms
        return {}


def _control(match: re.Match[str], typed: Mapping[str, str]) -> str:
    kind = next(kind for kind in ("input", "select", "textarea") if match[kind] is not None)
    attributes = _parsed(match[kind])
    name, form = attributes.get("name", ""), attributes.get("type", "")
    if not name or form in _NEVER:
        return match[0]
    value = None if name not in typed else str(escape(typed[name]))
    if form in {"checkbox", "radio"}:  # one that is not ticked is not sent
        return f"<input{_with(attributes, 'checked', on=value == attributes.get('value', 'on'))}>"
    if value is None:
        return match[0]
    if kind == "select":
        options = _OPTION.sub(lambda option: _option(option, value), match["options"])
        return f"<select{match[kind]}>{options}</select>"
    if kind == "textarea":
        return f"<textarea{match[kind]}>\n{value}</textarea>"
    return f"<input{_written(attributes | {'value': value})}>"


def _option(match: re.Match[str], value: str) -> str:
    attributes = _parsed(match["attributes"])
    chosen = value == attributes.get("value", match["text"].strip())
    return f"<option{_with(attributes, 'selected', on=chosen)}>{match['text']}</option>"


def _parsed(attributes: str) -> dict[str, str]:
    """The attributes of an element, as they are escaped; those without a value are empty."""
    return dict(_ATTRIBUTE.findall(attributes))


def _with(attributes: Mapping[str, str], name: str, *, on: bool) -> str:
    rest = {each: value for each, value in attributes.items() if each != name}
    return _written(rest | {name: ""} if on else rest)


def _written(attributes: Mapping[str, str]) -> str:
    empty = {"required", "checked", "selected", "autofocus"}
    return "".join(f" {name}" if name in empty else f' {name}="{value}"' for name, value in attributes.items())
