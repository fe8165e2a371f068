"""From options to a mixture: its class, its family, noise and prior."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import GaussianMixture, LocationScaleMixture
from ..families import FAMILIES, Generator, StudentT
from ..families.covariances import MCLUST_NAMES, STRUCTURES
from ..mixture.base import BaseMixture
from ..mixture.model import member
from .messages import choice, fail

COVARIANCES = (*STRUCTURES, *MCLUST_NAMES)
DF = ("common", "component")


def build(family: str, df: str | None, noise: str | None, prior: str | None, options: dict[str, Any]) -> BaseMixture:
    """The mixture that the options ask for, not yet fitted."""
    choice("--family", family, FAMILIES)
    choice("--covariance", options["covariance_type"], COVARIANCES)
    if df is not None and family != "student_t":
        fail(f"--df is {df}, but --family is {family}; degrees of freedom are for --family student_t")
    if prior is not None:
        choice("--prior", prior, ("mclust",))
    options = {**options, "noise": _noise(noise), "prior": prior}
    if family == "gaussian":
        return GaussianMixture(**options)
    return LocationScaleMixture(family=family if df is None else StudentT(_df(df)), **options)


def tiny(model: BaseMixture) -> BaseMixture:
    """A mixture for a few rows of one feature, whose fit loads the compiled code that ``model`` needs."""
    family = model.family
    if not isinstance(member(family), Generator):
        return GaussianMixture(2, max_iter=1, random_state=0)
    options: dict[str, Any] = {"covariance_type": model.covariance_type, "max_iter": 1, "random_state": 0}
    return LocationScaleMixture(2, family=family, **options)


def family_name(model: BaseMixture) -> str:
    """The name that --family has for it."""
    kind = type(member(model.family))
    return next(name for name, member_kind in FAMILIES.items() if member_kind is kind)


def shape_parameters(model: BaseMixture) -> dict[str, Any]:
    """Parameters of components besides weights, locations and scale matrices, by name, (K,) each; (K, d) ones are left out."""
    family = member(model.family)
    names = family.shape_names if isinstance(family, Generator) else ("scales", "slants")
    values = {name: np.asarray(getattr(model, f"{name}_")) for name in names if hasattr(model, f"{name}_")}
    return {name: value.ravel() for name, value in values.items() if value.size == model.n_components}


def _noise(text: str | None) -> Any:
    if text is None or text == "estimate":
        return text
    try:
        return float(text)
    except ValueError:
        fail(f"--noise is {text!r}; it must be estimate, or the share of noise, strictly between 0 and 1")


def _df(text: str) -> Any:
    if text in DF:
        return text
    try:
        return float(text)
    except ValueError:
        fail(f"--df is {text!r}; it must be common, component, or a positive number")
