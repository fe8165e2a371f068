"""Generators: the one function of the radius that tells location-scale families apart. One file each; `base` is the contract."""

from .base import Generator
from .contaminated_gaussian import ContaminatedGaussian
from .gaussian import Gaussian
from .generalised_gaussian import GeneralisedGaussian
from .hyperbolic_secant import HyperbolicSecant
from .laplace import Laplace
from .logistic import Logistic
from .student_t import Cauchy, StudentT

#: generators by the name of their family
GENERATORS: dict[str, type[Generator]] = {
    "gaussian": Gaussian,
    "student_t": StudentT,
    "cauchy": Cauchy,
    "laplace": Laplace,
    "logistic": Logistic,
    "hyperbolic_secant": HyperbolicSecant,
    "generalised_gaussian": GeneralisedGaussian,
    "contaminated_gaussian": ContaminatedGaussian,
}

__all__ = [
    "GENERATORS",
    "Cauchy",
    "ContaminatedGaussian",
    "Gaussian",
    "GeneralisedGaussian",
    "Generator",
    "HyperbolicSecant",
    "Laplace",
    "Logistic",
    "StudentT",
]
