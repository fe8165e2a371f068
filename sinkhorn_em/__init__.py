"""Model-based clustering by Sinkhorn-EM: mixtures whose E-step is an entropic transport problem."""

from ._compiled import get_num_threads, set_num_threads
from .coclustering import LatentBlockModel
from .mixture import GaussianMixture, LocationScaleMixture
from .ot import solve_plan

__version__ = "0.1.0"
__all__ = [
    "GaussianMixture",
    "LatentBlockModel",
    "LocationScaleMixture",
    "get_num_threads",
    "set_num_threads",
    "solve_plan",
]
