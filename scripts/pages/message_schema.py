"""Makes docs/control-messages.schema.json: types, limits and defaults of every control message, from the code."""

import inspect
import json
from pathlib import Path

import msgspec

from nightjar.wire import messages

PAGE = Path(__file__).parents[2] / "docs" / "control-messages.schema.json"


def page() -> str:
    """The page, as JSON Schema 2020-12: one definition a message, by the kind that ends its topic.

    The text in a sealed message has a definition, too: of the message that is signed.
    """
    types = [messages.Sealed if kind in messages.SIGNED else sent for kind, sent in messages.TYPES.items()]
    inner = [messages.TYPES[kind] for kind in sorted(messages.SIGNED)]
    references, definitions = msgspec.json.schema_components([*types, *inner], ref_template="#/$defs/{name}")
    references = references[: len(types)]
    for each in definitions.values():
        each["description"] = inspect.cleandoc(each.get("description", ""))  # as Python 3.13 keeps docstrings
    page = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Control messages of Nightjar, wire format 1",
        "description": f"UTF-8, at most {messages.MAX_CONTROL_BYTES} bytes. Made by scripts/pages.",
        "properties": dict(zip(messages.TYPES, references, strict=True)),
        "$defs": definitions,
    }
    return json.dumps(page, indent=1).replace(r"\\Z", "$") + "\n"  # the end of the text, in JSON Schema's dialect
