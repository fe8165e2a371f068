"""Block families: the law of a cell given its row and its column cluster. `base` has the contract, each family a file."""

from typing import Any

from .base import BlockFamily, Natural
from .bernoulli import Bernoulli
from .gaussian import Gaussian
from .multinomial import Multinomial
from .negative_binomial import NegativeBinomial
from .poisson import Poisson

#: families by name
BLOCK_FAMILIES: dict[str, Any] = {
    "gaussian": Gaussian,
    "poisson": Poisson,
    "bernoulli": Bernoulli,
    "negative_binomial": NegativeBinomial,
    "multinomial": Multinomial,
}

__all__ = [
    "BLOCK_FAMILIES",
    "Bernoulli",
    "BlockFamily",
    "Gaussian",
    "Multinomial",
    "Natural",
    "NegativeBinomial",
    "Poisson",
]
