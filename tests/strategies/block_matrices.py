"""Every block family: how to make it, a matrix it takes, and the law of a cell by scipy."""

import numpy as np
from scipy import stats
from scipy.sparse import csr_array

from sinkhorn_em.block_families import Bernoulli, Gaussian, Multinomial, NegativeBinomial, Poisson

MARGINS = [None, "row", "column", "both"]

FAMILIES = (
    {f"gaussian-{variance}": Gaussian(variance) for variance in ("common", "column", "block")}
    | {"bernoulli": Bernoulli(), "multinomial": Multinomial()}
    | {f"poisson-{margins}": Poisson(margins) for margins in MARGINS}
    | {f"negative_binomial-{margins}": NegativeBinomial(margins) for margins in MARGINS}
    | {"negative_binomial-held": NegativeBinomial(dispersion=0.7)}
)


def kind(name):
    """The name in the registry."""
    return name.split("-")[0]


def matrix(name, shape, seed=0, zeros=0.5):
    """A matrix of this family with no structure; about this part of the cells is 0."""
    rng = np.random.default_rng(seed)
    draw = {
        "gaussian": lambda: rng.normal(1.0, 2.0, shape),
        "poisson": lambda: 1.0 + rng.poisson(3.0, shape),
        "bernoulli": lambda: np.ones(shape),
        "negative_binomial": lambda: 1.0 + rng.negative_binomial(0.5, 0.05, shape),
        "multinomial": lambda: rng.choice([-1.5, 2.0, 7.0], shape),
    }[kind(name)]
    return draw() * (rng.random(shape) >= zeros)


def responsibilities(rows, clusters, seed=0):
    """Random responsibilities (rows, clusters), some of them hard."""
    rng = np.random.default_rng(seed)
    T = rng.dirichlet(np.full(clusters, 0.7), rows)
    T[: rows // 3] = np.eye(clusters)[rng.integers(clusters, size=rows // 3)]
    return T


def left_out(shape, share=0.2, seed=0):
    """A random mask."""
    return np.random.default_rng(seed + 99).random(shape) < share


def as_cells(family, X, mask=None, sparse=False, scale=None, new=None):
    """(cells, scale) of X without the cells of the mask."""
    X = np.array(X)
    missing = None
    if mask is not None:
        X[mask] = 0
        missing = csr_array(mask.astype(float))
    M = csr_array(X) if sparse else X
    scale = family.measure(M, missing) if scale is None and new is None else scale
    return family.cells(M, missing, scale, new), scale


def block_sums(cells, T, N):
    """(sums, exposure) of the blocks."""
    both = np.einsum("ik,cil->ckl", T, cells.over_columns(N))
    return both[:-1], both[-1]


def value(family, cells, parameters, sums, exposure):
    """The expected log-likelihood."""
    eta, A = family.natural(parameters)
    return (eta * sums).sum() - (exposure * A).sum() + family.constant(cells, parameters)


def log_density(name, X, e, told, k, l):
    """log f of all cells (n, m) in block k, l by scipy, from described parameters and exposures (n, m)."""
    if kind(name) == "gaussian":
        return stats.norm.logpdf(X, told["means"][k, l], np.sqrt(told["variances"][k, l]))
    if kind(name) == "bernoulli":
        return stats.bernoulli.logpmf(X, told["probabilities"][k, l])
    if kind(name) == "multinomial":
        return np.log(told["probabilities"][k, l])[np.searchsorted(told["categories"], X)]
    mean = e * told["rates"][k, l]
    if kind(name) == "poisson":
        return stats.poisson.logpmf(X, mean)
    size = e / told["dispersion"]
    p = 1 / (1 + told["dispersion"] * told["rates"][k, l])
    # scipy has no size 0: such a cell is 0 for sure
    return np.where(e > 0, stats.nbinom.logpmf(X, np.where(e > 0, size, 1.0), p), np.where(X > 0, -np.inf, 0.0))


def moved(name, family, parameters, size, rng):
    """Parameters nearby that the family allows."""
    if kind(name) == "gaussian":
        means, v = parameters
        shape = {"common": (1, 1), "column": (1, v.shape[1]), "block": v.shape}[family.variance]
        return parameters._replace(
            means=means + size * rng.normal(size=means.shape), variances=v * np.exp(size * rng.normal(size=shape))
        )
    if kind(name) == "bernoulli":
        p = parameters.probabilities
        odds = p / (1 - p) * np.exp(size * rng.normal(size=p.shape))
        return parameters._replace(probabilities=odds / (1 + odds))
    if kind(name) == "multinomial":
        p = parameters.probabilities * np.exp(size * rng.normal(size=parameters.probabilities.shape))
        return parameters._replace(probabilities=p / p.sum(axis=2, keepdims=True))
    rates = parameters.rates * np.exp(size * rng.normal(size=parameters.rates.shape))
    new = parameters._replace(rates=rates)
    if getattr(family, "dispersion", None) == "common":
        new = new._replace(dispersion=np.clip(parameters.dispersion * np.exp(size * rng.normal()), 1e-8, 1e4))
    return new


def same(one, other, rel, abs=0.0):
    """Whether two NamedTuples of parameters agree."""
    return all(np.allclose(a, b, rtol=rel, atol=abs) for a, b in zip(one, other, strict=True))
