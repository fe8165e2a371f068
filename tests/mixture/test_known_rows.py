"""What is known of single rows: labels of some, components that others cannot belong to."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from sinkhorn_em import GaussianMixture, LocationScaleMixture, solve_plan
from sinkhorn_em.families import StudentT
from sinkhorn_em.ot import InfeasibleMarginalsError

IRIS, SPECIES = load_iris(return_X_y=True)
UNEQUAL = np.r_[0:50, 50:90, 100:130]  # 50, 40 and 30 of the species
SHARES = np.array([50, 40, 30]) / 120
X, Y = IRIS[UNEQUAL], SPECIES[UNEQUAL]
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
FEW = np.where(np.arange(len(Y)) % 4 == 0, Y, -1)


def fit(X=X, K=3, labels=None, forbidden=None, sample_weight=None, **options):
    model = GaussianMixture(K, **{"random_state": 0, "tol": 1e-10, **options})
    return model.fit(X, labels=labels, forbidden=forbidden, sample_weight=sample_weight)


def joint(model, X):
    """log w_k f_k(x)."""
    with np.errstate(divide="ignore"):
        return np.log(model.predict_proba(X)) + model.score_samples(X)[:, None]


def restricted_score(model, X, allowed):
    """Mean of log sum over allowed k of w_k f_k(x)."""
    return float(np.log((np.exp(joint(model, X)) * allowed).sum(axis=1)).mean())


def allowed_by(labels, K=3):
    labels = np.asarray(labels)
    return (labels[:, None] == np.arange(K)) | (labels < 0)[:, None]


@pytest.mark.parametrize("tau", [0, 0.5, 1])
@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1]])
def test_rows_that_are_all_known_give_the_moments_of_their_groups(tau, order):
    labels = np.array(order)[Y]
    model = fit(labels=labels, tau=tau)
    for k in range(3):
        group = X[labels == k]
        assert model.weights_[k] == pytest.approx(len(group) / len(X), rel=1e-12)
        np.testing.assert_allclose(model.means_[k], group.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(model.covariances_[k], np.cov(group.T, bias=True), rtol=1e-8, atol=1e-12)


def test_rows_that_are_all_known_give_the_pooled_covariance_of_their_groups():
    model = fit(labels=Y, covariance_type="tied")
    pooled = sum(SHARES[k] * np.cov(X[k == Y].T, bias=True) for k in range(3))
    np.testing.assert_allclose(model.covariances_, pooled, rtol=1e-8)


def test_known_rows_may_be_weighted():
    weight = np.random.default_rng(0).integers(0, 4, size=len(X)).astype(float)
    model = fit(labels=Y, sample_weight=weight)
    for k in range(3):
        w = weight * (k == Y)
        assert model.weights_[k] == pytest.approx(w.sum() / weight.sum(), rel=1e-12)
        np.testing.assert_allclose(model.means_[k], w @ X / w.sum(), rtol=1e-12)


@pytest.mark.parametrize(
    "labels", [np.full(len(X), -1), np.full(len(X), -1.0), [-1] * len(X), None], ids=["int", "float", "list", "None"]
)
def test_labels_that_are_all_unknown_change_nothing(labels):
    model, plain = fit(labels=labels), fit()
    np.testing.assert_allclose(model.means_, plain.means_, rtol=1e-9)
    assert model.lower_bound_ == pytest.approx(plain.lower_bound_, abs=1e-12)


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64, np.float32, np.float64, list])
def test_labels_may_be_whole_numbers_of_any_type(kind):
    model, same = fit(labels=FEW), fit(labels=FEW.tolist() if kind is list else FEW.astype(kind))
    np.testing.assert_array_equal(model.means_, same.means_)


@pytest.mark.parametrize("tau", [0, 1])
@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "VEE"])
def test_the_objective_is_the_likelihood_of_what_is_known(tau, covariance_type):
    model = fit(labels=FEW, tau=tau, covariance_type=covariance_type)
    assert model.lower_bound_ == pytest.approx(restricted_score(model, X, allowed_by(FEW)), abs=1e-10)


def test_the_fit_is_stationary_in_the_likelihood_of_what_is_known():
    """Weights and means are those of the posteriors, which are 0 and 1 for the rows that are known."""
    model = fit(labels=FEW, tol=1e-13, max_iter=5000)
    R = model.predict_proba(X) * allowed_by(FEW)
    R /= R.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(R.mean(axis=0), model.weights_, atol=1e-6)
    np.testing.assert_allclose((R.T @ X) / R.sum(axis=0)[:, None], model.means_, atol=1e-5)


def test_labels_tell_the_components_their_numbers():
    for order in ([0, 1, 2], [1, 2, 0], [2, 1, 0]):
        labels = np.where(FEW >= 0, np.array(order)[np.maximum(FEW, 0)], -1)
        for seed in range(3):
            predicted = fit(labels=labels, random_state=seed, covariance_type="tied").predict(X)
            assert (predicted == np.array(order)[Y]).mean() > 0.9


def test_a_few_labels_solve_a_problem_that_is_hard_without():
    """Two clusters on each other's axis, one inside the other: starts without labels rarely find them."""
    rng = np.random.default_rng(3)
    n = 200
    inner, outer = rng.normal(size=(n, 2)) * [0.3, 4.0], rng.normal(size=(n, 2)) * [4.0, 0.3]
    third = rng.normal(size=(n, 2)) * 0.4 + [1.0, 1.0]
    rows, truth = np.concatenate([inner, outer, third]), np.repeat([0, 1, 2], n)
    labels = np.where(np.arange(3 * n) % 10 == 0, truth, -1)
    right = {}
    for name, known in (("with", labels), ("without", None)):
        models = [fit(rows, labels=known, random_state=seed, init_params="random_from_data") for seed in range(4)]
        right[name] = [restricted_score(model, rows, allowed_by(labels)) for model in models]
    assert min(right["with"]) >= max(right["without"]) - 1e-6
    assert np.ptp(right["with"]) < 0.01


@pytest.mark.parametrize("tau", [0, 0.5, 1])
@pytest.mark.parametrize("weights", ["learned", "uniform", [0.4, 0.3, 0.3]])
def test_the_bound_never_falls_with_labels(tau, weights):
    model = fit(labels=FEW, tau=tau, weights=weights)
    assert (np.diff(model.lower_bounds_) >= -1e-10).all()  # E-steps of an L1 error of 1e-9


def test_a_component_without_a_label_is_found_among_the_rest():
    labels = np.where(FEW == 2, -1, FEW)
    model = fit(labels=labels, covariance_type="tied")
    assert (model.predict(X) == Y).mean() > 0.9


def test_the_plan_gives_nothing_to_forbidden_pairs_and_its_columns_are_the_weights():
    """lower_bound_ of held weights is the value of the plan whose forbidden scores are -inf."""
    weights = np.array([0.4, 0.3, 0.3])
    model = fit(labels=FEW, weights=weights, tau=1)
    S = joint(model, X) - np.log(weights)
    S[~allowed_by(FEW)] = -np.inf
    plan = solve_plan(S, None, weights)
    assert plan.matrix[~allowed_by(FEW)].max() == 0
    np.testing.assert_allclose(plan.column_mass, weights, atol=1e-9)
    assert -model.transport_loss_ == pytest.approx(model.lower_bound_, abs=1e-12)
    np.testing.assert_allclose(np.ptp(plan.potentials - model.potentials_), 0, atol=1e-5)
    P = plan.matrix / plan.column_mass
    np.testing.assert_allclose(P.T @ X, model.means_, atol=1e-3)  # tol 1e-10 in the bound: 1e-5 in the parameters


def test_labels_are_masks_of_all_but_one_component():
    by_label = fit(labels=FEW, tau=0)
    by_mask = fit(forbidden=~allowed_by(FEW), tau=0)
    np.testing.assert_allclose(by_mask.means_, by_label.means_, rtol=1e-12)
    both = fit(labels=np.where(np.arange(len(X)) % 16, -1, FEW), forbidden=~allowed_by(FEW), tau=0)
    np.testing.assert_allclose(both.means_, by_label.means_, rtol=1e-12)


@pytest.mark.parametrize("tau", [0, 0.5, 1])
def test_rows_that_may_not_be_in_a_component_are_not(tau):
    mask = np.zeros((len(X), 3), bool)
    mask[Y == 0, 1] = mask[Y == 1, 0] = True
    model = fit(forbidden=mask, tau=tau)
    assert model.lower_bound_ == pytest.approx(restricted_score(model, X, ~mask), abs=1e-9)


def test_a_mask_of_nothing_changes_nothing():
    model, plain = fit(forbidden=np.zeros((len(X), 3), bool)), fit()
    assert model.lower_bound_ == pytest.approx(plain.lower_bound_, abs=1e-12)


def test_prescribed_weights_that_contradict_the_labels_raise_and_name_the_columns():
    with pytest.raises(
        InfeasibleMarginalsError, match=r"labels or forbidden contradict the weights: columns \["
    ) as error:
        fit(labels=Y, weights="uniform", tau=1)
    assert error.value.columns
    with pytest.raises(InfeasibleMarginalsError, match="change weights, size_bounds, or lower tau"):
        fit(labels=Y, size_bounds=(0.3, 0.36))
    labels = np.where(Y == 0, 0, -1)  # 50 of 120 rows need a weight of at least 0.417
    with pytest.raises(InfeasibleMarginalsError):
        fit(labels=labels, weights="uniform", tau=1)
    fit(labels=labels, weights=[0.42, 0.29, 0.29], tau=1)


@pytest.mark.parametrize("tau", [0, 0.5, [0.0, 1.0, 0.0]])
def test_weights_that_are_not_held_hard_may_contradict_the_labels(tau):
    model = fit(labels=Y, weights="uniform", tau=tau)
    np.testing.assert_array_equal(model.weights_, 1 / 3)
    if tau != [0.0, 1.0, 0.0]:
        for k in range(3):
            np.testing.assert_allclose(model.means_[k], X[k == Y].mean(axis=0), rtol=1e-10)


def test_learned_weights_leave_the_burn_in_out_where_labels_contradict_it():
    """The first bound is then EM's own, that of the free weights."""
    labels = np.where(Y == 0, 0, -1)
    model, em = fit(labels=labels, tau=1), fit(labels=labels, tau=0)
    np.testing.assert_allclose(model.lower_bounds_, em.lower_bounds_, atol=1e-12)


def test_weights_of_exactly_the_labels_are_feasible():
    model = fit(labels=Y, weights=SHARES, tau=1)
    np.testing.assert_allclose(model.means_, [X[k == Y].mean(axis=0) for k in range(3)], rtol=1e-8)


def test_a_label_of_a_component_of_weight_0_raises():
    labels = np.where(np.arange(len(X)) == 3, 2, -1)
    for tau in (0, 1):
        with pytest.raises(InfeasibleMarginalsError):
            fit(labels=labels, weights=[0.5, 0.5, 0.0], tau=tau)


def test_rows_of_weight_0_may_be_labelled_but_do_not_count():
    weight = np.where(Y == 0, 0.0, 1.0)
    labels = np.where(Y == 0, 0, -1)  # a component all whose labelled rows weigh nothing
    weighted = fit(K=2, labels=labels, sample_weight=weight, tau=0)
    without = fit(X[Y > 0], K=2, tau=0)
    assert weighted.score(X[Y > 0]) == pytest.approx(without.score(X[Y > 0]), abs=0.05)
    labels = np.where(Y == 0, 0, Y - 1)
    weighted = fit(K=2, labels=labels, sample_weight=weight)
    np.testing.assert_allclose(weighted.means_, [X[k == Y].mean(axis=0) for k in (1, 2)], rtol=1e-10)


def test_equal_rows_may_have_different_labels():
    rows = np.repeat([[0.0], [1.0], [10.0], [11.0]], [20, 20, 20, 20], axis=0)
    labels = np.full(80, -1)
    labels[[0, 1, 20]], labels[[2, 40, 60]] = 0, 1  # one row at 0 is said to be in the other component
    model = fit(rows, K=2, labels=labels, tau=0)
    assert model.weights_[0] == pytest.approx(39 / 80, abs=1e-6)
    # the known row at 0 cannot leave component 1
    assert model.means_[1, 0] == pytest.approx((20 * 10 + 20 * 11) / 41, abs=1e-4)


def test_equal_rows_that_are_all_known_by_different_labels_give_the_groups_moments():
    rows = np.tile([[0.0, 1.0], [2.0, 0.0], [1.0, 5.0], [4.0, 3.0]], (10, 1))
    labels = np.random.default_rng(0).integers(0, 2, size=40)
    model = fit(rows, K=2, labels=labels)
    for k in range(2):
        np.testing.assert_allclose(model.means_[k], rows[labels == k].mean(axis=0), rtol=1e-10)


@pytest.mark.parametrize("noise", [0.1, "estimate"])
@pytest.mark.parametrize("tau", [0, 1])
def test_a_labelled_row_is_no_noise(noise, tau):
    far = np.concatenate([X, [[20.0, 20.0, 20.0, 20.0], [0.0, 0.0, 20.0, 0.0]]])
    labels = np.append(FEW, [-1, -1])
    free = fit(far, labels=labels, noise=noise, tau=tau, covariance_type="tied")
    assert (free.predict(far)[-2:] == -1).all()
    held = fit(far, labels=np.append(FEW, [2, -1]), noise=noise, tau=tau, covariance_type="tied")
    assert held.means_[2].max() > free.means_[2].max() + 0.1  # pulled towards the far row
    assert held.means_.shape == (3, 4) and held.predict_proba(far).shape == (122, 4)


def test_a_mask_may_forbid_noise():
    far = np.concatenate([X, [[20.0, 20.0, 20.0, 20.0]]])
    mask = np.zeros((121, 4), bool)
    mask[-1, 3] = True
    options = {"noise": 0.1, "covariance_type": "tied"}
    held, free = fit(far, forbidden=mask, **options), fit(far, forbidden=mask[:, :3], **options)
    assert held.means_.max() > free.means_.max() + 0.1


@pytest.mark.parametrize("label", [-1, 2])
def test_rows_far_away_are_trimmed_whatever_their_label(label):
    far = np.concatenate([X, np.full((6, 4), 30.0)])
    options = {"weights": [0.4, 0.3, 0.3], "trim": 6 / 126, "covariance_type": "tied"}
    model = fit(far, labels=np.append(FEW, [label] * 6), **options)
    assert model.means_.max() < 8
    assert (model.predict(X) == Y).mean() > 0.85
    assert (np.diff(model.lower_bounds_) >= -1e-10).all()


@quiet
@pytest.mark.parametrize("family", [StudentT(df=4.0), "laplace", "gumbel", "logistic"])
@pytest.mark.parametrize("tau", [0, 1])
def test_all_known_rows_of_any_family_are_the_fits_of_their_groups(family, tau):
    options = {"family": family, "tau": tau, "tol": 1e-12, "max_iter": 5000, "random_state": 0}
    model = LocationScaleMixture(3, **options).fit(X, labels=Y)
    np.testing.assert_allclose(model.weights_, SHARES, rtol=1e-12)
    alone = [LocationScaleMixture(1, **options).fit(X[k == Y]).lower_bound_ for k in range(3)]
    # the mean log-likelihood of the groups, and that of their labels
    assert model.lower_bound_ == pytest.approx(SHARES @ (alone + np.log(SHARES)), abs=1e-8)


@pytest.mark.parametrize(
    "labels,message",
    [
        (np.full(119, -1), r"labels has shape \(119,\); it must be \(120,\)"),
        (np.full((120, 1), -1), r"labels has shape \(120, 1\)"),
        (np.full(120, 3), r"labels\[0\] is 3; it must be a component from 0 to 2"),
        (np.where(np.arange(120) == 7, 5, -1), r"labels\[7\] is 5"),
        (np.where(np.arange(120) == 7, -2, -1), r"labels\[7\] is -2"),
        (np.full(120, 0.5), "labels has type float64; it must hold whole numbers"),
        (np.full(120, np.nan), "labels has type float64; it must hold whole numbers"),
        (np.full(120, True), "labels has type bool"),
        (["setosa"] * 120, "labels has type <U6"),
    ],
)
def test_labels_that_do_not_fit_raise(labels, message):
    with pytest.raises(ValueError, match=message):
        fit(labels=labels)


@pytest.mark.parametrize(
    "mask,message",
    [
        (np.zeros((120, 2), bool), r"forbidden has shape \(120, 2\)"),
        (np.zeros((119, 3), bool), r"forbidden has shape \(119, 3\)"),
        (np.zeros((120, 4), bool), r"forbidden has shape \(120, 4\)"),
        (np.zeros((120, 3)), "type float64; it must be a boolean mask"),
        (np.ones((120, 3), bool), r"forbidden leaves no component for row 0 \(and 119 more\)"),
    ],
)
def test_masks_that_do_not_fit_raise(mask, message):
    with pytest.raises(ValueError, match=message):
        fit(forbidden=mask)


def test_a_label_that_is_forbidden_raises_and_names_the_row():
    mask = np.zeros((120, 3), bool)
    mask[4, 1] = True
    labels = np.where(np.arange(120) == 4, 1, -1)
    with pytest.raises(ValueError, match="labels says that row 4 belongs to component 1, and forbidden says"):
        fit(labels=labels, forbidden=mask)
