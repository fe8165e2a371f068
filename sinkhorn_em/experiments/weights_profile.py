"""L and l as functions of the weights, the means held: where both are least, and the slope of L."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ..datasets import simulate_centres, simulate_gaussian_mixture
from ..locations import fit_locations, objective
from ..weight_steps import ExponentiatedGradient
from .weights_fits import MixtureFit, loop

STEP = 2e-5  # of the differences: their error is its square
CURVE = (0.7, 0.3)  # weights of the picture of L and l
ROWS = 300
APART = 2.0  # standard deviations: components overlap, and the best weights are not 0


def identity(d: int, n_components: int, rng: np.random.Generator) -> pd.DataFrame:
    """Least L and least l over the weights, where L's own descent ends, and the error of dL/dw = g in differences of two weights.

    L >= l, so that no weights have a smaller L than those where l is least, if L = l there.
    """
    means = simulate_centres(n_components, d, APART, random_state=rng)
    weights = rng.dirichlet(np.full(n_components, 10.0))
    X, _ = simulate_gaussian_mixture(ROWS, weights, means, np.eye(d), random_state=rng)
    start = MixtureFit(means, np.full(n_components, 1 / n_components))
    options: dict[str, Any] = {"frozen": True, "max_iter": 5000, "tol": 1e-13}
    by_L = loop(X, start, 1.0, step=ExponentiatedGradient(), **options)
    by_l = loop(X, start, 0.0, **options)
    descent, at_best = objective(X, np.stack([means, means]), np.stack([by_L.weights, by_l.weights]), tau=1.0)
    least_L, least_l = min(descent, at_best), objective(X, means[None], by_l.weights, tau=0.0)[0]
    w = rng.dirichlet(np.full(n_components, 5.0)) * 0.9 + 0.1 / n_components
    g = fit_locations(X, means[None], w, tau=1.0, max_iter=0).potentials[0]
    away = STEP * (np.eye(n_components)[1:] - np.eye(n_components)[:1])
    many = np.repeat(means[None], n_components - 1, axis=0)
    ahead, behind = (objective(X, many, w + sign * away, tau=1.0) for sign in (1, -1))
    error = np.abs((ahead - behind) / (2 * STEP) - (g[1:] - g[0])).max()
    numbers = {"least_L": least_L, "least_l": least_l, "descent": descent, "gradient_error": float(f"{error:.3g}")}
    distance = 0.5 * float(np.abs(by_L.weights - by_l.weights).sum())
    return pd.DataFrame([{**numbers, "weight_distance": float(f"{distance:.3g}"), "passes": by_L.n_passes}])


def curve(points: int, rng: np.random.Generator) -> pd.DataFrame:
    """L and l as functions of the weight of one of two components."""
    means = np.array([[0.0], [2.0]])
    X = means[(rng.random(ROWS) < CURVE[1]).astype(int)] + rng.standard_normal((ROWS, 1))
    alpha = np.linspace(0.02, 0.98, points)
    many, weights = np.repeat(means[None], points, axis=0), np.stack([alpha, 1 - alpha], axis=1)
    values = {name: objective(X, many, weights, tau=tau) for name, tau in (("l", 0.0), ("L", 1.0))}
    return pd.DataFrame({"alpha": alpha, **values}).round(6)
