"""Latent block models in the plain: matrices with blocks, densities of all cells by scipy, the bound and the likelihood."""

import warnings
from itertools import product

import numpy as np
from block_matrices import FAMILIES, kind, log_density
from scipy.special import betaln, logsumexp, xlogy
from sklearn.exceptions import ConvergenceWarning

from sinkhorn_em import LatentBlockModel

#: (row_weights, column_weights) of three row clusters and two column clusters
WEIGHTS = {
    "learned": ("learned", "learned"),
    "uniform": ("uniform", "uniform"),
    "prescribed": ([0.5, 0.3, 0.2], [0.35, 0.65]),
    "mixed": ("learned", [0.35, 0.65]),
}
TAUS = {"0": 0, "half": 0.5, "1": 1, "rows only": (1, 0)}


def blocks(name, shape=(30, 20), K=3, L=2, seed=0, gap=1.0):
    """(X, row labels, column labels): a matrix of the family whose blocks differ, by much where ``gap`` is large."""
    rng = np.random.default_rng(seed)
    z, w = (rng.permutation(np.arange(size) % of) for size, of in zip(shape, (K, L), strict=True))
    level = rng.permutation(K * L).reshape(K, L)[np.ix_(z, w)] - (K * L - 1) / 2
    draw = {
        "gaussian": lambda: 3 + gap * level + rng.normal(size=shape) * (1 + 0.3 * (level > 0)),
        "poisson": lambda: rng.poisson(3 * np.exp(0.4 * gap * level)).astype(float),
        "bernoulli": lambda: (rng.random(shape) < 1 / (1 + np.exp(-0.7 * gap * level))).astype(float),
        "negative_binomial": lambda: rng.poisson(3 * np.exp(0.5 * gap * level) * rng.gamma(2.0, 0.5, shape)).astype(
            float
        ),
        "multinomial": lambda: np.digitize(0.4 * gap * level + rng.normal(size=shape), [-0.7, 0.7]).astype(float),
    }[kind(name)]
    return draw(), z, w


def margins(X, mask, of):
    """Exposures (n, m) that the family ``of`` measures: 1, row or column means, or the fit of independence by turns."""
    observed = np.ones(X.shape) if mask is None else 1.0 - mask
    Y, a, b = np.where(observed > 0, X, 0.0), np.ones(X.shape[0]), np.ones(X.shape[1])
    which = getattr(of, "margins", None)
    mean = Y.sum() / observed.sum()
    if which == "row":
        a = Y.sum(axis=1) / observed.sum(axis=1) / mean
    if which == "column":
        b = Y.sum(axis=0) / observed.sum(axis=0) / mean
    for _ in range(300 if which == "both" else 0):
        a = np.divide(Y.sum(axis=1), observed @ b, out=np.zeros_like(a), where=Y.sum(axis=1) > 0)
        b = np.divide(Y.sum(axis=0), observed.T @ a, out=np.zeros_like(b), where=Y.sum(axis=0) > 0)
    return np.outer(a, b)


def cell_scores(name, X, model, mask=None):
    """log f (K, L, n, m) of all cells by scipy at the fitted parameters; 0 at cells left out."""
    e, told = margins(X, mask, FAMILIES[name]), model.block_parameters_
    K, L = len(model.row_weights_), len(model.column_weights_)
    values = np.where(False if mask is None else mask, 0.0, X)
    if kind(name) == "multinomial" and mask is not None:
        values = np.where(mask, told["categories"][0], X)
    density = negative_binomial if kind(name) == "negative_binomial" else log_density
    S = np.array([[density(name, values, e, told, k, l) for l in range(L)] for k in range(K)])
    return S if mask is None else np.where(mask, 0.0, S)


def negative_binomial(name, X, e, told, k, l):
    """log f by the beta function of scipy: its nbinom loses digits where the dispersion is small and sizes are large."""
    alpha, rate = float(told["dispersion"]), told["rates"][k, l]
    x, r = np.where(X > 0, X, 1.0), np.where(e > 0, e, 1.0) / alpha
    ways = np.where(X > 0, -np.log(x) - betaln(r, x), 0.0)
    return np.where(e > 0, ways + X * np.log(alpha * rate / (1 + alpha * rate)) - r * np.log1p(alpha * rate), 0.0)


def bound(S, T, N, pi, rho):
    """sum T N log f - KL(T | pi) - KL(N | rho), cell by cell."""
    return float(np.einsum("ik,jl,klij->", T, N, S)) - divergence(T, pi) - divergence(N, rho)


def divergence(T, weights):
    """KL(T | weights), nats."""
    return float((xlogy(T, T) - xlogy(T, weights)).sum())


def charge(T, weights, tau):
    """What tau in (0, 1) takes off the bound: n tau / (1 - tau) KL(sizes | weights)."""
    return 0.0 if tau in (0, 1) else len(T) * tau / (1 - tau) * divergence(T.mean(axis=0), weights)


def fitted_bound(name, X, model, mask=None):
    """The bound of a fit from its public attributes."""
    T, N = model.row_responsibilities_, model.column_responsibilities_
    J = bound(cell_scores(name, X, model, mask), T, N, model.row_weights_, model.column_weights_)
    for R, tau, weights, asked in zip(
        (T, N),
        np.broadcast_to(model.tau, 2),
        (model.row_weights_, model.column_weights_),
        (model.row_weights, model.column_weights),
        strict=True,
    ):
        J -= 0.0 if isinstance(asked, str) and asked == "learned" else charge(R, weights, tau)
    return J


def exact(S, pi, rho):
    """(log p(X), P(z_i = k | X), P(w_j = l | X)): the sum over all K^n L^m pairs of labels."""
    K, L, n, m = S.shape
    Z = np.array(list(product(np.eye(K), repeat=n)))  # (K^n, n, K)
    W = np.array(list(product(np.eye(L), repeat=m)))  # (L^m, m, L)
    joint = np.einsum("zik,klij->zjl", Z, S).reshape(len(Z), -1) @ W.reshape(len(W), -1).T
    joint += (Z @ np.log(pi)).sum(axis=1)[:, None] + (W @ np.log(rho)).sum(axis=1)
    total = logsumexp(joint)
    p = np.exp(joint - total)
    return float(total), np.einsum("z,zik->ik", p.sum(axis=1), Z), np.einsum("w,wjl->jl", p.sum(axis=0), W)


def fit(name, X, K=3, L=2, mask=None, labels=(None, None), **options):
    """A fitted model of this family (or family object), whatever became empty, after at most 20 sweeps of the main phase."""
    options = {"random_state": 0, "max_iter": 20} | options
    model = LatentBlockModel(K, L, family=FAMILIES.get(name, name), **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, mask=mask, row_labels=labels[0], column_labels=labels[1])


def left_out(shape, share=0.2, seed=0):
    """A random mask."""
    return np.random.default_rng(seed).random(shape) < share
