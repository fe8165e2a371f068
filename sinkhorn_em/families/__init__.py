"""Component families; they know nothing of transport. `base` is the contract, `location_scale` the machinery that most share.

A location-scale family is a generator (`generators`, one file each) times a covariance structure (`covariances`). The others are
one file each.
"""

from .base import Family
from .bernoulli import Bernoulli
from .covariances import STRUCTURES, Regularisation, Structure
from .generators import (
    GENERATORS,
    Cauchy,
    ContaminatedGaussian,
    Gaussian,
    GeneralisedGaussian,
    Generator,
    HyperbolicSecant,
    Laplace,
    Logistic,
    StudentT,
)
from .gumbel import Gumbel
from .location_scale import Elliptical
from .multinomial import Multinomial
from .poisson import Poisson
from .priors import InverseWishart, NormalInverseWishart, NormalPrior
from .product import Product
from .skew_normal import SkewNormal

#: families by name: generators of location-scale families, and families of their own
FAMILIES: dict[str, type[Generator] | type[Family]] = {
    **GENERATORS,
    "gumbel": Gumbel,
    "skew_normal": SkewNormal,
    "poisson": Poisson,
    "bernoulli": Bernoulli,
    "multinomial": Multinomial,
}

__all__ = [
    "FAMILIES",
    "GENERATORS",
    "STRUCTURES",
    "Bernoulli",
    "Cauchy",
    "ContaminatedGaussian",
    "Elliptical",
    "Family",
    "Gaussian",
    "GeneralisedGaussian",
    "Generator",
    "Gumbel",
    "HyperbolicSecant",
    "InverseWishart",
    "Laplace",
    "Logistic",
    "Multinomial",
    "NormalInverseWishart",
    "NormalPrior",
    "Poisson",
    "Product",
    "Regularisation",
    "SkewNormal",
    "Structure",
    "StudentT",
]
