"""Component families, one file each; they know nothing of transport. `base` is the contract, `covariances` the structures."""

from .base import Family
from .covariances import STRUCTURES, Regularisation, Structure
from .gaussian import Gaussian

#: families by name
FAMILIES: dict[str, type[Family]] = {"gaussian": Gaussian}

__all__ = ["FAMILIES", "STRUCTURES", "Family", "Gaussian", "Regularisation", "Structure"]
