import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.firmware_scripts.core.mounts import containing, parse_mountinfo, parse_swaps
from nightjar.wire.errors import RemoteProtocolError

ROOT = "28 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw,errors=remount-ro\n"


@pytest.mark.parametrize(
    "text", ["", "\n", "nonsense\n", ROOT + "x\n", ROOT.replace("8:2", "8-2"), ROOT.replace(" - ", " ")]
)
def test_a_mountinfo_with_a_line_that_cannot_be_read_is_refused_whole(text):
    with pytest.raises(RemoteProtocolError):
        parse_mountinfo(text)


def test_optional_fields_may_be_missing_or_many():
    none = parse_mountinfo(ROOT.replace(" shared:1", ""))
    many = parse_mountinfo(ROOT.replace(" shared:1", " shared:1 master:2 propagate_from:3 unbindable"))
    assert none == many == parse_mountinfo(ROOT)


@pytest.mark.parametrize("text", ["Filename\n/dev/sda1 partition 1\n", "Filename\n/x folder 1 0 0\n"])
def test_a_swaps_with_a_line_that_cannot_be_read_is_refused(text):
    with pytest.raises(RemoteProtocolError):
        parse_swaps(text)


def test_a_swap_file_with_a_space_in_its_name_is_one_path():
    assert parse_swaps("Filename\n/my\\040swap file 1 0 -2\n")[0].path == "/my swap"


def test_a_path_lies_on_the_innermost_and_latest_mount():
    text = ROOT + "".join(
        f"{n} 28 {number} / {point} rw - ext4 /dev/x rw\n"
        for n, (number, point) in enumerate([("8:3", "/srv"), ("8:4", "/srv/a"), ("8:5", "/srv/a"), ("8:6", "/sr")])
    )
    mounts = parse_mountinfo(text)
    assert [containing(mounts, path).number for path in ("/srv/a/b", "/srv/ab", "/sr", "/")] == [
        "8:5", "8:3", "8:6", "8:2",
    ]  # fmt: skip


@given(st.text())
def test_any_text_is_read_or_refused(text):
    for parse in (parse_mountinfo, parse_swaps):
        with contextlib.suppress(RemoteProtocolError):
            parse(text)
