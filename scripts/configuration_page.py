"""Writes docs/configuration.md from the two config modules: name, type, default and reason of every setting.

The reason is the string below the field. ``--check`` only compares, for the tests. Reads source text; imports nothing.
"""

import ast
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
        tree = ast.parse(path.read_text())
        parts.append(f"## {name}\n\n{(ast.get_docstring(tree) or '').strip()}\n")
        parts.extend(_section(node) for node in tree.body if isinstance(node, ast.ClassDef) and _fields(node))
    return "\n".join(parts)


def _section(node: ast.ClassDef) -> str:
    rows = [f"### {node.name}\n\n{(ast.get_docstring(node) or '').splitlines()[0]}\n"]
    rows.append("| setting | type | default | why |\n|---|---|---|---|")
    for field, reason in _fields(node):
        kind = ast.unparse(field.annotation).replace("|", "\\|")
        default = "required" if field.value is None else f"`{ast.unparse(field.value)}`"
        target = field.target.id if isinstance(field.target, ast.Name) else ""
        rows.append(f"| `{target}` | `{kind}` | {default} | {' '.join(reason.split())} |")
    return "\n".join(rows) + "\n"


def _fields(node: ast.ClassDef) -> list[tuple[ast.AnnAssign, str]]:
    found = []
    for statement, after in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(statement, ast.AnnAssign):
            text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            found.append((statement, str(text)))
    return found


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(PAGE.read_text() != page() and f"{PAGE} is out of date: run python {sys.argv[0]}")
    PAGE.write_text(page())
