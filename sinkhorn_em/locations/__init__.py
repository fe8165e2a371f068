"""Gaussian mixtures of which only the means, and perhaps the weights, move: many small fits at once, and their landscape.

`fit_locations` runs EM or Sinkhorn-EM from many starts or on many data sets; `objective`, `gradient` and `hessian` are the two
losses of Mena, Nejatbakhsh, Varol, Niles-Weed (2020) as functions of the means.
"""

from .fit import LocationFits, fit_locations
from .landscape import gradient, hessian, objective

__all__ = ["LocationFits", "fit_locations", "gradient", "hessian", "objective"]
