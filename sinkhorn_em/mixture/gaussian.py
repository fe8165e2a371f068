"""`GaussianMixture`: Gaussian mixtures by Sinkhorn-EM, with the contract of scikit-learn's estimator of the same name."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from tqdm import tqdm

from .._typing import Floats, Integers
from ..coordinates import Coordinates, fit_coordinates
from ..em import RELATIVE, TIGHT, State, e_step, score
from ..engines import InMemory
from ..families.covariances import STRUCTURES, Covariances, Regularisation
from ..families.gaussian import Gaussian, GaussianParameters
from ..initialisation import distinct_rows
from ..ot import ColumnRule
from ..ot.newton import Solution, Tolerances
from . import checks, storage
from .prediction import PredictionMixin
from .schedule import Outcome, Schedule, Start, better, run_start

RELATIVE_FLOOR = 1e-9  # smallest component variance, as a share of the data's variance in the same direction
COORDINATES = {"full": "whitened", "tied": "whitened", "diag": "scaled", "tied_diag": "scaled"}


class GaussianMixture(PredictionMixin, DensityMixin, BaseEstimator):
    r"""Gaussian mixture fitted by Sinkhorn-EM.

    The E-step is the entropic transport plan whose column marginal is the mixture weights,

    .. math:: L(\theta) = \min_g \frac1n \sum_i \log \sum_k w_k e^{g_k} f_k(x_i) - \sum_k w_k g_k \ (= -\text{transport loss}),

    which has the global optimum of the likelihood and fewer traps (Mena et al. 2020). ``tau=0`` is EM.

    Parameters
    ----------
    n_components : int
        K.
    covariance_type : {"full", "tied", "diag", "spherical", "tied_diag", "tied_spherical"}
        Structure of the component covariances.
    tau : float or array (K,), default 1.0
        How strongly the E-step holds the column masses at the weights: 0 is EM, 1 Sinkhorn-EM, between them KL-relaxed.
    weights : "learned", "uniform" or array (K,), default "learned"
        "learned" with tau > 0: at most 30 iterations with the weights held (uniform, or `weights_init`) and the covariance pooled,
        then EM with free weights to the maximum-likelihood estimate of the basin found; EM from the same start is run as well,
        and the better of the two is kept, so the result is never worse than EM's. Prescribed weights are kept: the same burn-in,
        then Sinkhorn-EM to convergence.
    trim : float in [0, 1), default 0.0
        Share of the rows, the worst fitted, that is left out of the fit (partial transport); ``transport_plan(X).unassigned`` says
        which. `score`, `bic` and `predict` are about all the rows they are given; `lower_bound_` is the trimmed objective.
    size_bounds : pair (lower, upper), optional
        Bounds on the component sizes, as fractions; used instead of tau.
    tol : float, default 1e-6
        Stop when the bound rises by less, nats per row. (scikit-learn's default, 1e-3, leaves nats on the table.)
    reg_covar : "scale" or float, default "scale"
        "scale": eigenvalues are kept above 1e-9 of the data's own variance, and nothing is added. A number is added to variances,
        in squared units of the data, as in scikit-learn.
    max_iter : int, default 500
        M-steps after the burn-in.
    n_init : int, default 1
        Starts; the one with the best bound is kept (among those without a collapsed or emptied component, if there are any).
    init_params : {"kmeans", "k-means++", "random_from_data", "random"}
        Starts are drawn in centred and rescaled coordinates over distinct rows: units, row order and duplicates do not matter.
    weights_init, means_init, precisions_init : arrays, optional
        Starting values; with `precisions_init` the burn-in is skipped.
    random_state : int, RandomState or None
    warm_start : bool
        Start from the last fit (without burn-in).
    verbose : int
        1: a progress bar.
    verbose_interval : int
        Iterations between updates of the bar.

    Attributes
    ----------
    weights_ (K,), means_ (K, d), covariances_, precisions_, precisions_cholesky_ : arrays
        As in scikit-learn.
    lower_bound_ : float
        The objective at the final parameters, nats per row: the mean log-likelihood if weights are learned or tau = 0, else
        ``-transport_loss_``.
    lower_bounds_ : list of float
        Its trace over all iterations of the best start; it never falls.
    transport_loss_ : float
        L at the final parameters, nats per row; equals minus the mean log-likelihood when the plan needs no tilt.
    potentials_ : array (K,)
        Column potentials g, nats (K + 1 with trim).
    tilted_weights_ : array (K,)
        w_k exp(g_k), normalised: the weights at which EM's gradient is Sinkhorn-EM's.
    marginal_error_ : float
        L1 error of the final plan's column masses.
    n_iter_, n_passes_ : int
        M-steps of the run that is reported, and passes over the scores of all runs.
    converged_ : bool
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Raises
    ------
    ValueError
        Parameters or data that do not fit; the message says which, and what to do.

    References
    ----------
    Mena, Nejatbakhsh, Varol & Niles-Weed 2020, arXiv:2006.16548.

    Examples
    --------
    >>> from sinkhorn_em import GaussianMixture
    >>> from sinkhorn_em.datasets import load_faithful
    >>> model = GaussianMixture(2, random_state=0).fit(load_faithful().data)
    >>> model.weights_.round(2).tolist()
    [0.64, 0.36]
    """

    def __init__(
        self,
        n_components: int = 1,
        *,
        covariance_type: str = "full",
        tau: Any = 1.0,
        weights: Any = "learned",
        trim: float = 0.0,
        size_bounds: Any = None,
        tol: float = 1e-6,
        reg_covar: Any = "scale",
        max_iter: int = 500,
        n_init: int = 1,
        init_params: str = "kmeans",
        weights_init: Any = None,
        means_init: Any = None,
        precisions_init: Any = None,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: int = 0,
        verbose_interval: int = 10,
    ) -> None:
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.tau = tau
        self.weights = weights
        self.trim = trim
        self.size_bounds = size_bounds
        self.tol = tol
        self.reg_covar = reg_covar
        self.max_iter = max_iter
        self.n_init = n_init
        self.init_params = init_params
        self.weights_init = weights_init
        self.means_init = means_init
        self.precisions_init = precisions_init
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.verbose_interval = verbose_interval

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> GaussianMixture:
        """Fit to rows X (n, d); ``sample_weight`` (n,) are frequencies: weight 2 is the row twice.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter, X or ``sample_weight`` breaks its rule; the message names it, its value, the rule and the remedy.
        """
        checks.check_options(self)
        rule = self._rule()
        prescribed = checks.check_weights(self.weights, self.n_components)
        warm = self.warm_start and hasattr(self, "means_")
        X = validate_data(self, X, dtype=[np.float64, np.float32], order="C", ensure_min_samples=2)
        checks.check_range(X)
        row_mass = checks.check_sample_weight(sample_weight, len(X))
        if (row_mass > 0).sum() < self.n_components:
            raise ValueError(
                f"n_components is {self.n_components} but X has {int((row_mass > 0).sum())} rows (n_samples) of positive weight; "
                "there must be at least as many rows as components: lower n_components"
            )
        coordinates, Z = fit_coordinates(X, row_mass, COORDINATES.get(self.covariance_type, "isotropic"))
        family = Gaussian(STRUCTURES[self.covariance_type](), self._regularisation(coordinates))
        start = self._start(X, Z, row_mass, family, coordinates, warm)
        del X
        held = start.weights if start.weights is not None else np.full(self.n_components, 1 / self.n_components)
        schedule = Schedule(
            family=family,
            rule=rule,
            weights=prescribed,
            burn_in_weights=held if prescribed is None else prescribed,
            burn_in=rule.constrains and start.covariances is None,
            max_iter=self.max_iter,
            tol=self.tol,
        )
        engine = InMemory(Z, row_mass)
        best = self._best(engine, schedule, start, 1 if start.complete else self.n_init)
        state = best.fit.state
        if schedule.main.rule == rule:
            solution = best.fit.solution
        else:
            scores = score(engine, family, state.parameters, [start.scratch])
            solution = e_step(engine, rule, state, scores, Tolerances(TIGHT, RELATIVE * TIGHT))
        self._store(coordinates, family, best, solution)
        self._warn(best)
        return self

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Integers:
        """Fit, and the label of every row: `predict` of the same rows."""
        return self.fit(X, y, sample_weight).predict(X)

    def _rule(self) -> ColumnRule:
        return checks.check_rule(self.tau, self.trim, self.size_bounds, self.n_components)

    def _regularisation(self, coordinates: Coordinates) -> Regularisation:
        if isinstance(self.reg_covar, str):
            return Regularisation(RELATIVE_FLOOR)
        if not self.reg_covar:
            return Regularisation(0.0)
        A = coordinates.A if coordinates.A.ndim == 2 else np.diag(coordinates.A)
        return Regularisation(0.0, float(self.reg_covar) * A @ A.T)

    def _start(
        self, X: Any, Z: Floats, row_mass: Floats, family: Gaussian, coordinates: Coordinates, warm: bool
    ) -> Start:
        K, d = self.n_components, Z.shape[1]
        weights = None if self.weights_init is None else checks.check_simplex("weights_init", self.weights_init, K)
        means = None if self.means_init is None else checks.check_array("means_init", self.means_init, (K, d))
        values = None if self.precisions_init is None else self._covariances_from_precisions(K, d)
        if warm:
            fitted = (self._family.structure.name, self.means_.shape)
            if fitted != (self.covariance_type, (K, d)):
                raise ValueError(
                    f"warm_start: the last fit has covariance_type and means of shape {fitted}, this one needs "
                    f"{(self.covariance_type, (K, d))}: set warm_start=False, or keep the model"
                )
            means, values, weights = self.means_, self.covariances_, self.weights_
        covariances = None
        if values is not None:
            values = coordinates.covariances_forward(values, self.covariance_type.endswith("spherical"))
            covariances = family.structure.from_values(values, K, d)
        if means is not None:
            means = coordinates._apply((means - coordinates.shift).T).T
        rows, scratch = distinct_rows(X, Z, row_mass), np.empty((K, len(Z))).T
        return Start(rows, Z, scratch, K, self.init_params, means, covariances, weights)

    def _covariances_from_precisions(self, K: int, d: int) -> Floats:
        shapes = {
            "full": (K, d, d),
            "tied": (d, d),
            "diag": (K, d),
            "spherical": (K,),
            "tied_diag": (d,),
            "tied_spherical": (),
        }
        precisions = checks.check_array("precisions_init", self.precisions_init, shapes[self.covariance_type])
        if self.covariance_type in ("full", "tied"):
            symmetric = np.allclose(precisions, np.swapaxes(precisions, -1, -2))
            if not symmetric or not (np.linalg.eigvalsh(precisions) > 0).all():
                raise ValueError("precisions_init must be symmetric and positive-definite matrices")
            return np.asarray(np.linalg.inv(precisions), np.float64)
        if not (precisions > 0).all():
            raise ValueError("precisions_init must be positive")
        return 1 / precisions

    def _best(self, engine: InMemory, schedule: Schedule, start: Start, n_init: int) -> Outcome:
        rng = check_random_state(self.random_state)
        best: Outcome | None = None
        with tqdm(disable=not self.verbose, desc="Sinkhorn-EM", unit="iteration") as bar:
            for attempt in range(n_init):
                outcome = run_start(engine, schedule, start, rng, self._reporter(bar, attempt, n_init))
                best = outcome if best is None else better(best, outcome)
        assert best is not None
        return best

    def _reporter(self, bar: Any, attempt: int, n_init: int) -> Callable[[int, float], None] | None:
        if not self.verbose:
            return None

        def report(iteration: int, bound: float) -> None:
            bar.update()
            if iteration % self.verbose_interval == 0:
                bar.set_postfix_str(f"start {attempt + 1}/{n_init}, bound {bound:.6f}")

        return report

    def _store(self, coordinates: Coordinates, family: Gaussian, best: Outcome, solution: Solution) -> None:
        """Fitted attributes, in the units of the data."""
        state, log_det = best.fit.state, coordinates.log_det
        self._coordinates, self._family, self._parameters = coordinates, family, state.parameters
        self.weights_ = state.weights
        self.lower_bounds_ = [bound + log_det for bound in best.bounds]
        self.lower_bound_ = self.lower_bounds_[-1]
        self.transport_loss_ = -(solution.value + log_det)
        self.potentials_ = solution.potentials
        g = solution.potentials[: self.n_components]
        tilted = self.weights_ * np.exp(np.where(self.weights_ > 0, g - g[self.weights_ > 0].max(), 0.0))
        self.tilted_weights_ = tilted / tilted.sum()
        self.marginal_error_ = solution.marginal_error
        self.n_iter_, self.n_passes_ = best.n_iter, best.n_passes
        self.converged_ = best.fit.converged
        self._store_moments(coordinates, state)

    def _store_moments(self, coordinates: Coordinates, state: State) -> None:
        means, covariances, _ = state.parameters
        self.means_ = coordinates.backward(means)
        spherical = self.covariance_type.endswith("spherical")
        self.covariances_ = coordinates.covariances_backward(covariances.values, spherical)
        if self.covariance_type in ("full", "tied"):
            U = np.swapaxes(covariances.factors @ coordinates.A, -1, -2)  # (K, d, d): S^-1 = U U'
            if self.covariance_type == "tied":
                U = U[0]
            self.precisions_ = U @ np.swapaxes(U, -1, -2)
            Q = np.linalg.qr(np.swapaxes(U, -1, -2)[..., ::-1])[
                1
            ]  # upper triangular with S^-1 = U U', as scikit-learn's
            upper = np.swapaxes(Q, -1, -2)[..., ::-1, ::-1]
            sign = np.sign(np.diagonal(upper, axis1=-2, axis2=-1))
            self.precisions_cholesky_ = upper * sign[..., None, :]
        else:
            self.precisions_ = 1 / self.covariances_
            self.precisions_cholesky_ = np.sqrt(self.precisions_)

    def _warn(self, best: Outcome) -> None:
        parameters, K = best.fit.state.parameters, self.n_components
        asked = self.weights_init if isinstance(self.weights, str) else self.weights
        retired = parameters.retired & (True if asked is None else np.asarray(asked, float) > 0)
        if retired.any():
            warnings.warn(
                f"components {np.flatnonzero(retired).tolist()} lost all their rows and were retired (weight 0): "
                f"lower n_components below {K}, try another random_state, or prescribe the weights",
                ConvergenceWarning,
                stacklevel=3,
            )
        if parameters.covariances.held.any():
            warnings.warn(
                f"components {np.flatnonzero(parameters.covariances.held).tolist()} collapsed: their covariance is singular and "
                "was held at its floor (duplicated or too few rows, or a constant feature): lower n_components, choose a simpler "
                "covariance_type, set reg_covar, or prescribe the weights",
                ConvergenceWarning,
                stacklevel=3,
            )
        if not self.converged_:
            warnings.warn(
                f"no convergence in max_iter = {self.max_iter} iterations: the bound still rises by "
                f"{best.bounds[-1] - best.bounds[-2]:.2g} nats per row (tol = {self.tol}): raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=3,
            )

    def save(self, path: str | Path) -> None:
        """Write the fitted mixture as JSON (no pickle); `load` gives it back to the last bit.

        Raises ValueError for a parameter that JSON cannot hold (a RandomState), and NotFittedError before `fit`.
        """
        check_is_fitted(self)
        fitted = {key: value for key, value in vars(self).items() if key.endswith("_") and not key.startswith("_")}
        state = {
            "coordinates": self._coordinates,
            "means": self._parameters.means,
            "covariances": self._parameters.covariances,
            "retired": self._parameters.retired,
            "regularisation": self._family.regularisation,
        }
        storage.write(path, "GaussianMixture", {"parameters": self.get_params(), "fitted": fitted, "state": state})

    @classmethod
    def load(cls, path: str | Path) -> GaussianMixture:
        """Read a mixture that `save` wrote; ValueError if the file is something else, or damaged."""
        content = storage.read(path, "GaussianMixture", ("parameters", "fitted", "state"))
        parameters, state = content["parameters"], content["state"]
        if parameters["size_bounds"] is not None:
            parameters["size_bounds"] = tuple(parameters["size_bounds"])
        model = cls(**parameters)
        for name, value in content["fitted"].items():
            setattr(model, name, value)
        model._coordinates = Coordinates(*state["coordinates"])
        model._parameters = GaussianParameters(state["means"], Covariances(*state["covariances"]), state["retired"])
        model._family = Gaussian(STRUCTURES[model.covariance_type](), Regularisation(*state["regularisation"]))
        return model
