"""What every block family does: the same law as scipy's, a maximum in closed form, and finite numbers for any data it takes."""

import numpy as np
import pytest
from block_matrices import (
    FAMILIES,
    as_cells,
    block_sums,
    kind,
    left_out,
    log_density,
    matrix,
    moved,
    responsibilities,
    same,
    value,
)
from scipy.sparse import csr_array, issparse

from sinkhorn_em.block_families import BLOCK_FAMILIES, BlockFamily

SHAPE, K, L = (23, 17), 3, 2
SPARSE = {"dense": False, "csr": True}

every_family = pytest.mark.parametrize("name", FAMILIES)
with_and_without_missing = pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])
dense_and_sparse = pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])


def problem(name, missing=False, sparse=False, seed=0):
    """(X, mask, cells, scale, T, N) of random responsibilities; one row and one column are 0, and some cells are left out."""
    X = matrix(name, SHAPE, seed)
    X[4], X[:, 3] = 0, 0
    mask = left_out(SHAPE, seed=seed) if missing else None
    cells, scale = as_cells(FAMILIES[name], X, mask, sparse)
    return X, mask, cells, scale, responsibilities(SHAPE[0], K, seed), responsibilities(SHAPE[1], L, seed + 1)


def fitted(name, cells, T, N, steps=2):
    """(parameters after some M-steps, sums, exposure)."""
    family = FAMILIES[name]
    sums, exposure = block_sums(cells, T, N)
    parameters = family.start(cells, K, L)
    for _ in range(steps):
        parameters = family.maximise(sums, exposure, cells, parameters)
    return parameters, sums, exposure


def magnitude(family, cells, parameters, sums, exposure):
    """The size of the terms whose sum is the value: its rounding is in proportion."""
    eta, A = family.natural(parameters)
    return np.abs(eta * sums).sum() + np.abs(exposure * A).sum() + abs(family.constant(cells, parameters)) + 1


def test_every_registered_family_is_tested_here():
    assert {kind(name) for name in FAMILIES} == set(BLOCK_FAMILIES)
    assert all(isinstance(family, BlockFamily) for family in FAMILIES.values())
    for family in FAMILIES.values():
        family.check()


@every_family
@with_and_without_missing
@dense_and_sparse
@pytest.mark.parametrize("at", ["start", "maximum"])
def test_sums_and_constant_give_the_log_likelihood_of_scipy(name, missing, sparse, at):
    family = FAMILIES[name]
    X, mask, cells, scale, T, N = problem(name, missing, sparse)
    parameters, sums, exposure = fitted(name, cells, T, N, steps=0 if at == "start" else 1)
    told, e = family.describe(parameters, scale), np.outer(cells.row_exposure, cells.column_exposure)
    expected = 0.0
    for k in range(K):
        for l in range(L):
            terms = log_density(name, X, e, told, k, l)
            expected += T[:, k] @ np.where(False if mask is None else mask, 0.0, terms) @ N[:, l]
    # scipy's nbinom loses digits in gammaln of large sizes
    assert value(family, cells, parameters, sums, exposure) == pytest.approx(expected, rel=1e-10)


@every_family
@with_and_without_missing
@pytest.mark.parametrize("seed", range(3))
def test_the_m_step_is_a_maximum(name, missing, seed):
    family, rng = FAMILIES[name], np.random.default_rng(seed)
    _, _, cells, _, T, N = problem(name, missing, seed=seed)
    best, sums, exposure = fitted(name, cells, T, N, steps=1)
    top = value(family, cells, best, sums, exposure)
    rounding = 1e-13 * magnitude(family, cells, best, sums, exposure)
    for size in [1e-6, 1e-4, 1e-2, 0.3, 2.0] * 20:
        assert value(family, cells, moved(name, family, best, size, rng), sums, exposure) <= top + rounding
    assert same(family.maximise(sums, exposure, cells, best), best, rel=1e-6)


@every_family
@with_and_without_missing
@pytest.mark.parametrize("seed", range(5))
def test_the_m_step_never_lowers_the_bound(name, missing, seed):
    family, rng = FAMILIES[name], np.random.default_rng(seed)
    _, _, cells, _, T, N = problem(name, missing, seed=seed)
    parameters, sums, exposure = fitted(name, cells, T, N)
    for size in (1e-8, 1e-3, 1.0, 5.0):
        start = moved(name, family, parameters, size, rng)
        rounding = 1e-13 * magnitude(family, cells, start, sums, exposure)
        before = value(family, cells, start, sums, exposure)
        after = value(family, cells, family.maximise(sums, exposure, cells, start), sums, exposure)
        assert after >= before - rounding


@every_family
@with_and_without_missing
def test_means_are_weighted_means(name, missing):
    X, mask, cells, scale, T, N = problem(name, missing)
    parameters, _, _ = fitted(name, cells, T, N)
    told = FAMILIES[name].describe(parameters, scale)
    observed = np.ones(SHAPE) if mask is None else ~mask
    e = observed * np.outer(cells.row_exposure, cells.column_exposure)
    if kind(name) == "multinomial":
        for c, category in enumerate(told["categories"]):
            expected = (T.T @ (observed * (category == X)) @ N) / (T.T @ observed @ N)
            assert told["probabilities"][:, :, c] == pytest.approx(expected, rel=1e-11)
        return
    expected = (T.T @ (observed * X) @ N) / (T.T @ e @ N)
    assert next(iter(told.values())) == pytest.approx(expected, rel=1e-11, abs=1e-13)


@every_family
@with_and_without_missing
def test_dense_and_sparse_agree(name, missing):
    family = FAMILIES[name]
    found = {}
    for form, sparse in SPARSE.items():
        _, _, cells, scale, T, N = problem(name, missing, sparse)
        assert all(issparse(part.values) == sparse or kind(name) == "multinomial" for part in cells.parts)
        parameters, sums, exposure = fitted(name, cells, T, N)
        found[form] = family.describe(parameters, scale), value(family, cells, parameters, sums, exposure)
    told, other = found["dense"][0], found["csr"][0]
    assert list(told) == list(other)
    for key in told:
        assert other[key] == pytest.approx(told[key], rel=1e-9, abs=1e-12)
    assert found["csr"][1] == pytest.approx(found["dense"][1], rel=1e-11)


@every_family
def test_zeros_that_a_sparse_matrix_stores_change_nothing(name):
    family = FAMILIES[name]
    X, mask, cells, scale, T, N = problem(name, missing=True, sparse=True)
    X[mask] = 0
    full = csr_array(np.ones(SHAPE))
    full.data[:] = X.ravel()
    missing = csr_array(mask.astype(float))
    stored_scale = family.measure(full, missing)
    for stored, plain in zip(stored_scale or (), scale or (), strict=True):
        assert stored == pytest.approx(plain, rel=1e-12)
    stored = family.cells(full, missing, stored_scale)
    assert np.allclose(stored.over_columns(N), cells.over_columns(N), rtol=1e-12, atol=1e-12)
    parameters, _, _ = fitted(name, cells, T, N)
    assert family.constant(stored, parameters) == pytest.approx(family.constant(cells, parameters), rel=1e-12)


@every_family
@dense_and_sparse
def test_blocks_without_exposure_keep_their_parameters(name, sparse):
    family, rng = FAMILIES[name], np.random.default_rng(0)
    X = matrix(name, SHAPE)
    mask = np.zeros(SHAPE, bool)
    rows, columns = np.arange(SHAPE[0]) % K, np.arange(SHAPE[1]) % L
    mask[np.ix_(rows == 1, columns == 0)] = True  # block (1, 0) is left out
    cells, _ = as_cells(family, X, mask, sparse)
    T, N = np.eye(K)[rows], np.eye(L)[columns]
    sums, exposure = block_sums(cells, T, N)
    start = moved(name, family, family.start(cells, K, L), 0.5, rng)
    new = family.maximise(sums, exposure, cells, start)
    assert np.array_equal(new[0][1, 0], start[0][1, 0])
    if kind(name) == "gaussian" and family.variance == "block":
        assert new.variances[1, 0] == start.variances[1, 0]
    assert not np.isclose(new[0][0, 0], start[0][0, 0]).any()
    empty = np.zeros((SHAPE[0], K))
    empty[:, 0] = 1  # two row clusters have no rows
    new = family.maximise(*block_sums(cells, empty, N), cells, start)
    assert np.array_equal(new[0][1:], start[0][1:])


DEGENERATE = {
    "zero row and column": lambda X: X * np.outer(np.arange(len(X)) != 2, np.arange(X.shape[1]) != 3),
    "all zeros": np.zeros_like,
    "all ones": np.ones_like,
    "one cell": lambda X: np.eye(*X.shape, k=5) * np.outer(np.arange(len(X)) == 0, np.ones(X.shape[1])),
    "half a row": lambda X: np.outer(np.arange(len(X)) == 1, np.arange(X.shape[1]) < 5).astype(float),
}


@every_family
@dense_and_sparse
@with_and_without_missing
@pytest.mark.parametrize("data", DEGENERATE)
def test_degenerate_data_give_finite_numbers(name, sparse, missing, data):
    family = FAMILIES[name]
    X = DEGENERATE[data](matrix(name, SHAPE))
    cells, scale = as_cells(family, X, left_out(SHAPE) if missing else None, sparse)
    T, N = np.eye(K)[np.arange(SHAPE[0]) % K], np.eye(L)[np.arange(SHAPE[1]) % L]
    for steps in (0, 3):
        parameters, sums, exposure = fitted(name, cells, T, N, steps)
        eta, A = family.natural(parameters)
        assert eta.shape == (len(sums), K, L)
        assert A.shape == (K, L)
        assert np.isfinite(eta).all()
        assert np.isfinite(A).all()
        assert np.isfinite(value(family, cells, parameters, sums, exposure))
        assert all(np.isfinite(told).all() for told in family.describe(parameters, scale).values())
        for points in family.points(cells):
            assert np.isfinite(points.data if issparse(points) else points).all()


@every_family
@dense_and_sparse
@with_and_without_missing
@pytest.mark.parametrize("new", ["rows", "columns"])
def test_rows_of_the_fit_taken_as_new_ones_are_the_same_cells(name, sparse, missing, new):
    family = FAMILIES[name]
    X, mask, cells, scale, T, N = problem(name, missing, sparse)
    part = np.s_[5:12] if new == "rows" else np.s_[:, 5:12]
    again, _ = as_cells(family, X[part], None if mask is None else mask[part], sparse, scale, new)
    if new == "rows":
        expected, ours = cells.over_columns(N)[:, 5:12], again.over_columns(N)
    else:
        expected, ours = cells.over_rows(T)[:, 5:12], again.over_rows(T)
    # margins of both kinds with cells left out are solved to 1e-13, and the sums over cells lose a digit
    assert ours == pytest.approx(expected, rel=1e-10, abs=1e-12)


@every_family
@with_and_without_missing
def test_parameters_are_described_by_block(name, missing):
    family = FAMILIES[name]
    _, _, cells, scale, T, N = problem(name, missing)
    parameters, _, _ = fitted(name, cells, T, N)
    told = family.describe(parameters, scale)
    assert next(iter(told.values())).shape == (K, L)
    permuted, _, _ = fitted(name, cells, T[:, ::-1], N)
    for key, here in told.items():
        if np.ndim(here) >= 2:
            assert family.describe(permuted, scale)[key] == pytest.approx(here[::-1], rel=1e-6)


@every_family
def test_burn_in_is_the_same_family_with_fewer_parameters(name):
    family = FAMILIES[name]
    _, _, _, scale, _, _ = problem(name)
    assert type(family.pooled) is type(family)
    assert family.pooled.n_parameters(K, L, scale) <= family.n_parameters(K, L, scale)
    n_free = {"gaussian": {"common": 7, "column": 8, "block": 12}.get(name[9:]), "multinomial": 6 * 3}
    expected = n_free.get(kind(name)) or 6 + (getattr(family, "dispersion", None) == "common")
    assert family.n_parameters(K, L, scale) == expected


@every_family
@dense_and_sparse
@pytest.mark.parametrize("dtype", [np.float32, np.int64, bool])
def test_the_type_of_the_numbers_does_not_matter(name, sparse, dtype):
    family = FAMILIES[name]
    X = np.round(matrix(name, SHAPE))
    if dtype is bool:
        X = (X > 0).astype(float)
    one, scale = as_cells(family, X, None, sparse)
    other, other_scale = as_cells(family, X.astype(dtype), None, sparse)
    N = responsibilities(SHAPE[1], L)
    assert other.over_columns(N) == pytest.approx(one.over_columns(N), rel=1e-13, abs=1e-13)
    for a, b in zip(other_scale or (), scale or (), strict=True):
        assert a == pytest.approx(b, rel=1e-13)


@every_family
@dense_and_sparse
@with_and_without_missing
def test_points_are_zero_where_the_matrix_is_and_no_cell_left_out_sets_rows_apart(name, sparse, missing):
    family = FAMILIES[name]
    X, mask, cells, _, _, _ = problem(name, missing, sparse)
    for points in family.points(cells):
        assert points.shape == SHAPE
        Y = points.toarray() if issparse(points) else points
        if kind(name) not in ("gaussian", "multinomial"):
            assert issparse(points) == sparse
            seen = np.ones(SHAPE, bool) if mask is None else ~mask
            assert ((Y != 0) == (X != 0))[seen].all()
        centre = family.centre(cells)
        residuals = Y if centre is None else Y - np.outer(*centre)
        if missing:
            assert residuals[mask] == pytest.approx(0.0, abs=1e-12)
