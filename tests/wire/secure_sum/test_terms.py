import msgspec
import pytest

from nightjar.wire.secure_sum.terms import Terms
from tests.secure_sums import terms


@pytest.mark.parametrize(("threshold", "minimum"), [(2, 3), (3, 7), (5, 9), (20, 70), (40, 70), (34, 67)])
def test_the_numbers_leave_room_for_colluders_and_dropouts(threshold, minimum):
    agreed = terms(threshold, minimum)
    for cohort in range(minimum, agreed.largest_cohort + 1):
        colluders, dropouts, degree = threshold - 1, cohort - minimum, agreed.degree(cohort)
        assert 2 * agreed.quorum(cohort) - cohort > colluders, "two quorums share an honest member"
        assert agreed.quorum(cohort) <= minimum, "those that must stay are a quorum"
        assert degree - dropouts >= threshold, "enough neighbours stay to give every seed back"
        assert degree == cohort - 1 or colluders + dropouts < degree, "the others stay connected"
        assert degree % 2 == 0 or degree == cohort - 1


def test_one_more_device_would_have_no_quorum():
    agreed = terms(3, 7)
    assert agreed.quorum(agreed.largest_cohort + 1) > agreed.minimum


@pytest.mark.parametrize(
    "change", [{"threshold": 1}, {"threshold": 7}, {"minimum": 1001}, {"bits": 33}, {"bits": 0}, {"session": b"short"}]
)
def test_terms_that_protect_nobody_cannot_be_read(change):
    data = msgspec.msgpack.encode({**msgspec.structs.asdict(terms()), **change})
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(data, type=Terms)


def test_the_digest_depends_on_every_term():
    others = [terms(2), terms(minimum=8), terms(values=21), terms(bits=17), terms(session=b"other")]
    assert len({each.digest for each in (terms(), *others)}) == 6
