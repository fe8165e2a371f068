"""From what the user asks for to a family in the coordinates of the fit."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from .._typing import Booleans, Floats
from ..coordinates import Blocks, fit_coordinates, identity
from ..families import FAMILIES, GENERATORS, Elliptical, Family, Generator, Product
from ..families.constraints import AnyLocation, Constraints, CovariancePrior, LocationPrior, OwnLocation, ScaledLocation
from ..families.covariances import Regularisation, Structure, structure_named
from ..families.covariances.blocks import BlockDiagonal
from ..families.generators.base import verify
from ..families.location_scale import LocationScale
from ..families.noise import WithNoise, smallest_box
from ..families.priors import InverseWishart, NormalInverseWishart, NormalPrior
from . import checks

RELATIVE_FLOOR = 1e-9  # smallest component variance, as a share of the data's variance in the same direction
ROUNDING_FLOOR = np.finfo(float).eps ** 2  # the same where the user rules: below it rows differ by their rounding only
NORMAL_MAD = 1.4826  # standard deviations of a Gaussian in a median absolute deviation
FORMS: dict[str, type[LocationScale]] = {"elliptical": Elliptical, "product": Product}
UNIVARIATE = ("E", "V")


def member(family: Any) -> Generator | Family:
    """The generator or family that a name or an object stands for."""
    if isinstance(family, str) and family in FAMILIES:
        return FAMILIES[family]()
    if isinstance(family, Generator | Family):
        return family
    raise ValueError(
        f"family is {family!r}; it must be one of {sorted(FAMILIES)}, or an object of sinkhorn_em.families, such as StudentT(df=4)"
    )


class Model:
    """The family of a fit, the coordinates that it is fitted in, and the rows there."""

    def __init__(self, estimator: Any, X: Any, row_mass: Floats, rows: float) -> None:
        self.estimator, self.row_mass, self.rows = estimator, row_mass, rows
        K, d = estimator.n_components, X.shape[1]
        self.member = member(estimator.family)
        if isinstance(self.member, Generator):
            self.member.check(K)
            self.structure = build_structure(estimator, d)
            self.blocks = estimator_blocks(estimator, d)
            kind = self.structure.coordinates
            if estimator.eigenvalue_bounds is not None and kind != "blocks":
                kind = "isotropic"
            self.coordinates, self.Z = fit_coordinates(X, row_mass, kind, self.blocks)
            self.structure = self._bounded_structure()
            self.family: Family = self._location_scale(X)
        else:
            refuse_covariance_options(estimator)
            self.family = self.member
            self.family.check(X)
            kind = self.family.coordinates
            if kind == "none":
                self.coordinates, self.Z = identity(d), np.asfortranarray(X, np.float64)
            else:
                self.coordinates, self.Z = fit_coordinates(X, row_mass, kind)
        if estimator.noise is not None:
            if self.family.discrete:
                raise ValueError(f"noise is {estimator.noise!r}; counts have no uniform density: set noise=None")
            box = smallest_box(np.asarray(X[row_mass > 0], np.float64))
            self.family = WithNoise(self.family, box.mapped(self.coordinates))

    @classmethod
    def known(cls, estimator: Any, d: int) -> Model:
        """A model without rows, in the coordinates of the data: for parameters that are given."""
        if estimator.noise is not None:
            raise ValueError(
                f"noise is {estimator.noise!r}; a noise component needs rows to fill: fit the mixture instead"
            )
        checks.check_prior(estimator.prior)
        checks.check_frozen(estimator)
        model = cls.__new__(cls)
        model.estimator, model.coordinates, model.Z, model.rows = estimator, identity(d), np.empty((0, d)), 1.0
        model.member = member(estimator.family)
        if isinstance(model.member, Generator):
            model.member.check(estimator.n_components)
            model.structure, model.blocks = build_structure(estimator, d), estimator_blocks(estimator, d)
            model.family = model._form()(model.member, model.structure, Regularisation(0.0))
        else:
            refuse_covariance_options(estimator)
            model.family = model.member
        return model

    def _form(self) -> type[LocationScale]:
        form = self.estimator.form
        if form not in FORMS:
            raise ValueError(f"form is {form!r}; it must be one of {sorted(FORMS)}")
        return FORMS[form]

    @property
    def own_locations(self) -> OwnLocation | None:
        """The prior of the locations, if each component has its own."""
        prior = self.constraints.location_prior if isinstance(self.member, Generator) else None
        return prior if isinstance(prior, OwnLocation) else None

    @property
    def as_they_are(self) -> bool:
        """The rows are fitted in the units of the data: starts are drawn in others."""
        return self.family.coordinates == "none"

    def _location_scale(self, X: Any) -> Family:
        assert isinstance(self.member, Generator)
        if type(self.member) not in GENERATORS.values():
            verify(self.member, 1 if self._form() is Product else X.shape[1])
        self.constraints = self._constraints(X)
        return self._form()(self.member, self.structure, self._regularisation(), self.constraints)

    def _bounded_structure(self) -> Structure:
        """The structure with the user's eigenvalue bounds for every block, in the coordinates of the fit."""
        bounds = self.estimator.eigenvalue_bounds
        if bounds is None or not self.blocks:
            return self.structure
        pairs = checks.check_bounds("eigenvalue_bounds", bounds, len(self.blocks))
        squares = [self.coordinates.A[block[0]] ** 2 for block in self.blocks]
        scaled = tuple((low * s, high * s) for (low, high), s in zip(pairs, squares, strict=True))
        assert isinstance(self.structure, BlockDiagonal)
        return replace(self.structure, eigenvalue_bounds=scaled)

    def _regularisation(self) -> Regularisation:
        reg, A = self.estimator.reg_covar, self.coordinates.A
        bounds = (0.0, np.inf)
        if self.estimator.eigenvalue_bounds is not None and not self.blocks:
            ((low, high),) = checks.check_bounds("eigenvalue_bounds", self.estimator.eigenvalue_bounds, 1)
            self.structure.check(Regularisation(0.0, None, (low, high)))  # in the user's units
            bounds = (low * A[0] ** 2, high * A[0] ** 2)
        A = A if A.ndim == 2 else np.diag(A)
        relative = isinstance(reg, str)
        ridge = None if relative or not reg else float(reg) * A @ A.T
        regularisation = Regularisation((RELATIVE_FLOOR if relative else ROUNDING_FLOOR) * self._bulk(), ridge, bounds)
        self.structure.check(regularisation)
        return regularisation

    def _bulk(self) -> float:
        """Variance of the bulk of the rows in the direction where it is least, by the median absolute deviation.

        At most 1, which is the variance: gross outliers must not raise the floor above the spread of everything else.
        """
        mass = self.row_mass
        deviation = np.array([weighted_median(np.abs(z - weighted_median(z, mass)), mass) for z in self.Z.T])
        variances = (NORMAL_MAD * deviation[deviation > 0]) ** 2
        return float(variances.min(initial=1.0))

    def _constraints(self, X: Any) -> Constraints:
        estimator, K = self.estimator, self.estimator.n_components
        frozen = checks.check_frozen(estimator)
        location_prior, covariance_prior = self._priors(X)
        means, covariances = frozen["means"], frozen["covariances"]
        if covariances is not None and not covariances.all() and not self.structure.independent:
            raise ValueError(
                f"frozen: only components {np.flatnonzero(covariances).tolist()} of {K} have frozen covariances, but "
                f"covariance_type {estimator.covariance_type!r} estimates them together: "
                "freeze all of them, or use full, diag or spherical"
            )
        return Constraints(location_prior, covariance_prior, means, covariances)

    def _priors(self, X: Any) -> tuple[LocationPrior, CovariancePrior | None]:
        location_prior: LocationPrior = AnyLocation()
        covariance_prior = None
        for prior in checks.check_prior(self.estimator.prior):
            if isinstance(prior, NormalInverseWishart):
                prior = self._with_defaults(prior, X)
                mean = self.coordinates.forward(checks.check_array("prior.mean", prior.mean, (X.shape[1],))[None])[0]
                shrinkage = checks.check_positive("prior.shrinkage", prior.shrinkage) / self.rows
                location_prior = ScaledLocation(mean, shrinkage, self.rows, self.coordinates.log_det)
                covariance_prior = self._wishart(prior.dof, prior.scale, X.shape[1])
            elif isinstance(prior, InverseWishart):
                covariance_prior = self._wishart(prior.dof, prior.scale, X.shape[1])
            else:
                location_prior = self._normal(prior, X.shape[1])
        return location_prior, covariance_prior

    def _with_defaults(self, prior: NormalInverseWishart, X: Any) -> NormalInverseWishart:
        """mclust's priorControl: moments of the data, shrunk by the number of components."""
        d, factor = X.shape[1], self.estimator.n_components ** (-2 / X.shape[1])
        mean = self.row_mass @ X
        C = (X - mean) * np.sqrt(self.row_mass)[:, None]
        covariance = C.T @ C * self.rows / max(self.rows - 1, 1)
        if prior.scale is None and not (np.linalg.eigvalsh(covariance) > 1e-12 * np.trace(covariance)).all():
            raise ValueError(
                f"prior is {self.estimator.prior!r}, whose scale is the covariance of the data, but that is singular (a "
                "constant or repeated feature, or too few rows): remove features, or give NormalInverseWishart a scale"
            )
        scale = covariance if self.structure.full else np.eye(d) * np.trace(covariance) / d
        return NormalInverseWishart(
            mean if prior.mean is None else prior.mean,
            prior.shrinkage,
            d + 2 if prior.dof is None else prior.dof,
            factor * scale if prior.scale is None else prior.scale,
        )

    def _wishart(self, dof: Any, scale: Any, d: int) -> CovariancePrior:
        structure = self.structure
        least = d - 1 if structure.full else 0
        if not isinstance(dof, Real) or not float(dof) > least:
            raise ValueError(f"prior.dof is {dof!r}; it must be a number above {least}: d + 2 is mclust's choice")
        scatter = self._forward(checks.check_covariance("prior.scale", scale, d))
        shared = all(part.shared for part in getattr(structure, "parts", (structure,)))
        share, log_det = (1 / self.estimator.n_components if shared else 1.0), self.coordinates.log_det
        if structure.full:
            return CovariancePrior((float(dof) + d + 1) / self.rows, scatter / self.rows, share, log_det)
        width = d if structure.spherical else 1
        return CovariancePrior((float(dof) + 2) / width / self.rows, scatter / width / self.rows, share, log_det)

    def _normal(self, prior: NormalPrior, d: int) -> OwnLocation:
        K = self.estimator.n_components
        means = np.asarray(prior.means, float)
        means = checks.check_array(
            "prior.means", np.broadcast_to(means, (K, d)) if means.shape == (d,) else means, (K, d)
        )
        B = np.asarray(prior.covariances, float)
        each = [B[k] for k in range(K)] if B.shape == (K, d, d) else [B] * K
        covariances = np.array([self._forward(checks.check_covariance("prior.covariances", b, d)) for b in each])
        off = covariances * (1 - np.eye(d))
        if self._form() is Product and (np.abs(off) > 1e-12 * np.abs(covariances).max()).any():
            raise ValueError(
                "prior.covariances are not diagonal, but form is 'product', whose coordinates are independent: give variances"
            )
        return OwnLocation(self.coordinates.forward(means), np.linalg.inv(covariances) / self.rows)

    def _forward(self, S: Floats) -> Floats:
        return self.coordinates.covariances_forward(S, True, False)


def weighted_median(x: Floats, mass: Floats) -> float:
    """The smallest value with at least half of the mass at or below it."""
    if (mass == mass[0]).all():
        middle = (len(x) - 1) // 2
        return float(np.partition(x, middle)[middle])  # a tenth of the time of a sort
    order = np.argsort(x)
    total = np.cumsum(mass[order])
    return float(x[order[np.searchsorted(total, total[-1] / 2 * (1 - 1e-12))]])


def estimator_blocks(estimator: Any, d: int) -> Blocks:
    """The blocks of features, or () if there is but one."""
    if estimator.blocks is None:
        return ()
    return checks.check_blocks(estimator.blocks, d, getattr(estimator, "feature_names_in_", None))


def build_structure(estimator: Any, d: int) -> Structure:
    """The covariance structure that the options ask for."""
    name = estimator.covariance_type
    structure = structure_named(name)
    if name in UNIVARIATE and d != 1:
        raise ValueError(
            f"covariance_type is {name!r}, for one feature, but X has {d}: use EEE, VVV or another name of mclust's"
        )
    if estimator.form == "product" and structure.full and d > 1:
        raise ValueError(
            f"form is 'product' and covariance_type {name!r}; coordinates are independent in it: use diag or tied_diag"
        )
    if estimator.blocks is not None and estimator.form == "product":
        raise ValueError(
            f"blocks is {estimator.blocks!r}, but form is 'product', whose coordinates are independent anyway: leave it out"
        )
    if estimator.blocks is not None:
        structure = BlockDiagonal(estimator_blocks(estimator, d), (structure,))
    return structure


def refuse_covariance_options(estimator: Any) -> None:
    """Families that have no scale matrix take no options about it."""
    asked = {
        "covariance_type": estimator.covariance_type != "full",
        "reg_covar": not isinstance(estimator.reg_covar, str),
        "form": estimator.form != "elliptical",
        "blocks": estimator.blocks is not None,
        "eigenvalue_bounds": estimator.eigenvalue_bounds is not None,
        "prior": estimator.prior is not None,
        "frozen": estimator.frozen is not None,
        "precisions_init": estimator.precisions_init is not None,
    }
    wrong = [name for name, given in asked.items() if given]
    if wrong:
        raise ValueError(
            f"{wrong[0]} is {getattr(estimator, wrong[0])!r}; it is about scale matrices, which the family "
            f"{estimator.family!r} does not have: leave it at its default"
        )


def learned_columns(estimator: Any, prescribed: Floats | None, frozen: Booleans | None) -> Booleans:
    """Which columns, the noise last, have weights that are learned."""
    K = estimator.n_components
    learned = np.full(K, prescribed is None)
    if frozen is not None:
        learned &= ~frozen
    if estimator.noise is None:
        return learned
    return np.append(learned, estimator.noise == "estimate")
