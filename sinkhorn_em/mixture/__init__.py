"""Mixture estimators with the scikit-learn contract."""

from .gaussian import GaussianMixture

__all__ = ["GaussianMixture"]
