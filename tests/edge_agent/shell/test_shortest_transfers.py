from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.edge_agent.shell.model_files import shortest_transfers
from nightjar.models.manifest import Artifact, Transfer
from tests.edge_agent.fakes import write_model

WHOLE = 1000


def sha(name):
    return None if name is None else f"{ord(name):064x}"


def transfer(base, target, size):
    return Transfer(Artifact(f"{size:064x}", size), sha(base), None if target == "z" else sha(target))


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    plain = write_model(tmp_path_factory.mktemp("model")).manifest
    return msgspec.structs.replace(plain, weights=Artifact(sha("z"), WHOLE))


def sizes(manifest, transfers, held):
    wanted = msgspec.structs.replace(manifest, transfers=tuple(transfer(*each) for each in transfers))
    return [step.file.size_bytes for step in shortest_transfers(wanted, [sha(each) for each in held].__contains__)]


CHAIN = [("c", "z", 300), ("b", "c", 310), ("a", "b", 320)]


@pytest.mark.parametrize(
    ("transfers", "held", "expected"),
    [
        ([], "a", []),
        (CHAIN, "", []),
        (CHAIN, "c", [300]),
        (CHAIN, "b", [310, 300]),
        (CHAIN, "a", [320, 310, 300]),
        (CHAIN, "ab", [310, 300]),
        ([*CHAIN, ("a", "z", 500)], "a", [500]),
        ([("c", "z", 300), ("b", "c", 700)], "b", []),  # as long as the whole
        ([("a", "z", WHOLE)], "a", []),
        ([("a", "z", 400), (None, "z", 350)], "a", [350]),
        ([("a", "z", 400), (None, "z", 450)], "a", [400]),
        ([("b", "c", 1), ("c", "b", 1)], "bc", []),  # leads nowhere
        ([("z", "z", 0), ("c", "c", 0), ("c", "z", 5)], "c", [5]),
    ],
)
def test_the_fewest_bytes_that_lead_from_what_is_held(manifest, transfers, held, expected):
    assert sizes(manifest, transfers, held) == expected


NAMES = st.sampled_from("abcz")


@given(st.lists(st.tuples(st.none() | NAMES, NAMES, st.integers(0, 2 * WHOLE)), max_size=12), st.sets(NAMES))
def test_whatever_a_manifest_says_the_steps_follow_one_another(manifest, transfers, held):
    wanted = msgspec.structs.replace(manifest, transfers=tuple(transfer(*each) for each in transfers))
    steps = shortest_transfers(wanted, [sha(each) for each in held].__contains__)
    assert sum(step.file.size_bytes for step in steps) < WHOLE
    if steps:
        assert steps[0].base in {None, *map(sha, held)}
        assert steps[-1].target is None
        assert all(one.target == following.base for one, following in pairwise(steps))
