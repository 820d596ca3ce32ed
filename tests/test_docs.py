"""Documents that cannot rot: what the code has, the pages must name."""

import ast
import json
import re
from pathlib import Path

import msgspec
import pytest

from nightjar.models.configurations import configuration
from nightjar.wire import messages, topics
from nightjar.wire.codec.codecs import WIRE_IDS

ROOT = Path(__file__).parents[1]
WIRE_FORMAT = (ROOT / "docs" / "wire-format.md").read_text()
SCHEMA = json.loads((ROOT / "docs" / "control-messages.schema.json").read_text())
README = (ROOT / "README.md").read_text()


def make_targets():
    return re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("target", [t for t in make_targets() if t != "help"])
def test_every_make_target_is_in_the_readme(target):
    assert re.search(rf"make\s+{target}\b", README)


def test_readme_gives_the_parameters_of_whole_vocabularies():
    for name, given in (("tiny", "186 k"), ("gboard", "1.41 M")):
        shape = configuration(name)
        size = shape.layout(shape.max_vocabulary).size
        assert given == (f"{size / 1e6:.2f} M" if size > 1e6 else f"{size / 1e3:.0f} k")
        assert f"{name} ({given} parameters)" in README
    assert "with its whole vocabulary" in README


@pytest.mark.parametrize("message_type", messages.TYPES.values(), ids=lambda t: t.__name__)
def test_every_message_is_in_the_wire_format_and_its_fields_in_the_schema(message_type):
    assert re.search(rf"^- `{message_type.__name__}`: ", WIRE_FORMAT, re.MULTILINE)
    fields = {field.name for field in msgspec.structs.fields(message_type)}
    assert fields == set(SCHEMA["$defs"][message_type.__name__]["properties"])


@pytest.mark.parametrize("kind", sorted(topics.UP_KINDS | topics.DOWN_KINDS))
def test_every_topic_kind_is_in_the_wire_format(kind):
    assert f"/{kind}`" in WIRE_FORMAT


@pytest.mark.parametrize(
    "value",
    [m.value for e in (messages.Verdict, messages.RejectionReason, messages.DropoutCause) for m in e],
)
def test_every_enumerated_value_is_in_the_wire_format(value):
    assert f"`{value}`" in WIRE_FORMAT


@pytest.mark.parametrize(("wire_id", "name"), [(number, name) for name, number in WIRE_IDS.items()])
def test_every_codec_has_its_wire_id_and_name_in_a_heading_of_the_wire_format(wire_id, name):
    headings = [line for line in WIRE_FORMAT.splitlines() if line.startswith("## ") and f"`{name}`" in line]
    assert any(re.search(rf"\bcodecs? .*\b{wire_id}\b", heading) for heading in headings)


def refusal_codes():
    """Every code of a RemoteProtocolError in the packages that read bytes."""
    codes = {"malformed", "hash-mismatch"}
    for folder in ("wire", "host", "models", "coordinator", "edge_agent"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call):
                    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
                    if name in {"RemoteProtocolError", "Invalid", "IntegrityError"}:
                        named = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
                        named += node.args[:1] if name == "Invalid" else []
                        codes |= {value.value for value in named if isinstance(value, ast.Constant)}
    return sorted(codes)


def test_every_refusal_code_is_in_the_wire_format():
    told = WIRE_FORMAT.split("## Codes of refused bytes")[1]
    assert [code for code in refusal_codes() if f"`{code}`" not in told] == []


def test_documents_name_no_missing_file():
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_example_for_an_own_broker_has_every_limit_of_ours():
    ours = (ROOT / "coordinator" / "mqtt" / "mosquitto.conf").read_text().splitlines()
    page = (ROOT / "docs" / "brokers.md").read_text()
    example = page.split("## A configuration for your own mosquitto")[1].split("```")[1].splitlines()
    settings = [line for line in ours if line and not line.startswith("#") and "$" not in line]
    assert set(settings) - {line for line in settings if line.startswith("log_")} <= set(example)


def test_decisions_are_numbered_without_gaps_and_have_a_status():
    pages = sorted((ROOT / "docs" / "adr").glob("0*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    for number, page in enumerate(pages, 1):
        title, _, status, *_ = page.read_text().splitlines()
        assert title.startswith(f"# {number}. ")
        assert re.match(r"Status: (accepted|superseded by \[\d+\])", status), page.name
