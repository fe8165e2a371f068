"""`fit_locations`: EM and Sinkhorn-EM for the means of Gaussian components, many fits at once."""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from .._compiled import n_blocks, run_blocks, tile_rows
from .._typing import Booleans, Floats, Integers
from ..ot.batch import TURNS, check_masses, check_tau
from .checks import Whitening, check_covariance, check_data, check_means, check_rows
from .kernels import Options, Path, fit_block


class LocationFits(NamedTuple):
    """B fits, from `fit_locations`."""

    #: (B, K, d), in the units of the data
    means: Floats
    #: (B, K)
    weights: Floats
    #: (B, K) column potentials g of the last plan, nats, sum w g = 0; 0 for tau = 0; -inf for weights of 0
    potentials: Floats
    #: (B,) mean lower bound at ``means``, nats per unit of mass, with the Gaussian's constant; for tau = 0 the mean log-likelihood
    bounds: Floats
    #: (B,) M-steps
    n_iter: Integers
    #: (B,) passes over the scores
    n_passes: Integers
    #: (B,) the bound rose by less than ``tol``, and the last plan has its column masses within 1e-4
    converged: Booleans
    #: (B, max_iter + 1, K, d) means before every M-step and at the end; the last is repeated. None unless ``record``
    path: Floats | None
    #: (B, max_iter + 1, K)
    path_weights: Floats | None
    #: (B, max_iter + 1)
    path_bounds: Floats | None


def fit_locations(
    X: Any,
    means: Any,
    weights: Any = None,
    *,
    tau: float = 1.0,
    learn_weights: bool = False,
    covariance: Any = 1.0,
    symmetric: bool = False,
    row_mass: Any = None,
    data: Any = None,
    max_iter: int = 200,
    tol: float = 1e-9,
    record: bool = False,
) -> LocationFits:
    r"""Fit the means of B mixtures of Gaussians with one known covariance, each from its own start.

    An iteration is, with :math:`r_{ik} = \mathrm{softmax}_k(\log w_k + g_k + \log N(x_i; \mu_k, \Sigma))`,

    .. math:: \mu_k \leftarrow \sum_i a_i r_{ik} x_i \Big/ \sum_i a_i r_{ik}

    with g = 0 for EM (``tau=0``); for Sinkhorn-EM (``tau=1``) g are the potentials that make :math:`\sum_i a_i r_{ik} = w_k`.
    The whole loop of a fit is compiled, fits are shared out over threads, and the result has the same bits for every number of
    threads.

    Parameters
    ----------
    X : array (n, d) or (G, n, d)
        One data set, or G of one size.
    means : array (B, K, d)
        The starts.
    weights : array (K,) or (B, K), optional
        Normalised to sum 1; default uniform. Held, unless ``learn_weights``.
    tau : 0 or 1
        0: EM; 1: Sinkhorn-EM.
    learn_weights : bool
        Set the weights to the column masses. With ``tau=0`` only: with ``tau=1`` the masses are the weights.
    covariance : float or array (d, d)
        The variance, or the covariance matrix, of every component, in squared units of the data.
    symmetric : bool
        K = 2 and the means are (theta, -theta): theta <- sum_i a_i (r_i1 - r_i2) x_i (Mena et al. 2020, figure 2).
    row_mass : array (n,) or (G, n), optional
        Masses a >= 0 of the rows, each normalised to sum 1: frequencies, or the weights of a quadrature; default uniform.
    data : array (B,) of int, optional
        Which data set each problem uses. By default all use the only one, or problem b uses data set b if G = B.
    max_iter : int
        Largest number of M-steps.
    tol : float
        A problem stops when its bound rises by less than this, nats per unit of mass; 0: after ``max_iter`` M-steps.
    record : bool
        Keep means, weights and bounds of every iteration.

    Returns
    -------
    LocationFits
        A component that loses all its mass keeps its mean.

    Raises
    ------
    ValueError
        Shapes, masses or a covariance that do not fit; ``learn_weights`` with ``tau=1``; ``symmetric`` from means that are not.

    References
    ----------
    Mena, Nejatbakhsh, Varol, Niles-Weed 2020, arXiv:2006.16548.

    Examples
    --------
    >>> import numpy as np
    >>> from sinkhorn_em.locations import fit_locations
    >>> X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> fits = fit_locations(X, [[[0.5], [-0.5]], [[1.0], [3.0]]])
    >>> fits.means[:, :, 0].round(2)
    array([[ 1.34, -1.34],
           [-1.34,  1.34]])
    """
    rows = check_rows(X, stacked=True)
    G, n, d = rows.shape
    M = check_means(means, d)
    B, K = M.shape[:2]
    w = np.array(np.broadcast_to(check_masses(weights, B, K, "weights"), (B, K)), order="C")
    a, which = check_masses(row_mass, G, n, "row_mass"), check_data(data, B, G)
    check_tau(tau)
    _check_options(tau, learn_weights, max_iter, tol)
    if symmetric:
        _check_symmetric(M)
    whitening = check_covariance(covariance, d)
    shift = np.zeros((G, d)) if symmetric else np.einsum("gn,gnd->gd", np.broadcast_to(a, (G, n)), rows)
    Y = np.ascontiguousarray(whitening.forward(rows - shift[:, None], "X").transpose(0, 2, 1))
    M = np.ascontiguousarray(whitening.forward(M - shift[which][:, None], "means"))
    tile = min(tile_rows(K), n)
    options = Options(
        bool(tau == 1), bool(learn_weights), bool(symmetric), int(max_iter), float(tol), tile, whitening.log_peak
    )
    g, numbers, paths = np.zeros((B, K)), np.empty((B, 4)), _memory(B, K, d, max_iter + 1 if record else 0)
    run_blocks(
        lambda block, start, stop: fit_block(Y, a, which, options, start, stop, M, w, g, paths, numbers),
        B,
        n_blocks(B, n * K * TURNS, 1),
    )
    g[w == 0] = -np.inf
    return _fits(M, w, g, paths if record else None, numbers, whitening, shift[which][:, None])


def _fits(
    M: Floats, w: Floats, g: Floats, paths: Path | None, numbers: Floats, whitening: Whitening, shift: Floats
) -> LocationFits:
    """Results in the units of the data."""
    return LocationFits(
        means=whitening.backward(M) + shift,
        weights=w,
        potentials=g,
        bounds=numbers[:, 0],
        n_iter=numbers[:, 1].astype(np.int64),
        n_passes=numbers[:, 2].astype(np.int64),
        converged=numbers[:, 3] > 0,
        path=None if paths is None else whitening.backward(paths.means) + shift[:, None],
        path_weights=None if paths is None else paths.weights,
        path_bounds=None if paths is None else paths.bounds,
    )


def _memory(B: int, K: int, d: int, length: int) -> Path:
    return Path(np.empty((B, length, K, d)), np.empty((B, length, K)), np.empty((B, length)))


def _check_options(tau: float, learn_weights: bool, max_iter: int, tol: float) -> None:
    if tau == 1 and learn_weights:
        raise ValueError(
            "learn_weights is True and tau is 1; column masses held at the weights teach nothing about them: use tau=0, or "
            "hold the weights"
        )
    if not (isinstance(max_iter, Integral) and max_iter >= 0):
        raise ValueError(f"max_iter is {max_iter!r}; it must be an integer of at least 0")
    if not float(tol) >= 0:
        raise ValueError(f"tol is {tol}; it must not be negative: 0 runs all max_iter iterations")


def _check_symmetric(M: Floats) -> None:
    if M.shape[1] != 2:
        raise ValueError(f"means has shape {M.shape} and symmetric is True; a symmetric mixture has K = 2 components")
    off = np.flatnonzero((M[:, 0] != -M[:, 1]).any(axis=1))
    if len(off):
        raise ValueError(
            f"means[{off[0]}] is {M[off[0]].tolist()} and symmetric is True; the second mean must be minus the first: stack "
            "theta and -theta"
        )
