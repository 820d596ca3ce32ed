"""Makes docs/configuration.md from the config modules of both sides: name, type, default and reason of every setting.

What a setting is comes from the class's ``Attributes:``, and the reason of its default from the comment beside it.
Reads source text; imports nothing.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "configuration.md"
LIMITS = ROOT / "wire" / "limits.py"
SIDES = {
    "coordinator.toml": (
        ROOT / "coordinator" / "config.py",
        ROOT / "coordinator" / "tasks" / "settings.py",
        ROOT / "coordinator" / "tasks" / "schedule.py",
        ROOT / "coordinator" / "rounds" / "admission.py",
        ROOT / "coordinator" / "versions" / "quality_gate.py",
        ROOT / "coordinator" / "versions" / "rollout.py",
        LIMITS,
    ),
    "agent.toml": (ROOT / "edge_agent" / "config.py", LIMITS),
}

HEAD = """# Configuration

Made by `python -m tests.pages` from the config modules; do not edit by hand.

Both sides read one TOML file and the environment, once, at the start, and report every fault at once.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for name, paths in SIDES.items():
        parts.append(f"## {name}\n")
        for path in paths:
            source = path.read_text()
            classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and _fields(node)]
            # Elsewhere than in a config module only what says that it is a table of the file.
            shown = [node for node in classes if path is paths[0] or (ast.get_docstring(node) or "").startswith("``[")]
            parts.extend(_section(node, source.splitlines()) for node in shown)
    return "\n".join(parts)


def _section(node: ast.ClassDef, lines: list[str]) -> str:
    doc = ast.get_docstring(node) or ""
    rows = [f"### {doc.splitlines()[0]}\n", "| setting | type | default | what and why |\n|---|---|---|---|"]
    for field in _fields(node):
        name = ast.unparse(field.target)
        kind = ast.unparse(field.annotation).replace("|", "\\|")
        default = "required" if field.value is None else f"`{ast.unparse(field.value)}`"
        what = re.search(rf"^( *){name}: (.*(?:\n\1 +.*)*)", doc, re.MULTILINE)
        comments = [line.partition("  # ")[2] for line in lines[field.lineno - 1 : field.end_lineno]]
        notes = "; ".join(
            " ".join(part.split()).rstrip(".") for part in (what.group(2) if what else "", *comments) if part
        )
        rows.append(f"| `{name}` | `{kind}` | {default} | {notes} |")
    return "\n".join(rows) + "\n"


def _fields(node: ast.ClassDef) -> list[ast.AnnAssign]:
    return [statement for statement in node.body if isinstance(statement, ast.AnnAssign)]
