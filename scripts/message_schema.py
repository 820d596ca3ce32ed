"""Writes docs/control-messages.schema.json: types, limits and defaults of every control message, from the code.

``--check`` only compares, for the tests.
"""

import json
import sys
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "control-messages.schema.json"
sys.path.insert(0, str(ROOT))

from wire import messages  # noqa: E402 - the repository is on the path only now


def schema() -> str:
    """The page, as JSON Schema 2020-12: one definition a message, by the kind that ends its topic."""
    references, definitions = msgspec.json.schema_components(
        list(messages.TYPES.values()), ref_template="#/$defs/{name}"
    )
    page = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Control messages of Nightjar, wire format 1",
        "description": f"UTF-8, at most {messages.MAX_CONTROL_BYTES} bytes. Made by scripts/message_schema.py.",
        "properties": dict(zip(messages.TYPES, references, strict=True)),
        "$defs": definitions,
    }
    return json.dumps(page, indent=1).replace(r"\\Z", "$") + "\n"  # the end of the text, in JSON Schema's dialect


if __name__ == "__main__":
    if sys.argv[1:] != ["--check"]:
        PAGE.write_text(schema())
    elif not PAGE.exists() or PAGE.read_text() != schema():
        sys.exit(f"{PAGE.name} is not what the code says: run python scripts/message_schema.py")
