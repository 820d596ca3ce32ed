"""The commands ``token`` and ``audit``."""

from __future__ import annotations

import click

from nightjar.coordinator.access import Role, TokenDays, TokenName, new_token
from nightjar.coordinator.commands.console import at_the_command_line, show, when
from nightjar.coordinator.commands.options import answer_options, checked_as, irreversible, limit_option
from nightjar.coordinator.commands.stored import opened
from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.engine.clock import WallClock
from nightjar.coordinator.storage.tokens import TokenTable
from nightjar.coordinator.tasks.schedule import DAY_S
from nightjar.coordinator.views.words import in_words
from nightjar.wire.errors import ConfigError


@click.group()
def token() -> None:
    """Tokens for the HTTP API and the pages."""


@token.command("create")
@answer_options
@click.argument("name", callback=checked_as(TokenName))
@click.option("--role", required=True, type=click.Choice([role.value for role in Role]), help="What it may do.")
@click.option("--days", default=90.0, show_default=True, type=float, callback=checked_as(TokenDays), help="It lives.")
def create_token(config: CoordinatorConfig, name: str, role: str, days: float, *, as_json: bool) -> None:
    """Create a token; its secret text is shown only once."""
    characters, record = new_token(name, Role(role), WallClock().now_s(), days * DAY_S)
    with opened(config) as database:
        if not TokenTable(database).add(record, at_the_command_line()):
            msg = f"there is a token {name} already; revoke it first, or take another name"
            raise ConfigError(msg)
    made = {"name": name, "role": role, "token": characters, "expires_s": record.expires_s}
    show(made, ("name", "role", "token", "until"), [(name, role, characters, when(record.expires_s))], as_json=as_json)


@token.command("list")
@answer_options
def list_tokens(config: CoordinatorConfig, *, as_json: bool) -> None:
    """List all tokens, without their secret text."""
    with opened(config) as database:
        held = TokenTable(database).all()
    tokens = [{name: getattr(t, name) for name in ("name", "role", "created_s", "expires_s")} for t in held]
    cells = [(each["name"], each["role"], when(each["created_s"]), when(each["expires_s"])) for each in tokens]
    show(tokens, ("name", "role", "made", "until"), cells, as_json=as_json)


@token.command("revoke")
@answer_options
@click.argument("name")
@irreversible("Revoke the token {name}?")
def revoke_token(config: CoordinatorConfig, name: str, *, as_json: bool) -> None:
    """Revoke a token at once."""
    with opened(config) as database:
        if not TokenTable(database).remove(name, at_the_command_line(), WallClock().now_s()):
            msg = f"there is no token {name}; 'token list' shows them"
            raise ConfigError(msg)
    show({"revoked": name}, ("revoked",), [(name,)], as_json=as_json)


@click.command()
@answer_options
@limit_option
def audit(config: CoordinatorConfig, limit: int, *, as_json: bool) -> None:
    """List the changes in the audit log, newest first."""
    with opened(config) as database, database.transaction() as view:
        entries = view.audit(limit)
    cells = [(e.number, when(e.at_s), e.who, in_words(e.action), e.target, e.before, e.after) for e in entries]
    show(entries, ("", "when", "who", "did", "to", "before", "after"), cells, as_json=as_json)
