"""Rows for every registered family, and the estimator that fits them."""

import numpy as np

from sinkhorn_em import LocationScaleMixture
from sinkhorn_em.families import FAMILIES, GENERATORS

N, K, D = 240, 3, 3
CENTRES = np.array([[0.0, 0.0, 0.0], [6.0, 2.0, 0.0], [0.0, 5.0, 7.0]])
UNIVARIATE = ("skew_normal",)
COUNTS = ("poisson", "bernoulli", "multinomial")

#: every family by a name of its own, with the options of the estimator that fits it
MEMBERS = {
    **{name: {"family": name} for name in FAMILIES},
    **{f"{name}, product": {"family": name, "form": "product", "covariance_type": "diag"} for name in GENERATORS},
}


def continuous(member):
    return MEMBERS[member]["family"] not in COUNTS


def rows(member, seed=0, n=N):
    """Rows (n, d) that the family may be fitted to: three groups, with heavier tails than a Gaussian's."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % K
    name = MEMBERS[member]["family"]
    if name == "poisson":
        return rng.poisson(1 + CENTRES[labels] ** 2).astype(float)
    if name == "bernoulli":
        return (rng.uniform(size=(n, 6)) < np.eye(3).repeat(2, axis=1)[labels] * 0.7 + 0.15).astype(float)
    if name == "multinomial":
        p = (1 + CENTRES) / (1 + CENTRES).sum(axis=1, keepdims=True)
        return np.array([rng.multinomial(12, p[k]) for k in labels]).astype(float)
    X = CENTRES[labels] + rng.standard_t(6, size=(n, D))
    return X[:, [1]] * 2 + 5.0 * labels[:, None] if name in UNIVARIATE else X


def mixture(member, **options):
    """An unfitted estimator for the family."""
    return LocationScaleMixture(**{"n_components": K, "random_state": 0, **MEMBERS[member], **options})
