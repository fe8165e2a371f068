"""What must not matter: order, sides, units, types, formats, threads; and what a seed fixes."""

import warnings

import numpy as np
import pytest
from block_matrices import FAMILIES, kind
from co_clusterings import blocks, fit
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from sinkhorn_em import LatentBlockModel, set_num_threads
from sinkhorn_em.block_families import NegativeBinomial, Poisson
from sinkhorn_em.coclustering.starts import METHODS, SMALL, draw_labels, places

every_family = pytest.mark.parametrize("name", FAMILIES)
both = pytest.mark.parametrize("tau", [0, 1], ids=["vem", "svem"])


@every_family
@both
def test_order_of_rows_and_columns_does_not_matter(name, tau):
    X, z, w = blocks(name, gap=0.7)
    rng = np.random.default_rng(1)
    p, q = rng.permutation(30), rng.permutation(20)
    one, other = (fit(name, Y, labels=labels, tau=tau) for Y, labels in ((X, (z, w)), (X[np.ix_(p, q)], (z[p], w[q]))))
    np.testing.assert_array_equal(other.row_labels_, one.row_labels_[p])
    np.testing.assert_array_equal(other.column_labels_, one.column_labels_[q])
    assert other.bound_ == pytest.approx(one.bound_, rel=1e-10)


@every_family
@both
def test_names_of_starting_labels_do_not_matter(name, tau):
    X, z, w = blocks(name, gap=0.7)
    a, b = np.array([2, 0, 1]), np.array([1, 0])
    one, other = (fit(name, X, labels=labels, tau=tau) for labels in ((z, w), (a[z], b[w])))
    np.testing.assert_array_equal(other.row_labels_, a[one.row_labels_])
    np.testing.assert_array_equal(other.column_labels_, b[one.column_labels_])
    assert other.bound_ == pytest.approx(one.bound_, rel=1e-10)


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "gaussian-column"])
@both
def test_the_transpose_swaps_rows_and_columns(name, tau):
    """Both reach the optimum near the truth, though rows are moved first in either."""
    X, z, w = blocks(name, gap=2.0)
    family = FAMILIES[name]
    flipped = {"row": "column", "column": "row"}.get(getattr(family, "margins", None))
    if flipped is not None:
        family = (Poisson if kind(name) == "poisson" else NegativeBinomial)(flipped)
    options = {"tau": tau, "tol": 1e-13, "max_iter": 500, "row_weights": "uniform", "column_weights": "uniform"}
    one = fit(name, X, 3, 2, labels=(z, w), **options)
    other = fit(family, np.ascontiguousarray(X.T), 2, 3, labels=(w, z), **options)
    assert other.bound_ == pytest.approx(one.bound_, rel=1e-9)
    np.testing.assert_array_equal(other.row_labels_, one.column_labels_)
    np.testing.assert_array_equal(other.column_labels_, one.row_labels_)


@pytest.mark.parametrize("name", ["gaussian-common", "gaussian-column", "gaussian-block"])
@pytest.mark.parametrize(("c", "d"), [(3.0, 1.0), (1e-6, 0.0), (1e8, -5e8), (1.0, 1e6)])
@pytest.mark.parametrize("init", ["k-means++", "spectral", "random"])
def test_units_of_gaussian_cells_do_not_matter(name, c, d, init):
    X, _, _ = blocks(name, gap=0.7)
    one, other = (fit(name, Y, init=init) for Y in (X, c * X + d))
    np.testing.assert_array_equal(other.row_labels_, one.row_labels_)
    np.testing.assert_array_equal(other.column_labels_, one.column_labels_)
    # an offset of 1e6 leaves ten digits of the deviations
    assert other.bound_ == pytest.approx(one.bound_ - X.size * np.log(c), rel=1e-8)
    means = c * one.block_parameters_["means"] + d
    np.testing.assert_allclose(other.block_parameters_["means"], means, rtol=1e-6, atol=1e-6 * c)


@every_family
@both
def test_float32_and_float64_agree(name, tau):
    X, z, w = blocks(name, gap=0.7)
    X = X.astype(np.float32)
    one, other = (fit(name, X.astype(dtype), labels=(z, w), tau=tau) for dtype in (np.float32, np.float64))
    np.testing.assert_array_equal(one.row_labels_, other.row_labels_)
    # the numbers are the same and work is in float64; the mean and unit of Gaussian cells are not rounded alike
    assert one.bound_ == pytest.approx(other.bound_, rel=1e-9)


@every_family
@pytest.mark.parametrize("dtype", [np.int64, bool])
def test_integers_are_numbers(name, dtype):
    X, z, w = blocks("bernoulli")
    one, other = (fit(name, Y, labels=(z, w), max_iter=5) for Y in (X, X.astype(dtype)))
    assert one.bound_ == pytest.approx(other.bound_, rel=1e-12)


@every_family
@both
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_rows_and_columns_of_zeros_are_allowed(name, tau, sparse):
    X, _, _ = blocks(name, gap=0.7)
    X = np.pad(X, ((0, 3), (2, 0)))
    for init in METHODS[tau::2]:
        model = fit(name, csr_array(X) if sparse else X, tau=tau, init=init, max_iter=10)
        for value in (model.bounds_, model.row_responsibilities_, model.column_responsibilities_, model.icl()):
            assert np.isfinite(value).all()
        assert all(np.isfinite(value).all() for value in model.block_parameters_.values())
        assert len(set(model.row_labels_[30:])) == 1
        assert len(set(model.column_labels_[:2])) == 1


def test_rows_and_columns_without_counts_are_nothing_beside_both_margins():
    X, z, w = blocks("poisson-both", gap=0.7)
    options = {"row_weights": "uniform", "column_weights": "uniform", "tau": 0}
    one = fit("poisson-both", X, labels=(z, w), **options)
    start = np.append(z, [0, 0, 0]), np.append(w, [0, 0])
    other = fit("poisson-both", np.pad(X, ((0, 3), (0, 2))), labels=start, **options)
    np.testing.assert_array_equal(other.row_labels_[:30], one.row_labels_)
    # without exposure they say nothing: responsibilities are the weights, which costs nothing
    assert other.bound_ == pytest.approx(one.bound_, rel=1e-10)
    np.testing.assert_allclose(other.row_responsibilities_[30:], 1 / 3, rtol=1e-12)


def result(init, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LatentBlockModel(5, 4, init=init, n_init=2, max_iter=2, random_state=0).fit(X)
    return model.bounds_, model.row_responsibilities_, model.column_responsibilities_, model.row_labels_


@pytest.mark.parametrize("init", METHODS)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_the_number_of_threads_does_not_change_a_bit(init, sparse):
    X = np.random.default_rng(0).normal(size=(1100, 40))  # k-means cuts its rows into blocks of 256
    X = csr_array(X * (X > 0.5)) if sparse else X
    results = []
    try:
        for threads in (1, 2, 4):
            set_num_threads(threads)
            results += [result(init, X)]
            with threadpool_limits(threads):
                results += [result(init, X)]
    finally:
        set_num_threads(None)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("family", ["poisson-both", "negative_binomial-both"])
def test_threads_do_not_change_a_bit_of_counts_too_many_to_decompose_as_a_whole(family):
    rng = np.random.default_rng(0)
    X = csr_array(rng.poisson(np.exp(rng.normal(size=(500, 1)) + 0.5 * rng.normal(size=250)) * 0.2).astype(float))
    assert X.shape[0] * X.shape[1] > SMALL
    results = []
    try:
        for threads in (1, 2, 4):
            set_num_threads(threads)
            with threadpool_limits(threads):
                results.append(fit(family, X, 4, 3, max_iter=3, tol=0))
    finally:
        set_num_threads(None)
    for other in results[1:]:
        np.testing.assert_array_equal(other.bounds_, results[0].bounds_)
        np.testing.assert_array_equal(other.row_responsibilities_, results[0].row_responsibilities_)


@pytest.mark.parametrize("init", METHODS)
def test_a_seed_fixes_everything_and_starts_differ(init):
    X = np.random.default_rng(0).normal(size=(60, 50))
    one, other = (fit("gaussian-common", X, init=init, random_state=7) for _ in range(2))
    np.testing.assert_array_equal(one.bounds_, other.bounds_)
    np.testing.assert_array_equal(one.column_labels_, other.column_labels_)
    problem = LatentBlockModel()._problem(X, None)
    at = places(problem.cells, problem.family, 4, init)
    drawn = draw_labels(at, (4, 4), init, 6, np.random.RandomState(0))
    partitions = {tuple(np.unique(z, return_inverse=True)[1]) + tuple(w) for z, w in drawn}
    assert len(partitions) == 6


def test_numpy_generators_seed_as_scikit_learns_do():
    X, _, _ = blocks("gaussian-common")
    one = fit("gaussian-common", X, random_state=np.random.RandomState(3))
    np.testing.assert_array_equal(one.bounds_, fit("gaussian-common", X, random_state=3).bounds_)


@pytest.mark.parametrize("name", ["gaussian-block", "poisson-both", "negative_binomial-None", "multinomial"])
@both
def test_the_best_start_is_at_least_as_good_as_each(name, tau):
    X, _, _ = blocks(name, gap=0.4)
    options = {"tau": tau, "init": "random"}
    many = fit(name, X, n_init=5, **options)
    rng = np.random.RandomState(0)
    problem = LatentBlockModel(3, 2, family=FAMILIES[name])._problem(X, None)
    starts = draw_labels(places(problem.cells, problem.family, 3, "random"), (3, 2), "random", 5, rng)
    each = [fit(name, X, labels=labels, **options) for labels in starts]
    # the same starts one at a time: starts side by side do not see each other
    best = max(each, key=lambda model: model.bound_)
    assert many.bound_ == pytest.approx(best.bound_, rel=1e-12)
    assert many.n_passes_ == sum(model.n_passes_ for model in each)
