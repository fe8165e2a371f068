"""The data sets of the experiment `weights`, the ways to treat unknown weights, and what is measured."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.cluster import kmeans_plusplus
from sklearn.metrics import adjusted_rand_score, pairwise_distances_argmin

from .._typing import Floats, Integers
from ..datasets import simulate_gaussian_mixture
from ..em import Phase, State, run_phase
from ..engines import InMemory
from ..families import STRUCTURES, Elliptical, Gaussian, Regularisation
from ..families.constraints import Constraints
from ..locations import fit_locations
from ..metrics import mixing_distance, recovered
from ..mixture import GaussianMixture
from ..ot import rule_for_tau
from ..weight_steps import MASSES, ExponentiatedGradient, WeightStep

K, D = 5, 2
ROWS = 60 * K
SIDE = 5.4 * K ** (1 / D)  # of the square of the centres: the mean oracle ARI is about .75
RADIUS = 1.0  # standard deviations: a centre is found
CONCENTRATION = {"near-equal": 20.0, "very unequal": 3.0}  # of the Dirichlet law of the weights
KINDS = ("equal", *CONCENTRATION)
MAX_ITER, TOL = 300, 1e-7
RATES = (0.02, 0.1, 0.5)  # eta of the plain one
TAUS = (0.5, 0.9)
EVEN = np.full(K, 1 / K)


class Problem(NamedTuple):
    """A data set, its truth, and one start."""

    X: Floats  # (n, d)
    labels: Integers
    centres: Floats  # (K, d)
    weights: Floats  # (K,)
    start: Floats  # (K, d)

    @property
    def known(self) -> Floats:
        """The true weights, the largest for the starting centre with most rows nearest to it."""
        sizes = np.bincount(pairwise_distances_argmin(self.X, self.start), minlength=K)
        weights = np.empty(K)
        weights[np.argsort(sizes, kind="stable")] = np.sort(self.weights)
        return weights


class MixtureFit(NamedTuple):
    """Where a method ended, and what it took from the start on."""

    means: Floats
    weights: Floats
    n_iter: int = 0
    n_passes: int = 0


def draw_problem(kind: str, rng: np.random.Generator) -> Problem:
    """Centres uniform in a square, multinomial counts, variance 1, one k-means++ start."""
    centres = rng.uniform(-SIDE / 2, SIDE / 2, (K, D))
    weights = EVEN if kind == "equal" else rng.dirichlet(np.full(K, CONCENTRATION[kind]))
    X, labels = simulate_gaussian_mixture(ROWS, weights, centres, np.eye(D), random_state=rng)
    return Problem(X, labels, centres, weights, kmeans_plusplus(X, K, random_state=int(rng.integers(2**31)))[0])


def fit_all(problem: Problem, methods: str, gradient_iter: int) -> dict[str, MixtureFit]:
    """The ``methods`` from the same start: "compiled", those that take milliseconds; "plain", the last of RATES as well; "all"."""
    X, start = problem.X, MixtureFit(problem.start, EVEN)
    known = start._replace(weights=problem.known)
    fits = {
        "EM, true weights": compiled(X, known, tau=0.0),
        "EM, learned": _polished(X, start),
        "SEM, true weights": compiled(X, known, tau=1.0),
        "SEM, uniform weights": compiled(X, start, tau=1.0),
    }
    fits["SEM, then EM"] = _polished(X, fits["SEM, uniform weights"])
    if methods == "all":
        for tau in TAUS:
            fits[f"tau {tau}, uniform"] = loop(X, start, tau, learn=False)
            fits[f"tau {tau}, then EM"] = _polished(X, fits[f"tau {tau}, uniform"])
        step = ExponentiatedGradient()
        fits["SEM, then EG"] = loop(X, fits["SEM, uniform weights"], 1.0, step=step, max_iter=gradient_iter)
        fits["SEM, then EG, then EM"] = _polished(X, fits["SEM, then EG"])
        fits["EG, backtracking"] = loop(X, start, 1.0, step=step, max_iter=gradient_iter)
    for eta in {"compiled": (), "plain": RATES[-1:], "all": RATES}[methods]:
        step = ExponentiatedGradient(eta, cap=np.inf, backtrack=False)
        fits[f"EG, eta {eta}"] = loop(X, start, 1.0, step=step, max_iter=gradient_iter)
    return fits


def _polished(X: Floats, at: MixtureFit) -> MixtureFit:
    """EM that learns the weights, to convergence."""
    return compiled(X, at, tau=0.0, learn_weights=True)


def compiled(X: Floats, at: MixtureFit, *, max_iter: int = MAX_ITER, tol: float = TOL, **options: Any) -> MixtureFit:
    """The compiled loop of location mixtures, for tau 0 or 1."""
    fits = fit_locations(X, at.means[None], at.weights, max_iter=max_iter, tol=tol, **options)
    n_iter, n_passes = int(fits.n_iter[0]), int(fits.n_passes[0])
    return MixtureFit(fits.means[0], fits.weights[0], at.n_iter + n_iter, at.n_passes + n_passes)


def loop(
    X: Floats,
    at: MixtureFit,
    tau: float,
    *,
    learn: bool = True,
    step: WeightStep = MASSES,
    max_iter: int = MAX_ITER,
    tol: float = TOL,
    frozen: bool = False,
) -> MixtureFit:
    """The package's own loop for any tau and weight step, with unit variances; with ``frozen`` the means stay, too."""
    n_components, d = at.means.shape
    all_of_them = np.ones(n_components, bool)
    family = Elliptical(
        Gaussian(),
        STRUCTURES["spherical"](),
        Regularisation(0.0),
        Constraints(frozen_means=all_of_them if frozen else None, frozen_covariances=all_of_them),
    )
    state = State(family.start(n_components, d)._replace(means=at.means), at.weights, np.zeros(n_components))
    phase = Phase(family, rule_for_tau(tau), learn, max_iter, tol, step)
    fit = run_phase(InMemory(X, np.full(len(X), 1 / len(X))), phase, state)
    means = fit.state.parameters.means
    return MixtureFit(means, fit.state.weights, at.n_iter + fit.n_iter, at.n_passes + fit.n_passes)


def measures(problem: Problem, fit: MixtureFit, thorough: bool) -> dict[str, Any]:
    """What is quick to compute, and with ``thorough`` the rest."""
    error = 0.5 * float(np.abs(np.sort(fit.weights) - np.sort(problem.weights)).sum())
    quick = {"success": recovered(fit.means, problem.centres, RADIUS), "weight_error": round(error, 4)}
    if not thorough:
        return quick
    model = GaussianMixture.from_parameters(fit.weights, fit.means, np.ones(K), covariance_type="spherical")
    distance = mixing_distance(fit.weights, fit.means, problem.weights, problem.centres)
    return {
        **quick,
        "ari": round(adjusted_rand_score(problem.labels, model.predict(problem.X)), 3),
        "w2_squared": float(f"{distance:.3g}"),
        "iterations": fit.n_iter,
        "passes": fit.n_passes,
    }
