"""Writes docs/configuration.md from the two config modules: name, type, default and reason of every setting.

What a setting is comes from the class's ``Attributes:``, and the reason of its default from the comment beside it.
``--check`` only compares, for the tests. Reads source text; imports nothing.
"""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "configuration.md"
SIDES = {
    "coordinator.toml": ROOT / "coordinator" / "config.py",
    "agent.toml": ROOT / "edge_agent" / "config.py",
}

HEAD = """# Configuration

Made by `python scripts/configuration_page.py` from the config modules; do not edit by hand.

Both sides read one TOML file and the environment, once, at the start, and report every fault at once.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for name, path in SIDES.items():
        source = path.read_text()
        tree = ast.parse(source)
        parts.append(f"## {name}\n")
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        parts.extend(_section(node, source.splitlines()) for node in classes if _fields(node))
    return "\n".join(parts)


def _section(node: ast.ClassDef, lines: list[str]) -> str:
    doc = ast.get_docstring(node) or ""
    rows = [f"### {doc.splitlines()[0]}\n", "| setting | type | default | what and why |\n|---|---|---|---|"]
    for field in _fields(node):
        name = ast.unparse(field.target)
        kind = ast.unparse(field.annotation).replace("|", "\\|")
        default = "required" if field.value is None else f"`{ast.unparse(field.value)}`"
        what = re.search(rf"^ *{name}: (.*?)$", doc, re.MULTILINE)
        _, _, why = "".join(lines[field.lineno - 1 : field.end_lineno]).partition("  # ")
        notes = "; ".join(part.rstrip(".") for part in (what.group(1) if what else "", why) if part)
        rows.append(f"| `{name}` | `{kind}` | {default} | {notes} |")
    return "\n".join(rows) + "\n"


def _fields(node: ast.ClassDef) -> list[ast.AnnAssign]:
    return [statement for statement in node.body if isinstance(statement, ast.AnnAssign)]


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(PAGE.read_text() != page() and f"{PAGE} is out of date: run python {sys.argv[0]}")
    PAGE.write_text(page())
