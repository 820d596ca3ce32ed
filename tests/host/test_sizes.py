"""Numbers of bytes are written in one way, by one function."""

import re
from pathlib import Path

import pytest

from nightjar.host.sizes import size_text

ROOT = Path(__file__).parents[2]
SHOWN = ("coordinator", "edge_agent", "firmware_scripts", "host")
BY_HAND = re.compile(r"/ ?(1e3|1e6|1e9|1000|2 ?\*\* ?[123]0|1024)\b[^\n]{0,12}\} ?[kKMG]i?B\b")


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (3000, "3.0 kB"), (1490, "1.5 kB"), (999_949, "999.9 kB")],
)
def test_a_size_has_one_decimal_from_a_thousand_bytes_on(size_bytes, text):
    assert size_text(size_bytes) == text


def test_no_other_line_of_a_program_writes_a_size():
    files = [path for package in SHOWN for end in ("py", "html") for path in (ROOT / package).rglob(f"*.{end}")]
    assert len(files) > 300
    found = [path.name for path in files if BY_HAND.search(path.read_text(encoding="utf-8"))]
    assert found == []
    assert BY_HAND.search('f"{free / 1e6:,.0f} MB free"')


def test_the_keyboards_page_writes_sizes_with_one_decimal_too():
    panel = (ROOT / "edge_agent/keyboard/static/panel.js").read_text(encoding="utf-8")
    assert set(re.findall(r"toFixed\((\d)\)\} [kM]B", panel)) == {"1"}


def test_pages_have_no_unit_in_another_spelling():
    pages = [*ROOT.glob("docs/*.md"), ROOT / "README.md", *(ROOT / "coordinator/web/templates").glob("*.html")]
    found = [path.name for path in pages if re.search(r"\d ?(KB|Kb|kb|mb|Mb|gb|Gb)\b|\d(kB|MB|GB)\b", path.read_text())]
    assert found == []
