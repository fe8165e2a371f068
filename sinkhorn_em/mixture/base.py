"""What all mixture estimators share: from checked options to a fitted state and its attributes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from tqdm import tqdm

from .._kinds import on_device
from .._parameters import as_array, as_numbers, check_simplex
from .._typing import Booleans, Floats, Integers
from ..coordinates import fit_coordinates
from ..em import RELATIVE, TIGHT, e_step, score
from ..engines import Engine, InMemory, tensor_rows
from ..families.priors import NormalPrior
from ..initialisation import distinct_rows
from ..ot import ColumnRule, InfeasibleMarginalsError
from ..ot.newton import Tolerances
from . import checks, labels, storage
from .distribution import DistributionMixin
from .model import Model, learned_columns
from .prediction import PredictionMixin
from .schedule import START_NOISE, Outcome, Schedule, Start, better, run_start

FALL = 1e-6  # of the bound: more than its rounding
OF_THE_DATA = ("n_features_in_", "feature_names_in_")


class BaseMixture(DistributionMixin, PredictionMixin, DensityMixin, BaseEstimator):
    """`fit` and its attributes; the subclasses hold the options, and say what they mean."""

    family: Any = "gaussian"
    form = "elliptical"

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, labels: Any = None, forbidden: Any = None
    ) -> Self:
        """Fit to rows X (n, d).

        Parameters
        ----------
        X : array, DataFrame or torch tensor (n, d)
            A tensor is fitted on its device: scores, plan and statistics are computed there, in float64, from rows in its own
            precision. Starts are drawn on the host, from a copy. Fitted attributes are arrays, whatever X is; what the methods
            say of the rows of a tensor are tensors on its device.
        y : ignored
        sample_weight : array (n,), optional
            Frequencies: weight 2 is the row twice.
        labels : array (n,) of int, optional
            Components of the rows for which they are known, -1 for the others. A few labelled rows that are not typical can lead a
            single start astray: with few labels take `n_init` of 10 or so.
        forbidden : boolean array (n, K), optional
            True where a row cannot belong to a component.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter, X, ``sample_weight``, ``labels`` or ``forbidden`` breaks its rule; the message names it, its value, the
            rule and the remedy.
        InfeasibleMarginalsError
            Labels or forbidden pairs contradict the weights that the E-step must meet.
        """
        checks.check_options(self)
        rule = self._rule()
        checks.check_weight_step(self)
        given = X
        X = validate_data(self, as_array(X), dtype=[np.float64, np.float32], order="C", ensure_min_samples=2)
        checks.check_range(X)
        row_mass = checks.check_sample_weight(sample_weight, len(X))
        self._check_rows(row_mass)
        rows = checks.total_frequency(sample_weight, len(X))
        model = Model(self, X, row_mass, rows)
        checks.check_device(given, model.family)
        pairs = self._pairs(labels, forbidden, len(X))
        start = self._start(X, model, pairs)
        schedule = self._schedule(model, rule, start, row_mass)
        engine = tensor_rows(model.Z, row_mass, given) if on_device(given) else InMemory(model.Z, row_mass)
        del X
        best = self._best(engine, schedule, start, 1 if start.complete else self.n_init)
        self._store(model, schedule, engine, start, best)
        self._warn(best)
        return self

    def fit_predict(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, labels: Any = None, forbidden: Any = None
    ) -> Integers:
        """Fit, and the label of every row, (n,): `predict` of the same rows."""
        return self.fit(X, y, sample_weight, labels=labels, forbidden=forbidden).predict(X)

    def _rule(self) -> ColumnRule:
        return checks.check_rule(self.tau, self.trim, self.size_bounds, self.n_components, self.noise is not None)

    def _check_rows(self, row_mass: Floats) -> None:
        positive = int((row_mass > 0).sum())
        if positive < self.n_components and not self._stands_without_rows():
            raise ValueError(
                f"n_components is {self.n_components} but X has {positive} rows (n_samples) of positive weight; there must be at "
                "least as many rows as components: lower n_components"
            )

    def _stands_without_rows(self) -> bool:
        """Every component has a place of its own, a proper prior on it, and a covariance that stays: none needs a row."""
        placed = (
            any(isinstance(prior, NormalPrior) for prior in checks.check_prior(self.prior))
            and self.means_init is not None
        )
        shaped = checks.check_frozen(self)["covariances"]
        return placed and shaped is not None and bool(shaped.all())

    def _pairs(self, known: Any, forbidden: Any, n: int) -> Booleans | None:
        return labels.forbidden_pairs(known, forbidden, n, self.n_components, self.noise is not None)

    def _start(self, X: Any, model: Model, pairs: Booleans | None) -> Start:
        K, Z = self.n_components, model.Z
        values, weights = self._given(X.shape[1], model)
        among, coordinates = Z, model.coordinates
        if model.as_they_are:
            coordinates, among = fit_coordinates(X, model.row_mass, "scaled")
        centres = coordinates.forward(values["means"]) if "means" in values else None
        scratch = np.empty((K + (self.noise is not None), len(Z))).T
        rows = distinct_rows(X, among, model.row_mass)
        prior = model.own_locations
        return Start(
            rows,
            among,
            model.row_mass,
            scratch,
            K,
            self.init_params,
            model.coordinates,
            values,
            centres,
            weights,
            pairs,
            prior,
        )

    def _given(self, d: int, model: Model) -> tuple[dict[str, Any], Floats | None]:
        """Starting values in the units of the data, and weights: the user's, or those of the last fit."""
        K, values = self.n_components, {}
        weights = None if self.weights_init is None else check_simplex("weights_init", self.weights_init, K)
        if self.means_init is not None:
            values["means"] = checks.check_array("means_init", self.means_init, (K, d))
        if self.precisions_init is not None:
            values["covariances"] = checks.check_precisions(self.precisions_init, model.structure, K, d)
        if self._continues():
            values, weights = self._thaw(self._last_fit(d, model), values), self._weights
        elif weights is not None:
            weights = self._with_noise(weights)
        return values, weights

    def _continues(self) -> bool:
        """There is a last fit to go on from."""
        return bool(self.warm_start) and hasattr(self, "weights_")

    def _thaw(self, last: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        """The parameters of the last fit, but for those that are frozen at values given."""
        frozen = checks.check_frozen(self)
        for name, value in given.items():
            if (which := frozen[name]) is not None:
                last[name] = (
                    value if which.all() else np.where(which.reshape(-1, *[1] * (value.ndim - 1)), value, last[name])
                )
        return last

    def _with_noise(self, weights: Floats) -> Floats:
        """Weights (K,) of the components as weights of all columns: they share what noise leaves."""
        if self.noise is None:
            return weights
        share = START_NOISE if self.noise == "estimate" else float(self.noise)
        return np.append((1 - share) * weights, share)

    def _last_fit(self, d: int, model: Model) -> dict[str, Any]:
        """Parameters of the last fit, if they fit this one."""
        now = self._kind_of_fit(d)
        if self._fitted_as != now:
            raise ValueError(
                "warm_start: the last fit has (family, covariance_type, form, n_components, n_features, no noise) "
                f"{self._fitted_as}, this one needs {now}: set warm_start=False, or keep the model"
            )
        described = self._family.describe(self._parameters, self._coordinates)
        given = model.family.given_shapes
        return {
            name: value for name, value in described.items() if not name.startswith("precisions") and name not in given
        }

    def _kind_of_fit(self, d: int) -> tuple[Any, ...]:
        """What has to stay the same for a warm start."""
        return (
            self._member_name(),
            self.covariance_type,
            self.form,
            self.n_components,
            d,
            self.noise is None,
        )

    def _member_name(self) -> str:
        return self.family if isinstance(self.family, str) else type(self.family).__name__

    def _schedule(self, model: Model, rule: ColumnRule, start: Start, row_mass: Floats) -> Schedule:
        K = self.n_components
        prescribed = checks.check_weights(self.weights, K)
        frozen = checks.check_frozen(self)["weights"]
        learned = learned_columns(self, prescribed, frozen)
        if prescribed is None:
            prescribed = self._known_weights(frozen, start.weights)
        held = self._with_noise(prescribed)
        burn_in = rule.constrains and "covariances" not in start.values and not self._continues()
        step = checks.weight_step(self.weights)
        schedule = Schedule(model.family, rule, learned, held, burn_in, self.max_iter, self.tol, step)
        return schedule if start.forbidden is None else self._feasible(schedule, start.forbidden, row_mass)

    def _known_weights(self, frozen: Booleans | None, start: Floats | None) -> Floats:
        """Weights (K,) for a burn-in whose weights are to be learned: those given, else uniform ones."""
        K = self.n_components
        if frozen is not None:
            return check_simplex("weights_init", self.weights_init, K)
        return np.full(K, 1 / K) if start is None else start[:K] / start[:K].sum()

    @staticmethod
    def _feasible(schedule: Schedule, pairs: Booleans, row_mass: Floats) -> Schedule:
        """The schedule, without its burn-in where forbidden pairs contradict the weights that only the burn-in holds."""
        try:
            labels.check_masses(pairs, row_mass, schedule.rule, schedule.weights)
        except InfeasibleMarginalsError:
            if not schedule.releases:
                raise
            labels.check_masses(pairs, row_mass, schedule.main[-1].rule, schedule.weights)
            return replace(schedule, burn_in=False)
        return schedule

    def _best(self, engine: Engine, schedule: Schedule, start: Start, n_init: int) -> Outcome:
        rng = check_random_state(self.random_state)
        best: Outcome | None = None
        with tqdm(disable=not self.verbose, desc="Sinkhorn-EM", unit="iteration") as bar:
            for attempt in range(n_init):
                at = start.at_prior if attempt == 0 else start
                outcome = run_start(engine, schedule, at, rng, self._reporter(bar, attempt, n_init))
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

    def _store(self, model: Model, schedule: Schedule, engine: Engine, start: Start, best: Outcome) -> None:
        """Fitted attributes, in the units of the data."""
        state = best.fit.state
        log_det = (1 - self.trim) * model.coordinates.log_det  # what is trimmed has a score of 0 in any units
        self._adopt(model, state.parameters, state.weights)
        self._learned = schedule.learned
        self.lower_bounds_ = [bound + log_det for bound in best.bounds]
        self.lower_bound_ = self.lower_bounds_[-1]
        solution = best.fit.solution
        if schedule.main[-1].rule != schedule.rule:
            forbidden = None if start.forbidden is None else engine.place(start.forbidden)
            scores = score(engine, model.family, state.parameters, engine.place(start.scratch), forbidden)
            solution = e_step(engine, schedule.rule, state, scores, Tolerances(TIGHT, RELATIVE * TIGHT))
        self.transport_loss_ = -(solution.value + log_det)
        self.potentials_ = solution.potentials
        g, w = solution.potentials[: len(state.weights)], state.weights
        tilted = w * np.exp(np.where(w > 0, g - g[w > 0].max(), 0.0))
        self.tilted_weights_ = tilted / tilted.sum()
        self.marginal_error_ = solution.marginal_error
        self.n_iter_, self.n_passes_ = best.n_iter, best.n_passes
        self.converged_ = best.fit.converged

    def _adopt(self, model: Model, parameters: Any, weights: Floats) -> None:
        """Take over a family and its parameters; what an earlier fit said is forgotten."""
        K = self.n_components
        for name in [n for n in vars(self) if n.endswith("_") and not n.startswith("_") and n not in OF_THE_DATA]:
            delattr(self, name)
        self._coordinates, self._family, self._parameters, self._weights = (
            model.coordinates,
            model.family,
            parameters,
            weights,
        )
        self._fitted_as = self._kind_of_fit(model.Z.shape[1])
        self.weights_ = weights[:K]
        if self.noise is not None:
            self.noise_weight_ = float(weights[K])
        for name, value in self._family.describe(parameters, model.coordinates).items():
            setattr(self, f"{name}_", value)

    def _warn(self, best: Outcome) -> None:
        parameters, K = best.fit.state.parameters, self.n_components
        asked = checks.check_weights(self.weights, K)
        asked = self.weights_init if asked is None else asked
        retired, collapsed = self._family.retired(parameters), self._family.collapsed(parameters)
        if retired is not None:
            retired = retired & (True if asked is None else np.asarray(as_numbers("weights_init", asked)) > 0)
            if retired.any():
                warnings.warn(
                    f"components {np.flatnonzero(retired).tolist()} lost all their rows and were retired (weight 0): "
                    f"lower n_components below {K}, try another random_state, or prescribe the weights",
                    ConvergenceWarning,
                    stacklevel=3,
                )
        if collapsed is not None and collapsed.any():
            warnings.warn(
                f"components {np.flatnonzero(collapsed).tolist()} collapsed: their covariance is singular and "
                "was held at its floor (duplicated or too few rows, or a constant feature): lower n_components, choose a simpler "
                "covariance_type, set reg_covar, or prescribe the weights",
                ConvergenceWarning,
                stacklevel=3,
            )
        fall = -float(np.diff(best.bounds).min(initial=0.0))
        if fall > FALL * (1 + abs(best.bounds[-1])) and checks.weight_step(self.weights).monotone:
            warnings.warn(
                f"the bound fell by {fall:.2g} nats per row on the way, which it never does in exact arithmetic: some covariance "
                "is singular to rounding (set reg_covar='scale'), or a family of your own does not raise its likelihood",
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

        Raises ValueError for a parameter that JSON cannot hold (a RandomState, a family of your own), and NotFittedError before
        `fit`.
        """
        check_is_fitted(self)
        fitted = {key: value for key, value in vars(self).items() if key.endswith("_") and not key.startswith("_")}
        private = {name: getattr(self, name) for name in storage.PRIVATE if hasattr(self, name)}
        storage.write(path, type(self).__name__, {"parameters": self.get_params(), "fitted": fitted, "state": private})

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a mixture that `save` wrote; ValueError if the file is something else, or damaged."""
        content = storage.read(path, cls.__name__, ("parameters", "fitted", "state"))
        model = cls(**content["parameters"])
        for name, value in {**content["fitted"], **content["state"]}.items():
            setattr(model, name, value)
        return model
