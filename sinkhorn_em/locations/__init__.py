"""Gaussian mixtures of which only the means, and perhaps the weights, move: many small fits at once.

`fit_locations` runs EM or Sinkhorn-EM (Mena, Nejatbakhsh, Varol, Niles-Weed 2020) from many starts or on many data sets.
"""

from .fit import LocationFits, fit_locations

__all__ = ["LocationFits", "fit_locations"]
