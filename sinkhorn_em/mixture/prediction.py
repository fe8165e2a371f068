"""What a fitted mixture tells about rows: densities, posteriors, plans, samples, information criteria."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
from scipy.special import entr
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from .._kinds import joined, like, on_device
from .._parameters import as_array
from .._typing import Booleans, Floats, Integers
from ..coordinates import Coordinates
from ..ot import ColumnRule, Plan, RowsPlan, solve_plan
from ..ot.kernel import log_normalisers
from .checks import check_device, check_sample_weight, total_frequency
from .rounding import round_plan, sizes_from_weights

CHUNK = 1 << 16  # rows scored at a time


class PredictionMixin:
    """Methods of a fitted mixture that need its family, its parameters in the fit's coordinates, and its weights.

    Rows given as a torch tensor are worked on where they lie, and what is said of them is a tensor on the same device.
    """

    weights_: Floats
    _weights: Floats
    _learned: Booleans
    random_state: Any
    _family: Any
    _parameters: Any
    _coordinates: Coordinates

    def _rule(self) -> ColumnRule:
        raise NotImplementedError

    def predict(self, X: Any) -> Integers:
        """Component of the highest posterior probability at the nominal weights, (n,): one row's label depends on no other row.

        Noise is labelled -1.
        """
        labels = joined([(S + like(S, self._log_weights())).argmax(axis=1) for S in self._scores(X)])
        return like(X, self._noise_last(labels))

    def predict_proba(self, X: Any) -> Floats:
        """Posterior probabilities (n, K) at the nominal weights, w_k f_k(x) / sum_l w_l f_l(x); noise has a last column."""
        R = joined([RowsPlan(S, self._log_weights(), S[:, 0]).responsibilities for S in self._scores(X)])
        far = ~R.any(axis=1)  # every density is 0 there
        R[far] = like(R, self._weights)
        return like(X, R)

    def score_samples(self, X: Any) -> Floats:
        """log sum_k w_k f_k(x), nats, (n,)."""
        return like(X, joined([log_normalisers(S, self._log_weights()) for S in self._scores(X)]))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean log-likelihood per row of X (n, d), nats, weighted by ``sample_weight`` (n,) if given."""
        log_density = as_array(self.score_samples(X))
        return float(check_sample_weight(sample_weight, len(log_density)) @ log_density)

    def bic(self, X: Any, sample_weight: Any = None) -> float:
        """Bayesian information criterion, -2 log-likelihood + (parameters) log n: lower is better; n is the sum of the weights."""
        n = total_frequency(sample_weight, len(X))
        return float(-2 * self.score(X, sample_weight=sample_weight) * n + self._n_parameters() * np.log(n))

    def aic(self, X: Any, sample_weight: Any = None) -> float:
        """Akaike information criterion, -2 log-likelihood + 2 (parameters): lower is better."""
        n = total_frequency(sample_weight, len(X))
        return float(-2 * self.score(X, sample_weight=sample_weight) * n + 2 * self._n_parameters())

    def transport_plan(self, X: Any, sample_weight: Any = None) -> Plan:
        """The Sinkhorn-EM plan of a batch: its column masses obey tau, trim and size_bounds at the nominal weights.

        Unlike `predict`, what a row gets depends on the whole batch. Of a tensor, a `sinkhorn_em.ot.tensors.TensorPlan`.
        """
        S = like(X, joined(list(self._scores(X))))
        mass = check_sample_weight(sample_weight, len(S))
        return solve_plan(S, mass, self._weights, rule=self._rule())

    def balanced_predict(self, X: Any, sizes: Any = None) -> Integers:
        """Labels (n,) whose counts are ``sizes`` exactly: the assignment of largest total log-posterior with these counts.

        Parameters
        ----------
        X : array (n, d)
        sizes : array (K,) of int, optional
            Counts that sum to n; default n times the weights, rounded by largest remainder. With noise one more, the last.

        Raises
        ------
        ValueError
            ``sizes`` are not K whole counts that sum to n.

        Notes
        -----
        A min-cost flow solved as a linear program (scipy, HiGHS): all its vertices are integral. Rows that the converged plan
        decides beyond doubt are not sent through it.
        """
        S = as_array(joined(list(self._scores(X))))
        counts = sizes_from_weights(self._weights, len(S)) if sizes is None else np.asarray(as_array(sizes))
        return like(X, self._noise_last(round_plan(S, counts)))

    def sample(self, n_samples: int = 1) -> tuple[Floats, Integers]:
        """Draw rows from the fitted mixture: (n_samples, d) and their components (n_samples,), in random order."""
        check_is_fitted(self)
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples is {n_samples}; it must be a whole number, and at least 1")
        return self._draw(n_samples, check_random_state(self.random_state))

    def _draw(self, n_samples: int, random: np.random.RandomState) -> tuple[Floats, Integers]:
        rng = np.random.default_rng(random.randint(2**31, size=4))
        labels = rng.choice(len(self._weights), size=n_samples, p=self._weights)
        Z = self._family.sample(self._parameters, labels, rng)
        return self._coordinates.backward(Z), self._noise_last(labels)

    def _noise_last(self, labels: Integers) -> Integers:
        """Labels with -1 for the noise component, which is the last."""
        labels[labels == len(self.weights_)] = -1
        return labels

    def _scores(self, X: Any) -> Iterator[Floats]:
        """log f_k(x) of X in chunks of rows, (m, K)."""
        check_is_fitted(self)
        X = self._rows(X)
        self._family.check(X)
        log_det = self._coordinates.log_det
        for start in range(0, len(X), CHUNK):
            Z = self._coordinates.forward(X[start : start + CHUNK])
            S = self._family.log_density(Z, self._parameters)
            S += log_det
            yield S

    def _rows(self, X: Any) -> Any:
        """Rows that were found sound: an array, or a tensor that stays on its device."""
        kinds = [np.float64, np.float32]
        if not on_device(X):
            return validate_data(self, as_array(X), dtype=kinds, reset=False)
        check_device(X, self._family)
        validate_data(self, as_array(X[:1] if X.ndim else X), dtype=kinds, reset=False)
        if not X.isfinite().all():
            validate_data(self, as_array(X), dtype=kinds, reset=False)  # which says what is wrong
        return X.detach()

    def _log_weights(self) -> Floats:
        with np.errstate(divide="ignore"):
            return np.log(self._weights)

    def _n_parameters(self) -> int:
        """Free parameters: those of the components, and the weights that were learned, less one for their sum."""
        return self._family.n_parameters(self._parameters) + max(int(self._learned.sum()) - 1, 0)

    def classification_entropy(self, X: Any) -> float:
        """Mean over rows of -sum_k R_ik log R_ik, R the posterior probabilities, nats: 0 when every row is certain."""
        return float(entr(as_array(self.predict_proba(X))).sum(axis=1).mean())
