"""A mixture as a distribution: built from parameters, marginal, conditional, distribution function, quantiles, entropy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.optimize import brentq
from scipy.special import logsumexp
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._kinds import like
from .._parameters import as_array, as_numbers, check_simplex
from .._typing import Floats
from ..families import Generator
from ..families.covariances.blocks import dense_values
from ..families.location_scale import LocationScale
from . import checks
from .model import Model

ENTROPY_DRAWS = 100_000
LARGEST_COUNT = 2**50  # a sum of weights may be rounded to less than 1


class Entropy(NamedTuple):
    """Differential entropy, nats, and the standard error of its estimate."""

    value: float
    standard_error: float


class DistributionMixin:
    """Methods of a mixture of known parameters, fitted or not."""

    n_components: int
    covariance_type: str
    noise: Any
    weights_: Floats
    means_: Floats
    n_features_in_: int
    _family: Any
    _parameters: Any
    _weights: Floats
    _coordinates: Any

    @classmethod
    def from_parameters(cls, weights: Any, means: Any, covariances: Any = None, **options: Any) -> Self:
        """A mixture of given parameters, without fitting.

        Parameters
        ----------
        weights : array (K,)
            At least 0, with sum 1.
        means : array (K, d)
            Locations.
        covariances : array
            Scale matrices in the shape of ``covariance_type``: (K, d, d) full, (d, d) tied, (K, d) diag, (K,) spherical, ...;
            not for counts.
        **options
            Those of the class (`family`, `covariance_type`, `random_state`, ...), and shape parameters of the family by name, such
            as ``df=[3, 5]``.

        Raises
        ------
        ValueError
            Shapes that do not fit, weights that are none, covariances that are not positive definite, options that the family does
            not know.
        """
        K = np.size(as_numbers("weights", weights))
        means = np.asarray(as_numbers("means", means), float)
        if means.ndim != 2 or len(means) != K:
            raise ValueError(f"means has shape {means.shape}; it must be (K, d) with K = {K}, the number of weights")
        known = set(cls._get_param_names()) - {"n_components"}  # type: ignore[attr-defined]
        if options.pop("n_components", K) != K:
            raise ValueError(f"n_components does not fit weights, of which there are {K}: leave it out")
        model: Any = cls(**{"n_components": K}, **{name: value for name, value in options.items() if name in known})
        shape = {name: value for name, value in options.items() if name not in known}
        checks.check_options(model)
        model._rule()
        weights = check_simplex("weights", weights, K)
        return model._with_parameters(weights, {"means": means, "covariances": covariances, **shape})

    def _with_parameters(self, weights: Floats, values: dict[str, Any]) -> Self:
        K, d = values["means"].shape
        values["means"] = checks.check_array("means", values["means"], (K, d))
        self.n_features_in_ = d
        model = Model.known(self, d)
        if isinstance(model.member, Generator):
            if values["covariances"] is None:
                raise ValueError("covariances is None; give the scale matrices, in the shape that covariance_type has")
            values["covariances"] = checks.check_scales(values["covariances"], model.structure, K, d)
            checks.check_shapes(model.member, {n: v for n, v in values.items() if n not in ("means", "covariances")}, K)
        elif values.pop("covariances") is not None:
            raise ValueError(
                f"covariances is given, but the family {type(model.member).__name__} has no scale matrices: leave it out"
            )
        parameters = model.family.prescribe(model.family.start(K, d), values, model.coordinates)
        self._learned = np.ones(K, bool)
        self._adopt(model, parameters, weights)  # type: ignore[attr-defined]
        return self

    def marginal(self, features: Sequence[Any] | int | str) -> Self:
        """The distribution of some features: a mixture of the same class, with parts of the locations and scale matrices.

        Parameters
        ----------
        features : int, str, or sequence of them
            Numbers or names of the features that are kept, in the order wanted.

        Returns
        -------
        mixture
            Of covariance_type "full", or "diag" for diagonal structures, with the shape parameters of the whole.

        Raises
        ------
        ValueError
            The marginals of the family are not of the family (elliptical Laplace, logistic, hyperbolic secant, generalised
            Gaussian).
        """
        kept = self._feature_numbers(features)
        generator = self._generator("marginal")
        if self._is_elliptical() and len(kept) < self.n_features_in_ and not generator.marginal(self.n_features_in_):
            raise ValueError(
                f"marginal: marginals of the elliptical family {type(generator).__name__} are not of this family; use "
                "form='product', or a Gaussian, Student-t, Cauchy or contaminated Gaussian family"
            )
        S = self._dense_scales()[:, kept][:, :, kept]
        return self._derived(generator, self.weights_, self.means_[:, kept], S)._named(self, kept)

    def conditional(self, given: dict[Any, float]) -> Self:
        r"""The distribution of the other features, given values of some: a mixture of the same class.

        :math:`w_k' \propto w_k f_k(x_2)`; Gaussian and Student-t components stay what they are, with the conditional location
        :math:`m_1 + S_{12} S_{22}^{-1} (x_2 - m_2)` and Schur complement, times :math:`(\nu + q_2)/(\nu + d_2)` and with
        :math:`\nu + d_2` degrees of freedom for a Student-t (Ding 2016).

        Parameters
        ----------
        given : dict
            Value of every feature that is known, by number or name.

        Raises
        ------
        ValueError
            Nothing is left free, a feature is unknown, the family has no conditionals of its own, or the density there is 0.
        """
        if not isinstance(given, dict):
            raise ValueError(f"given is {given!r}; it must be a dict of the values of some features, by number or name")
        known = self._feature_numbers(list(given), "given")
        if len(set(known)) == self.n_features_in_:
            raise ValueError(f"given has all {self.n_features_in_} features; leave at least one free")
        x2 = checks.check_array("given", list(given.values()), (len(known),))
        free = [j for j in range(self.n_features_in_) if j not in known]
        generator = self._generator("conditional")
        other = self.marginal(known)
        weights = other._posterior(x2)
        S = self._dense_scales()
        S12, S22 = S[:, free][:, :, known], S[:, known][:, :, known]
        gain = np.swapaxes(np.linalg.solve(S22, np.swapaxes(S12, 1, 2)), 1, 2)
        residual = x2 - self.means_[:, known]
        means = self.means_[:, free] + np.einsum("kij,kj->ki", gain, residual)
        rest = S[:, free][:, :, free] - gain @ np.swapaxes(S12, 1, 2)
        if not self._is_elliptical():
            return self._derived(generator, weights, means, rest)._named(self, free)
        q = np.einsum("ki,ki->k", residual, np.linalg.solve(S22, residual[:, :, None])[:, :, 0])
        new, shape, factor = generator.conditional(q, len(known), *self._parameters.shape)
        return self._derived(new, weights, means, rest * factor[:, None, None], shape)._named(self, free)

    def cdf(self, x: Any) -> Floats:
        """Distribution function sum_k w_k F_k(x) of a mixture of one feature, at x: an array of x's shape.

        ValueError for more than one feature, with noise, or for a family without a distribution function.
        """
        x = np.asarray(x, float)
        self._one_feature("cdf")
        total = self._component_cdf(x.ravel()) @ self.weights_
        return total.reshape(x.shape)

    def quantile(self, p: Any) -> Floats:
        """Quantiles of a mixture of one feature, at p in (0, 1) (any shape), to the last digits: a bracketed root of the cdf.

        An array of p's shape. For counts, the smallest count whose distribution function reaches p. ValueError for p outside
        (0, 1), and where `cdf` raises it.
        """
        p = np.asarray(p, float)
        self._one_feature("quantile")
        if not ((p > 0) & (p < 1)).all():
            raise ValueError(f"p is {p.tolist()}; probabilities must lie strictly between 0 and 1")
        if self._family.discrete:
            return np.array([_smallest_count(self.cdf, value) for value in p.ravel()]).reshape(p.shape)
        return np.array([_root(self.cdf, value, self.means_[:, 0]) for value in p.ravel()]).reshape(p.shape)

    def entropy(self, n_samples: int = ENTROPY_DRAWS, random_state: Any = None) -> Entropy:
        """Differential entropy -E log f, nats, from ``n_samples`` draws, with its standard error.

        For counts it is the entropy of the distribution.
        """
        check_is_fitted(self)
        if not isinstance(n_samples, int | np.integer) or n_samples < 2:
            raise ValueError(
                f"n_samples is {n_samples}; it must be a whole number of at least 2: the standard error needs two draws"
            )
        X, _ = self._draw(n_samples, check_random_state(random_state))  # type: ignore[attr-defined]
        values = -self.logpdf(X)
        return Entropy(float(values.mean()), float(values.std(ddof=1) / np.sqrt(n_samples)))

    def logpdf(self, X: Any) -> Floats:
        """log-density of rows X (n, d), nats: `score_samples` by the name that scipy.stats has for it."""
        return self.score_samples(X)  # type: ignore[attr-defined]

    def pdf(self, X: Any) -> Floats:
        """Density of rows X (n, d)."""
        return like(X, np.exp(as_array(self.logpdf(X))))

    def _posterior(self, x: Floats) -> Floats:
        """Posterior weights (K,) of one row; components of weight 0 keep it."""
        with np.errstate(divide="ignore"):
            log_w = (
                np.log(self.weights_)
                + self._family.log_density(self._coordinates.forward(x[None]), self._parameters)[0]
            )
        if not log_w.max() > -np.inf:
            raise ValueError(
                f"given is {x.tolist()}; every component has density 0 there: the conditional does not exist"
            )
        return np.exp(log_w - logsumexp(log_w))

    def _component_cdf(self, x: Floats) -> Floats:
        """(n, K) distribution functions of the components."""
        return self._family.cdf(self._coordinates.forward(x[:, None])[:, 0], self._parameters)

    def _one_feature(self, method: str) -> None:
        check_is_fitted(self)
        if self.n_features_in_ != 1:
            raise ValueError(
                f"{method} is for one feature, but the mixture has {self.n_features_in_}: take a marginal first"
            )
        if self.noise is not None:
            raise ValueError(f"{method}: a mixture with a noise component has no {method}; fit without noise")

    def _feature_numbers(self, features: Any, name: str = "features") -> list[int]:
        check_is_fitted(self)
        wanted = list(features) if isinstance(features, list | tuple | np.ndarray) else [features]
        names = list(getattr(self, "feature_names_in_", []))
        numbers = [names.index(f) if f in names else f for f in wanted]
        valid = all(
            isinstance(j, int | np.integer) and not isinstance(j, bool) and 0 <= j < self.n_features_in_
            for j in numbers
        )
        if not valid or not numbers or len(set(numbers)) < len(numbers):
            raise ValueError(
                f"{name} is {wanted}; it must name some of the {self.n_features_in_} features once, by number or name {names}"
            )
        return [int(j) for j in numbers]

    def _generator(self, method: str) -> Generator:
        if not isinstance(self._family, LocationScale):
            raise ValueError(
                f"{method}: it is for location-scale families without a noise component, not for {type(self._family).__name__}"
            )
        return self._family.generator

    def _is_elliptical(self) -> bool:
        return self._family.dimension(2) == 2

    def _dense_scales(self) -> Floats:
        """Scale matrices (K, d, d) in the units of the data."""
        return dense_values(self._family.structure, self.covariances_, *self.means_.shape)  # type: ignore[attr-defined]

    def _named(self, whole: Any, features: list[int]) -> Self:
        """With the names that these features had."""
        if hasattr(whole, "feature_names_in_"):
            self.feature_names_in_ = whole.feature_names_in_[features]
        return self

    def _derived(
        self, generator: Generator, weights: Floats, means: Floats, S: Floats, shape: tuple[Floats, ...] | None = None
    ) -> Self:
        """A mixture of the same class, with other components."""
        diagonal = not self._family.structure.full
        names = zip(generator.shape_names, self._parameters.shape if shape is None else shape, strict=True)
        options: dict[str, Any] = {"covariance_type": "diag" if diagonal else "full", **dict(names)}
        if "family" in self._get_param_names():  # type: ignore[attr-defined]
            options |= {"family": generator, "form": self.form}  # type: ignore[attr-defined]
        options["random_state"] = self.random_state  # type: ignore[attr-defined]
        values = np.diagonal(S, axis1=1, axis2=2) if diagonal else S
        return type(self).from_parameters(weights / weights.sum(), means, values, **options)


def _smallest_count(cdf: Callable[[Any], Floats], p: float) -> float:
    """The smallest of 0, 1, 2, ... with cdf >= p."""
    low, high = -1, 1
    while cdf(high) < p and high < LARGEST_COUNT:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if cdf(middle) >= p else (middle, high)
    return float(high)


def _root(cdf: Callable[[Any], Floats], p: float, centres: Floats) -> float:
    """x with cdf(x) = p."""
    low, high, reach = float(centres.min()), float(centres.max()), max(1.0, float(np.abs(centres).max()))
    while cdf(low) > p:
        low, reach = low - reach, 2 * reach
    reach = max(1.0, float(np.abs(centres).max()))
    while cdf(high) < p:
        high, reach = high + reach, 2 * reach
    return float(brentq(lambda x: float(cdf(x)) - p, low, high, xtol=1e-300, rtol=4 * np.finfo(float).eps, maxiter=500))
