"""Mixture estimators with the scikit-learn contract."""

from .gaussian import GaussianMixture
from .location_scale import LocationScaleMixture

__all__ = ["GaussianMixture", "LocationScaleMixture"]
