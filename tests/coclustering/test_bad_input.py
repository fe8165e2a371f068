"""What is wrong is said: parameter, value, rule, remedy. What is merely degenerate has a documented result. Never NaN."""

import warnings

import numpy as np
import pytest
from block_matrices import FAMILIES, kind
from co_clusterings import blocks, fit, left_out
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning

from sinkhorn_em import LatentBlockModel
from sinkhorn_em.block_families import Gaussian, Poisson
from sinkhorn_em.coclustering.starts import METHODS

every_family = pytest.mark.parametrize("name", FAMILIES)
X, Z, W = blocks("poisson-None", (12, 10), gap=1.0)

OPTIONS = [
    ({"n_row_clusters": 13}, "n_row_clusters is 13 but X has 12 rows"),
    ({"n_column_clusters": 11}, "n_column_clusters is 11 but X has 10 columns"),
    ({"n_row_clusters": 0}, "n_row_clusters is 0; it must be an integer of at least 1"),
    ({"n_column_clusters": 2.0}, "n_column_clusters is 2.0; it must be an integer"),
    ({"n_row_clusters": None}, "n_row_clusters is None"),
    ({"n_init": 0}, "n_init is 0"),
    ({"max_iter": -1}, "max_iter is -1"),
    ({"verbose": -1}, "verbose is -1"),
    ({"verbose": "yes"}, "verbose is 'yes'"),
    ({"tol": -1.0}, "tol is -1.0; it must be a number >= 0"),
    ({"tol": np.nan}, "tol is nan"),
    ({"tol": "small"}, "tol is 'small'"),
    ({"family": "normal"}, r"family is 'normal'; it must be one of \['bernoulli', 'gaussian'"),
    ({"family": None}, "family is None"),
    ({"family": Gaussian}, r"family is the class Gaussian; it must be an object: Gaussian\(\)"),
    ({"family": Gaussian("blocks")}, "variance of Gaussian is 'blocks'"),
    ({"family": Poisson("rows")}, "margins of Poisson is 'rows'"),
    ({"init": "kmeans"}, "init is 'kmeans'; it must be one of"),
    ({"init": None}, "init is None"),
    ({"tau": 1.5}, r"tau is 1.5; it must be a number in \[0, 1\]"),
    ({"tau": (1, -0.1)}, r"tau is \(1, -0.1\)"),
    ({"tau": (1, 0, 1)}, r"tau is \(1, 0, 1\)"),
    ({"tau": "one"}, "tau is 'one'; it must be a number"),
    ({"tau": np.nan}, "tau is nan"),
    ({"tau": None}, "tau is None"),
    ({"row_weights": "equal"}, "row_weights is 'equal'; it must be 'learned', 'uniform' or 3 weights"),
    ({"row_weights": None}, "row_weights is None"),
    ({"row_weights": [0.5, 0.5]}, r"row_weights has shape \(2,\); it must be \(3,\)"),
    (
        {"column_weights": [0.5, 0.6]},
        r"column_weights is \[0.5, 0.6\], with sum 1.1; weights must be >= 0 and sum to 1",
    ),
    ({"column_weights": [-0.5, 1.5]}, "weights must be >= 0 and sum to 1"),
    ({"column_weights": [np.nan, 1.0]}, "weights must be >= 0 and sum to 1"),
    ({"column_weights": ["a", "b"]}, "column_weights is .*; it must be a number"),
    ({"temperatures": 0.5}, "temperatures is 0.5; it must be None or falling numbers above 1"),
    ({"temperatures": (2, 4)}, r"temperatures is \(2, 4\)"),
    ({"temperatures": [[2.0]]}, "temperatures is"),
    ({"temperatures": (np.inf, 2)}, "temperatures is"),
    ({"temperatures": "hot"}, "temperatures is 'hot'"),
    ({"random_state": "seed"}, "seed"),
]


@pytest.mark.parametrize(("options", "message"), OPTIONS, ids=[str(options) for options, _ in OPTIONS])
def test_options_that_break_a_rule_are_named(options, message):
    model = LatentBlockModel(**{"n_row_clusters": 3, "n_column_clusters": 2} | options)
    with pytest.raises(ValueError, match=message):
        model.fit(X)


DATA = [
    (lambda X: X[0], {}, "2D array"),
    (lambda X: X[:0], {}, "0 sample"),
    (lambda X: X[:, :0], {}, "0 feature"),
    (lambda X: X[None], {}, "dim 3"),
    (lambda X: 3.0, {}, "2D array"),
    (lambda X: np.full((5, 5), "a"), {}, "could not convert"),
    (lambda X: X + 1j, {}, "Complex data"),
    (lambda X: np.where(X > 3, np.inf, X), {}, "infinity"),
    (lambda X: csr_array(np.where(X > 3, np.inf, X)), {}, "infinity"),
    (lambda X: np.where(X > 3, -np.inf, X), {"mask": np.zeros(X.shape, bool)}, "infinite values"),
    (lambda X: X * 1e150, {}, "beyond 1e\\+140"),
    (lambda X: np.where(X == 0, np.nan, X * 1e150), {}, "beyond 1e\\+140"),
    (lambda X: X, {"mask": np.zeros((10, 12), bool)}, r"mask has shape \(10, 12\); it must be \(12, 10\)"),
    (lambda X: X, {"mask": np.zeros(X.shape, int)}, "mask has dtype int64; it must be boolean"),
    (lambda X: X, {"mask": csr_array(X)}, "mask has dtype float64; it must be boolean"),
    (lambda X: X, {"mask": "none"}, "mask has shape"),
    (lambda X: np.ma.masked_array(X, X > 3), {"mask": np.zeros(10, bool)}, "mask has shape"),
    (lambda X: np.ma.masked_array(X, X > 3), {"mask": np.zeros(X.shape)}, "mask has dtype"),
    (lambda X: X, {"row_labels": Z + 1}, "row_labels lie between 1 and 3; they must be integers from 0 to 2"),
    (lambda X: X, {"row_labels": Z - 1}, "row_labels lie between -1 and 1"),
    (lambda X: X, {"column_labels": W[:-1]}, r"column_labels has shape \(9,\)"),
    (lambda X: X, {"column_labels": W.astype(float)}, "dtype float64; it must be"),
    (lambda X: X, {"row_labels": np.array(["a"] * 12)}, "row_labels has shape"),
]


@pytest.mark.parametrize("case", range(len(DATA)))
@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_data_that_break_a_rule_are_named(case, family):
    change, given, message = DATA[case]
    with pytest.raises(ValueError, match=message):
        LatentBlockModel(3, 2, family=family).fit(change(X), **given)


@pytest.mark.parametrize("form", [np.asarray, csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize(
    ("family", "value", "message"),
    [
        ("poisson", -1, r"X\[4, 7\] is -1; Poisson blocks take counts 0, 1, 2"),
        ("negative_binomial", -2, r"X\[4, 7\] is -2; NegativeBinomial blocks take counts"),
        ("bernoulli", 2, r"X\[4, 7\] is 2; Bernoulli blocks take zeros and ones"),
        ("bernoulli", 0.5, r"X\[4, 7\] is 0.5; Bernoulli blocks take zeros and ones"),
        ("bernoulli", -1, r"X\[4, 7\] is -1"),
    ],
)
def test_values_outside_the_family_are_named_by_cell(form, family, value, message):
    Y = (X > 3).astype(float)
    Y[4, 7] = value
    with pytest.raises(ValueError, match=message):
        LatentBlockModel(3, 2, family=family).fit(form(Y))
    hidden = np.zeros(X.shape, bool)
    hidden[4, 7] = True  # left out, it is nobody's business
    model = fit(f"{family}-None" if family != "bernoulli" else family, form(Y), mask=hidden)
    assert np.isfinite(model.bound_)


def test_values_without_end_are_no_categories():
    Y = np.random.default_rng(0).normal(size=(12, 10))
    with pytest.raises(ValueError, match="120 distinct values"):
        LatentBlockModel(3, 2, family="multinomial").fit(Y)
    model = LatentBlockModel(2, 2, family="multinomial").fit(X > 3, row_labels=Z % 2, column_labels=W)
    with pytest.raises(ValueError, match="categories of the fit only"):
        model.predict_rows(X + 7)


@pytest.mark.parametrize("family", ["poisson", "negative_binomial"])
def test_counts_that_are_not_whole_are_fitted_with_one_warning(family):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = LatentBlockModel(3, 2, family=family).fit(X + 0.5, row_labels=Z, column_labels=W)
        model.predict_rows(X + 0.5)
    broken = [w for w in told if "not a whole number" in str(w.message)]
    assert len(broken) == 1
    assert issubclass(broken[0].category, UserWarning)
    assert np.isfinite(model.bound_)


@every_family
@pytest.mark.parametrize("value", [0, 1], ids=["zeros", "ones"])
@pytest.mark.parametrize("form", [np.asarray, csr_array], ids=["dense", "csr"])
def test_constant_matrices_are_fitted(name, value, form):
    Y = np.full((8, 7), float(value))
    for i, init in enumerate(METHODS):
        model = fit(name, form(Y), init=init, tau=i % 2, mask=left_out(Y.shape) if i > 1 else None, max_iter=5)
        assert np.isfinite(model.bounds_).all()
        assert np.isfinite(model.icl())
        assert np.isfinite(model.row_responsibilities_).all()
        assert all(np.isfinite(told).all() for told in model.block_parameters_.values())
        if kind(name) == "gaussian":
            np.testing.assert_allclose(model.block_parameters_["means"], value, atol=1e-9)


@pytest.mark.parametrize("value", [1e6 + 0.1, -3e-7, 1e100])
def test_a_constant_gaussian_matrix_says_that_it_is_constant(value):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = LatentBlockModel(2, 2, random_state=0).fit(
            np.full((6, 5), value), row_labels=[0, 1] * 3, column_labels=[0, 1, 0, 1, 0]
        )
    assert sum("held at its floor" in str(w.message) for w in told) == 1
    assert all(issubclass(w.category, ConvergenceWarning) and "fell" not in str(w.message) for w in told)
    np.testing.assert_allclose(model.block_parameters_["means"], value, rtol=1e-12)


def test_a_long_list_of_constant_blocks_is_cut():
    X = np.repeat(np.arange(8.0), 5)[:, None] * np.ones((1, 6))
    with pytest.warns(
        ConvergenceWarning, match=r"blocks \[\[0, 0\], (\[\d, 0\],? ?){4}\] and 3 more is held at its floor"
    ):
        LatentBlockModel(8, 1, random_state=0).fit(X, row_labels=np.repeat(np.arange(8), 5), column_labels=[0] * 6)


def test_a_start_that_tells_nothing_apart_is_named():
    X = np.kron(np.random.default_rng(0).normal(size=(20, 10)), np.ones((2, 2)))
    labels = {"row_labels": [0, 1] * 20, "column_labels": [0, 1] * 10}  # equal rows, and columns, in different clusters
    with warnings.catch_warnings(record=True) as told:  # the clusters that lose every tie are empty, too
        warnings.simplefilter("always")
        LatentBlockModel(2, 2).fit(X, **labels)
    assert any(str(w.message).startswith("all blocks are alike: X has no block structure") for w in told)


@every_family
@pytest.mark.parametrize("tau", [0, 0.5, 1])
def test_a_weight_of_zero_is_a_cluster_that_is_not_there(name, tau):
    Y, z, w = blocks(name, gap=1.0)
    model = fit(name, Y, 4, 2, labels=(z, w), tau=tau, row_weights=[0.3, 0.4, 0.3, 0.0])
    assert (model.row_responsibilities_[:, 3] == 0).all()
    assert 3 not in model.row_labels_
    np.testing.assert_array_equal(model.row_weights_, [0.3, 0.4, 0.3, 0.0])
    assert np.isfinite(model.bounds_).all()
    assert np.isfinite(model.icl())
    assert 3 not in model.predict_rows(Y)
    three = fit(name, Y, 3, 2, labels=(z, w), tau=tau, row_weights=[0.3, 0.4, 0.3])
    assert model.bound_ == pytest.approx(three.bound_, rel=1e-8)


def test_empty_clusters_are_reported_once_unless_their_weight_is_zero():
    Y = np.random.default_rng(0).normal(size=(12, 10))
    z, w = np.zeros(12, int), np.arange(10) % 2
    with pytest.warns(ConvergenceWarning, match=r"row clusters \[2\] are empty: lower n_row_clusters") as told:
        LatentBlockModel(3, 2, tau=0, family=Gaussian("common")).fit(Y, row_labels=z, column_labels=w)
    assert sum("empty" in str(w.message) for w in told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LatentBlockModel(3, 2, tau=0, row_weights=[1, 0, 0], family=Gaussian("common"), tol=1e-4).fit(
            Y, row_labels=z, column_labels=w
        )


def test_no_convergence_is_said_once_with_what_to_do():
    with pytest.warns(
        ConvergenceWarning, match=r"no convergence in max_iter = 1 sweeps .*: raise max_iter or tol"
    ) as told:
        model = LatentBlockModel(3, 2, family="poisson", max_iter=1, n_init=3, random_state=0).fit(X)
    assert sum("no convergence" in str(w.message) for w in told) == 1
    assert not model.converged_


def test_columns_of_zeros_in_gaussian_blocks_are_constant_cells_and_no_bug():
    """Their variance is held at its floor, where scores are differences of numbers 1e10 times larger."""
    for seed in range(4):
        Y, _, _ = blocks("gaussian-block", (40, 30), seed=seed, gap=0.3)
        Y[:, :6] = 0
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            model = LatentBlockModel(3, 3, random_state=0).fit(Y)
        said = [str(w.message) for w in told]
        assert any("cells are constant" in message for message in said)
        assert not any("fell" in message for message in said)
        assert np.isfinite(model.bounds_).all()
