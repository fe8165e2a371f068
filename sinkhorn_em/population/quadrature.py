"""A Gaussian mixture as rows with masses: expectations by quadrature."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Literal

import numpy as np
from scipy.special import roots_hermitenorm

from .._parameters import SYMMETRY_TOLERANCE, valid_means, valid_weights
from .._typing import Floats

N_NODES = 256  # per dimension; see the table in `population_rows`
HALF_WIDTH = 8.5  # standard deviations; a normal has 2e-17 of its mass beyond, less than one rounding error
MAX_ROWS = 5_000_000  # 40 MB a feature


def population_rows(
    weights: Any,
    means: Any,
    *,
    covariance: Any = 1.0,
    n_nodes: int = N_NODES,
    rule: Literal["trapezoid", "hermite"] = "trapezoid",
) -> tuple[Floats, Floats]:
    r"""Rows and masses whose weighted means are expectations under a Gaussian mixture.

    .. math:: \mathbb E f(Y) \approx \sum_i a_i f(y_i), \qquad Y \sim \sum_k w_k N(m_k, \Sigma)

    Every component has the same nodes in its standardised coordinates, a product of one-dimensional rules. Fit, E-step, l and L on
    the rows with ``row_mass`` (or ``sample_weight``) the masses are those of the population.

    Parameters
    ----------
    weights : array (K,)
        Component weights, non-negative, sum 1. A component of weight 0 has no rows.
    means : array (K, d)
        Component means.
    covariance : float, array (d, d) or (K, d, d), default 1
        A variance, the covariance of every component, or one each; positive definite.
    n_nodes : int, default 256
        Nodes per dimension. There are ``n_nodes ** d`` rows for each component, at most 5 000 000 in all: d = 1 or 2 with the
        default, d = 3 with up to 100 or so.
    rule : "trapezoid" or "hermite"
        Equally spaced nodes on 8.5 standard deviations to both sides, or Gauss-Hermite nodes. See Notes.

    Returns
    -------
    rows : ndarray (n, d)
        Nodes, in the units of the means.
    masses : ndarray (n,)
        Their masses, sum 1. Those of far Gauss-Hermite nodes may be 0.

    Raises
    ------
    ValueError
        If a parameter breaks its rule above.

    Notes
    -----
    The posterior of two components at distance D (in standard deviations) has poles at the height ``s = pi / D`` above the real
    line. The trapezoidal rule with step h then errs by about ``exp(-2 pi s / h)``; Gauss-Hermite with N nodes by
    ``exp(-2 s sqrt(N))``, which is slow for sharp posteriors. Largest error of l and of the EM map at means theta and -theta
    (D = 2 theta) on the symmetric mixture (means theta* and -theta*, theta* = 1, 2, 5, weights .6 to .7), against 30-digit
    quadrature:

    =========  =========  ==============  ===============
    rule       n_nodes    \|theta\| <= 2  \|theta\| = 5
    =========  =========  ==============  ===============
    trapezoid  128        4e-16           7e-8
    trapezoid  192        4e-16           3e-11
    trapezoid  256        4e-16           7e-15
    hermite    100        7e-8            9e-5
    hermite    400        3e-15           3e-7
    hermite    1000       7e-15           2e-10
    =========  =========  ==============  ===============

    Gauss-Hermite is exact for polynomials of degree below ``2 n_nodes``, which the trapezoidal rule is to rounding only.

    References
    ----------
    Trefethen & Weideman 2014 (the trapezoidal rule); Mena, Nejatbakhsh, Varol & Niles-Weed 2020, arXiv:2006.16548
    (the population objectives).
    """
    w = valid_weights(weights)
    m = valid_means(means, len(w))
    roots = _cholesky_roots(covariance, *m.shape)  # (K, d, d)
    K, d = m.shape
    _check_size(n_nodes, K, d)
    z, mass = _standard_nodes(rule, n_nodes)
    Z = np.stack(np.meshgrid(*[z] * d, indexing="ij"), axis=-1).reshape(-1, d)  # (n_nodes^d, d)
    masses = np.prod(np.stack(np.meshgrid(*[mass] * d, indexing="ij"), axis=-1).reshape(-1, d), axis=1)
    kept = w > 0
    rows = m[kept, None, :] + Z @ roots[kept].swapaxes(-1, -2)
    return rows.reshape(-1, d), np.outer(w[kept], masses).ravel()


def _standard_nodes(rule: str, n_nodes: int) -> tuple[Floats, Floats]:
    """Nodes and masses of the standard normal distribution."""
    if rule == "trapezoid":
        z = np.linspace(-HALF_WIDTH, HALF_WIDTH, n_nodes)
        mass = np.exp(-(z**2) / 2)
    elif rule == "hermite":
        z, mass = roots_hermitenorm(n_nodes)
    else:
        raise ValueError(
            f"rule={rule!r} must be 'trapezoid' or 'hermite'; the first is the more exact for sharp posteriors."
        )
    return z, mass / mass.sum()


def _check_size(n_nodes: int, K: int, d: int) -> None:
    if not isinstance(n_nodes, Integral) or n_nodes < 2:
        raise ValueError(f"n_nodes={n_nodes!r} must be an integer of at least 2; {N_NODES} is the default.")
    if K * float(n_nodes) ** d > MAX_ROWS:
        raise ValueError(
            f"n_nodes={n_nodes} in d = {d} dimensions makes {K} x {n_nodes}^{d} rows, and at most {MAX_ROWS} are allowed; "
            f"pass n_nodes={int((MAX_ROWS / K) ** (1 / d))} or fewer, or draw a large sample instead."
        )


def _cholesky_roots(covariance: Any, K: int, d: int) -> Floats:
    """Lower triangular roots of the covariances (K, d, d)."""
    sigma = np.asarray(covariance, dtype=np.float64)
    if sigma.ndim == 0:
        sigma = sigma * np.eye(d)
    if sigma.shape not in ((d, d), (K, d, d)):
        raise ValueError(
            f"covariance of shape {sigma.shape} must be a number, or of shape (d, d) = {(d, d)} or (K, d, d) = {(K, d, d)}; "
            "write variances as a diagonal matrix, numpy.diag(variances)."
        )
    symmetric = np.all(np.isfinite(sigma)) and np.allclose(
        sigma, sigma.swapaxes(-1, -2), rtol=SYMMETRY_TOLERANCE, atol=0
    )
    try:
        if symmetric:
            return np.broadcast_to(np.linalg.cholesky(sigma), (K, d, d))
    except np.linalg.LinAlgError:
        pass  # not positive definite: the same rule, the same message
    raise ValueError(
        f"covariance={sigma.tolist()} must be finite, symmetric and positive definite; a number is a variance and positive."
    )
