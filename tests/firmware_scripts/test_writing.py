import errno
import hashlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightjar.firmware_scripts.core.bmap import Bmap, Range
from nightjar.firmware_scripts.core.plan import CHUNK_BYTES, FIRST_BLOCK_BYTES, HEAD_BYTES
from nightjar.firmware_scripts.surveying import survey
from nightjar.firmware_scripts.verifying import VerifyFailed
from nightjar.firmware_scripts.writing import ImageFailed, Interrupted, WriteFailed, Written, write_image
from tests.firmware_scripts.fake_card import Cut, FakeCard, image_of, never, quiet

MIB = 2**20
IMAGE = random.Random(7).randbytes(3 * MIB + 12_345)
SMALL = random.Random(8).randbytes(HEAD_BYTES + 300_000)


def run(card, image=IMAGE, should_stop=never, bmap=None, again=None):
    surveyed = survey(image_of(image), bmap, quiet)
    return write_image(surveyed, image_of(again or image), card, quiet, should_stop)


def starts(held, image=IMAGE):
    """Whether a firmware would find the image's boot sector."""
    return bytes(held[:512]) == image[:512]


def test_a_whole_card_holds_the_image_and_nothing_else_of_the_old_tables():
    card = FakeCard(6 * MIB)
    assert run(card) == Written(len(IMAGE))
    assert card.on_medium[: len(IMAGE)] == IMAGE
    assert not any(card.on_medium[-MIB:])  # where a GPT keeps its copy
    assert not card.cached


def test_a_card_of_exactly_the_size_of_the_image():
    card = FakeCard(len(IMAGE))
    assert run(card) == Written(len(IMAGE))
    assert card.on_medium == IMAGE


@pytest.mark.parametrize("size", [1, 511, FIRST_BLOCK_BYTES, FIRST_BLOCK_BYTES + 1, HEAD_BYTES, HEAD_BYTES + 1])
def test_small_images_are_written_too(size):
    card = FakeCard(2 * MIB)
    assert run(card, IMAGE[:size]) == Written(size)
    assert card.on_medium[:size] == IMAGE[:size]


def test_a_card_that_is_too_small_is_not_touched():
    card = FakeCard(len(IMAGE) - 1)
    assert isinstance(run(card), WriteFailed)
    assert card.operations == 0


def test_short_writes_are_continued():
    card = FakeCard(4 * MIB, most_per_write=70_001)
    assert run(card) == Written(len(IMAGE))
    assert card.on_medium[: len(IMAGE)] == IMAGE


def test_a_card_that_takes_no_byte_and_says_nothing_fails():
    card = FakeCard(4 * MIB, most_per_write=0)
    assert isinstance(run(card), WriteFailed)


def test_an_image_that_trickles_in_is_written_whole():
    card = FakeCard(4 * MIB)
    surveyed = survey(image_of(IMAGE, most_per_read=4097), None, quiet)
    assert write_image(surveyed, image_of(IMAGE, most_per_read=999), card, quiet, never) == Written(len(IMAGE))
    assert card.on_medium[: len(IMAGE)] == IMAGE


OFFSETS = [0, 1, 511, FIRST_BLOCK_BYTES, HEAD_BYTES - 1, HEAD_BYTES, 2 * MIB + 77, len(IMAGE) - 1]


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.ENODEV, errno.EROFS])
@pytest.mark.parametrize("offset", OFFSETS)
def test_an_error_while_writing_is_told_where_it_happened(offset, number):
    card = FakeCard(4 * MIB, write_faults={offset: number})
    outcome = run(card)
    assert isinstance(outcome, WriteFailed)
    assert outcome.offset == offset
    assert errno.errorcode[number] in outcome.text
    assert not starts(card.seen())


@pytest.mark.parametrize("offset", OFFSETS)
def test_a_byte_that_cannot_be_read_back_is_named(offset):
    card = FakeCard(4 * MIB, read_faults={offset: errno.EIO})
    outcome = run(card)
    assert isinstance(outcome, VerifyFailed)
    assert outcome.offset == offset
    assert not starts(card.on_medium)


@pytest.mark.parametrize("offset", OFFSETS)
def test_a_byte_that_reads_back_wrong_is_named(offset):
    card = FakeCard(4 * MIB)
    card.stuck_bytes = {offset: IMAGE[offset] ^ 1}
    outcome = run(card)
    assert isinstance(outcome, VerifyFailed)
    assert outcome.offset == offset
    card.stuck_bytes = {}
    assert not starts(card.on_medium)


def test_of_several_bad_bytes_the_first_is_named():
    card = FakeCard(4 * MIB)
    card.stuck_bytes = {offset: IMAGE[offset] ^ 0xFF for offset in (MIB + 5, MIB + 6, 2 * MIB)}
    assert run(card) == VerifyFailed(MIB + 5, "reads back differently than it should be")


def test_any_flush_that_fails_is_a_failure_and_the_card_does_not_start():
    whole = FakeCard(2 * MIB)
    assert isinstance(run(whole, SMALL), Written)
    for which in range(1, whole.syncs + 1):
        card = FakeCard(2 * MIB)
        card.sync_faults = {which: errno.EIO}
        assert isinstance(run(card, SMALL), WriteFailed | VerifyFailed), which
        assert not starts(card.seen(), SMALL)


def test_a_counterfeit_card_that_wraps_around_is_found_out():
    class Wrapping(FakeCard):
        def write_at(self, offset, data):
            return super().write_at(offset % (2 * MIB), data)

        def read_at(self, offset, length_bytes):
            return super().read_at(offset % (2 * MIB), length_bytes)

    card = Wrapping(4 * MIB)
    assert isinstance(run(card), VerifyFailed)
    assert not starts(card.on_medium)


def test_a_card_that_is_pulled_at_any_moment_is_never_a_success():
    whole = FakeCard(2 * MIB)
    assert isinstance(run(whole, SMALL), Written)
    for operation in range(whole.operations):
        card = FakeCard(2 * MIB)
        card.gone_at = operation
        assert isinstance(run(card, SMALL), WriteFailed | VerifyFailed), operation


def test_an_image_that_changes_after_it_was_looked_through_is_not_written_to_the_end():
    for offset in (0, 2 * MIB):
        changed = bytearray(IMAGE)
        changed[offset] ^= 1
        card = FakeCard(4 * MIB)
        assert isinstance(run(card, again=bytes(changed)), ImageFailed)
        assert not any(card.on_medium[:FIRST_BLOCK_BYTES])
    assert isinstance(run(FakeCard(4 * MIB), again=IMAGE[:-1]), ImageFailed)


def test_stopping_at_any_moment_leaves_a_card_that_does_not_start_or_is_whole():
    asked = 0

    def count():
        nonlocal asked
        asked += 1
        return False

    run(FakeCard(4 * MIB), should_stop=count)
    for moment in range(asked):
        left = moment

        def stop():
            nonlocal left
            left -= 1
            return left < 0

        card = FakeCard(4 * MIB)
        assert run(card, should_stop=stop) == Interrupted(touched=True)
        assert not any(card.on_medium[:FIRST_BLOCK_BYTES])


# ---- cut off: a kill, or the power -----------------------------------------------------------------------------------


def cut_off(operation, image):
    card = FakeCard(2 * MIB, most_per_write=100_000)
    card.cut_at = operation
    try:
        return card, run(card, image)
    except Cut:
        return card, None


def states_after(card, chooser):
    """Every order in which a cache may have lost writes, one drawn: any of them, the last one torn."""
    kept = [write for write in card.cached if chooser.random() < 0.5]
    if kept and chooser.random() < 0.5:
        offset, data = kept[-1]
        kept[-1] = (offset, data[: chooser.randrange(len(data) + 1)])
    return card.after(kept)


def test_a_cut_at_any_operation_leaves_a_card_that_does_not_start_or_is_whole():
    _, outcome = cut_off(10**9, SMALL)
    assert isinstance(outcome, Written)
    chooser, whole = random.Random(3), 0
    for operation in range(200):
        card, outcome = cut_off(operation, SMALL)
        for held in [card.on_medium, card.seen(), *(states_after(card, chooser) for _ in range(10))]:
            if starts(held, SMALL):
                whole += 1
                assert held[: len(SMALL)] == SMALL
            elif bytes(held[:512]) == b"\xee" * 512:
                # The old table is still there: then nothing of the new image may be behind it.
                assert bytes(held[HEAD_BYTES : len(SMALL)]) == b"\xee" * (len(SMALL) - HEAD_BYTES)
        if outcome is not None:
            break
    assert whole
    assert isinstance(outcome, Written)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_faults_together_never_end_in_a_success_that_is_none(data):
    offsets = st.integers(0, len(SMALL) - 1)
    card = FakeCard(
        2 * MIB,
        most_per_write=data.draw(st.one_of(st.none(), st.integers(50_000, MIB))),
        write_faults=dict.fromkeys(data.draw(st.lists(offsets, max_size=1)), errno.EIO),
        read_faults=dict.fromkeys(data.draw(st.lists(offsets, max_size=1)), errno.EIO),
    )
    card.stuck_bytes = dict(data.draw(st.lists(st.tuples(offsets, st.integers(0, 255)), max_size=3)))
    outcome = run(card, SMALL)
    if isinstance(outcome, Written):
        assert card.on_medium[: len(SMALL)] == SMALL
    else:
        assert isinstance(outcome, WriteFailed | VerifyFailed)


# ---- block maps ------------------------------------------------------------------------------------------------------


def map_of(image, spans, block=512):
    ranges = tuple(Range(s, n, hashlib.sha256(image[s : s + n]).hexdigest()) for s, n in spans)
    return Bmap(len(image), block, ranges)


def test_with_a_block_map_only_what_is_mapped_is_written():
    spans = [(512, 512), (1536, 1024), (4096 - 512, 1024), (MIB - 512, 2 * MIB), (3 * MIB + 512, 512)]
    card = FakeCard(8 * MIB)
    bmap = map_of(IMAGE, spans)
    assert run(card, bmap=bmap) == Written(bmap.mapped_bytes)
    for start, length in spans:
        assert card.on_medium[start : start + length] == IMAGE[start : start + length]
    # Between the ranges: the head is cleared, the rest keeps what it held.
    assert not any(card.on_medium[:512])
    assert not any(card.on_medium[1024:1536])
    assert bytes(card.on_medium[3 * MIB : 3 * MIB + 512]) == b"\xee" * 512


def test_chunks_of_a_survey_cover_what_is_mapped_and_never_cross_the_head():
    spans = [(0, MIB + 512), (2 * MIB + 512, MIB + 1024)]
    surveyed = survey(image_of(IMAGE), map_of(IMAGE, spans), quiet)
    covered = [at for chunk in surveyed.chunks for at in (chunk.offset, chunk.offset + chunk.length_bytes)]
    assert covered[0] == 0
    assert sum(chunk.length_bytes for chunk in surveyed.chunks) == 2 * MIB + 1536
    assert all(c.offset // CHUNK_BYTES == (c.offset + c.length_bytes - 1) // CHUNK_BYTES for c in surveyed.chunks)
