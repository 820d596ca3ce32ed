"""Encrypted sums make the trees of one place, and those of scikit-learn."""

from collections import Counter

import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from nightjar.experiments.boosting import Boosting, OwnColumns, Sums, best_split, boost, breast_cancer
from nightjar.experiments.secure_boost import ACTIVE, run_protocol

AT = Boosting(trees=2, depth=2, key_bits=512)
BINS, LABELS = breast_cancer(60, 6, 7)


@pytest.fixture(scope="module")
def made():
    return run_protocol(BINS, LABELS, AT)


@pytest.fixture(scope="module")
def pooled():
    return boost([OwnColumns(BINS)], LABELS, AT)


def test_trees_are_those_of_all_columns_in_one_place(made, pooled):
    trees, _ = pooled
    assert len(made.results[ACTIVE]) == len(trees) == 2
    for found, expected in zip(made.results[ACTIVE], trees, strict=True):
        for (rows, split, value), node in zip(found, expected, strict=True):
            assert (rows, value) == (node.rows, node.value)
            assert (split and [10 * split[0] + split[1], split[2]]) == (node.split and list(node.split[1:]))
    assert any(split and split[0] for tree in made.results[ACTIVE] for _, split, _ in tree), "a passive party's column"


def test_scores_are_those_of_scikit_learn(pooled):
    _, scores = pooled
    other = HistGradientBoostingClassifier(
        max_iter=AT.trees,
        max_depth=AT.depth,
        learning_rate=AT.rate,
        l2_regularization=AT.penalty,
        min_samples_leaf=1,
        max_leaf_nodes=None,
        early_stopping=False,
    ).fit(BINS, LABELS)
    assert scores == pytest.approx(other.decision_function(BINS), abs=1e-5)


def test_passive_parties_speak_with_the_active_one_only_and_see_ciphertexts_and_rows(made):
    kinds = {(each.sender, each.receiver, each.kind) for each in made.messages}
    expected = {"n", "slopes", "node", "split", "end"}
    for party in ("passive-1", "passive-2"):
        assert {kind for sender, receiver, kind in kinds if receiver == party} <= expected
        assert {kind for sender, _, kind in kinds if sender == party} <= {"sums", "left rows"}
    assert all(ACTIVE in {sender, receiver} for sender, receiver, _ in kinds)
    slopes = [cipher for each in made.messages if each.kind == "slopes" for of in each.value for cipher in of]
    assert {len(cipher) for cipher in slopes} == {128}
    assert Counter(slopes).most_common(1)[0][1] <= 2, "each slope goes to two parties; equal slopes look different"


def test_the_first_of_equal_splits_wins_and_a_pure_node_has_none():
    half, none = Sums(-(2**32), 2**32), Sums(0, 0)
    total = Sums(0, 2 * 2**32)
    assert best_split([[[none], [half]], [[half]]], total, AT) == (0, 1, 0)
    assert best_split([[[none]]], Sums(0, 0), AT) is None
