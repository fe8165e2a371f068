"""What families ask of the values of a matrix."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from sinkhorn_em.block_families.values import TILE, distinct, first_failure


@pytest.mark.parametrize("make", [np.asarray, csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("at", [(0, 0), (2, 1), (700, 899)])
def test_the_first_failure_is_found_in_any_tile(make, at):
    X = np.ones((701, 900))
    assert X.size > 2 * TILE
    X[5:9] = 0
    X[at] = X[-1, -1] = 7.5
    cell = first_failure(make(X), lambda x: x < 7)
    assert cell[:2] == at
    assert str(cell) == f"X[{at[0]}, {at[1]}] is 7.5"
    assert first_failure(make(X), lambda x: x < 8) is None


@pytest.mark.parametrize("make", [np.asarray, csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("values", [[0, 1, 2, 9], [0, 1, 1e7], [-2, 0, 3], [0.5, 0, 1], [0], [4]])
def test_distinct_values_are_counted_without_zero(make, values):
    X = np.random.default_rng(0).choice(np.array(values, float), (701, 400))
    found, counts = distinct(make(X))
    expected = np.unique(X[X != 0], return_counts=True)
    assert found.tolist() == expected[0].tolist()
    assert counts.tolist() == expected[1].tolist()
