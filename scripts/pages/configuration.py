"""Makes docs/configuration.md from the config modules of both sides: name, default and reason of every setting.

What a setting is comes from the class's ``Attributes:``, and the reason of its default from the comment beside it.
Reads source text; imports nothing.
"""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "configuration.md"
LIMITS = ROOT / "wire" / "limits.py"
TABLES = ("Config", "Settings", "Limits", "Policy", "Schedule", "Eligibility", "Variant")
"""How the names of types end that have a section of their own."""
SIDES = {
    "coordinator.toml": (
        ROOT / "coordinator" / "config.py",
        ROOT / "coordinator" / "tasks" / "settings.py",
        ROOT / "coordinator" / "learning" / "strategies" / "rate_schedule.py",
        ROOT / "coordinator" / "tasks" / "schedule.py",
        ROOT / "coordinator" / "rounds" / "eligibility.py",
        ROOT / "coordinator" / "versions" / "quality_gate.py",
        ROOT / "coordinator" / "versions" / "trial_policy.py",
        ROOT / "coordinator" / "versions" / "retention_policy.py",
    ),
    "agent.toml": (ROOT / "edge_agent" / "config.py",),
    "Both files": (LIMITS,),
}

HEAD = """# Configuration

Made by `python -m scripts.pages` from the config modules; do not edit by hand.

Both sides read one TOML file and the environment at start. Each line ends with the reason of the default.
"""
COLUMNS = "|setting|default|meaning|\n|---|---|---|"


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for name, paths in SIDES.items():
        parts.append(f"## {name}\n")
        for path in paths:
            source = path.read_text()
            body = ast.parse(source).body
            constants = _constants(body)
            classes = [node for node in body if isinstance(node, ast.ClassDef) and _fields(node)]
            # Elsewhere than in a config module only what says that it is a table of the file.
            shown = [node for node in classes if path.name == "config.py" or _docstring(node).startswith("``[")]
            parts.extend(_section(node, source.splitlines(), constants) for node in shown)
    return "\n".join(parts)


def _section(node: ast.ClassDef, lines: list[str], constants: dict[str, ast.expr]) -> str:
    rows = [f"### {_docstring(node).splitlines()[0].replace('``', '`').rstrip('.')}\n", COLUMNS]
    for field in _fields(node):
        what = re.search(rf"^( *){ast.unparse(field.target)}: (.*(?:\n\1 +.*)*)", _docstring(node), re.MULTILINE)
        comments = [line.partition("  # ")[2] for line in lines[field.lineno - 1 : field.end_lineno]]
        notes = "; ".join(
            " ".join(part.split()).rstrip(".") for part in (what.group(2) if what else "", *comments) if part
        )
        rows.append(f"|`{ast.unparse(field.target)}`|{_default(field.value, constants)}|{notes.replace('``', '`')}|")
    return "\n".join(rows) + "\n"


def _constants(body: list[ast.stmt]) -> dict[str, ast.expr]:
    """The values of a module's named constants, its own and those that it imports."""
    found = {}
    for node in body:
        if isinstance(node, ast.ImportFrom) and (source := ROOT / f"{node.module.replace('.', '/')}.py").exists():
            theirs = ast.parse(source.read_text()).body
            found |= {name: value for name, value in _assigned(theirs) if name in {each.name for each in node.names}}
    return found | dict(_assigned(body))


def _assigned(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    for node in body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value


def _default(value: ast.expr | None, constants: dict[str, ast.expr]) -> str:
    """The default as in the file; empty if it takes more than a value to write it."""
    if isinstance(value, ast.Name):
        value = constants.get(value.id, value)
    match value:
        case None:
            return "required"
        case ast.Call(func=ast.Name(id="field"), keywords=[ast.keyword(arg="default", value=given), *_]):
            value = given
        case ast.Call(func=ast.Name(id="Path" | "Population"), args=[given]):
            value = given
    match value:
        case ast.Constant(value=None):
            return "unset"
        case ast.Constant(value=bool() | str() | int() | float() as constant):
            return f"`{json.dumps(constant)}`"
        case ast.Tuple(elts=[]):
            return "`[]`"
        case ast.Attribute(attr="value", value=ast.Attribute(attr=member)) | ast.Attribute(attr=member):
            return f'`"{member.lower()}"`'
    return ""


def _docstring(node: ast.ClassDef) -> str:
    return ast.get_docstring(node) or ""


def _fields(node: ast.ClassDef) -> list[ast.AnnAssign]:
    """The settings of a table, without those that are tables."""
    fields = [statement for statement in node.body if isinstance(statement, ast.AnnAssign)]
    return [field for field in fields if not ast.unparse(field.annotation).removesuffix(" | None").endswith(TABLES)]
