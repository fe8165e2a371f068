"""The losses of Mena et al. (2020) as functions of the means: value, gradient and Hessian at many points at once.

In whitened coordinates let z_ik = x_i - mu_k, r_ik = softmax_k(log w_k + g_k - |z_ik|^2/2), c_k = sum_i a_i r_ik, and F the
semi-dual of `sinkhorn_em.ot`, here a function of means and potentials. The loss is -F for tau = 0, where g = 0, and -min_g F for
tau = 1; there g depends on the means, and its derivative comes from F_gg dg = -F_g,mu dmu.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .._compiled import kernel, n_blocks, run_blocks, tile_rows
from .._typing import Floats
from ..ot.batch import Plans, check_masses, check_tau, solve_plans
from ..ot.kernel import responsibilities
from ..ot.solve import offset_of
from .checks import Whitening, check_covariance, check_means, check_rows
from .kernels import moments_pass, unit_scores

_TOL = 1e-11  # L1 error of the column masses: the gradient is that exact, the value as its square
_CHUNK_BYTES = 1 << 27  # of the scores at work


class _Landscape(NamedTuple):
    """A data set, and the points at which its loss is wanted."""

    X: Floats  # (n, d), whitened
    row_mass: Floats  # (n,)
    means: Floats  # (B, K, d), whitened
    weights: Floats  # (B, K)
    tau: float
    whitening: Whitening

    def solved(self) -> Iterator[tuple[slice, Floats, Plans]]:
        """Points, their scores (points, K, n) and plans, so many at a time that the scores keep within bounds."""
        step = max(1, _CHUNK_BYTES // (8 * len(self.X) * self.means.shape[1]))
        for start in range(0, len(self.means), step):
            points = slice(start, start + step)
            scores = _scores(self.X, self.means[points])
            rows = scores.transpose(0, 2, 1)
            yield points, scores, solve_plans(rows, self.row_mass, self.weights[points], tau=self.tau, tol=_TOL)


def objective(
    X: Any, means: Any, weights: Any = None, *, tau: float, covariance: Any = 1.0, row_mass: Any = None
) -> Floats:
    r"""The loss of B sets of means on one data set, nats per unit of mass, with the Gaussian's constant.

    .. math:: \ell(\mu) = -\sum_i a_i \log \sum_k w_k N(x_i; \mu_k, \Sigma), \qquad
        L(\mu) = -\min_g \sum_i a_i \log \sum_k w_k e^{g_k} N(x_i; \mu_k, \Sigma) + \sum_k w_k g_k

    for ``tau`` 0 and 1, the losses of EM and of Sinkhorn-EM. L is never smaller than l.

    Parameters
    ----------
    X : array (n, d)
    means : array (B, K, d)
        The points.
    weights : array (K,) or (B, K), optional
        Normalised to sum 1; default uniform.
    tau : 0 or 1
        0: the negative mean log-likelihood l, which EM lowers; 1: the entropic transport loss L of Sinkhorn-EM.
    covariance : float or array (d, d)
        The variance, or the covariance matrix, of every component, in squared units of the data.
    row_mass : array (n,), optional
        Masses of the rows, normalised to sum 1; default uniform.

    Returns
    -------
    array (B,)

    Raises
    ------
    ValueError
        Shapes, masses or a covariance that do not fit, any other ``tau``.

    References
    ----------
    Mena, Nejatbakhsh, Varol, Niles-Weed 2020, arXiv:2006.16548.
    """
    landscape = _landscape(X, means, weights, tau, covariance, row_mass)
    out = np.empty(len(landscape.means))
    for points, _, plans in landscape.solved():
        out[points] = -plans.value - landscape.whitening.log_peak
    return out


def gradient(
    X: Any, means: Any, weights: Any = None, *, tau: float, covariance: Any = 1.0, row_mass: Any = None
) -> Floats:
    r"""The gradient of `objective` with respect to the means.

    .. math:: \partial \ell / \partial \mu_k = -\sum_i a_i r_{ik} \Sigma^{-1} (x_i - \mu_k)

    and the same for L with the responsibilities of the transport plan: its potentials are optimal, so that their derivative
    does not count.

    Parameters
    ----------
    X, means, weights, tau, covariance, row_mass
        As for `objective`.

    Returns
    -------
    array (B, K, d)
        In nats per unit of the data.

    Raises
    ------
    ValueError
        As `objective`.

    References
    ----------
    Mena, Nejatbakhsh, Varol, Niles-Weed 2020, arXiv:2006.16548.
    """
    landscape = _landscape(X, means, weights, tau, covariance, row_mass)
    out = np.empty(landscape.means.shape)
    for points, scores, plans in landscape.solved():
        sums = _moments(landscape, scores, landscape.weights[points], plans.potentials)
        out[points] = sums[..., -1:] * landscape.means[points] - sums[..., :-1]
    return np.asarray(out @ landscape.whitening.inverse)


def hessian(
    X: Any, means: Any, weights: Any = None, *, tau: float, covariance: Any = 1.0, row_mass: Any = None
) -> Floats:
    r"""The Hessian of `objective` with respect to the means, exact.

    .. math:: \nabla^2 L = -F_{\mu\mu} + F_{\mu g} F_{gg}^+ F_{g\mu}

    with the blocks, in whitened coordinates,

    .. math:: F_{\mu_k \mu_l} = \sum_i a_i (\delta_{kl} r_{ik} - r_{ik} r_{il}) z_{ik} z_{il}' - \delta_{kl} c_k I, \quad
        F_{\mu_k g_l} = \sum_i a_i (\delta_{kl} r_{ik} - r_{ik} r_{il}) z_{ik}, \quad
        F_{gg} = \mathrm{diag}(c) - \sum_i a_i r_i r_i'

    For ``tau=0`` the potentials do not move and the second term is absent.

    Parameters
    ----------
    X, means, weights, tau, covariance, row_mass
        As for `objective`.

    Returns
    -------
    array (B, K d, K d)
        Entry (k d + p, l d + q) belongs to feature p of mean k and feature q of mean l. For a symmetric model, means
        (theta, -theta), combine its blocks: H_11 - H_12 - H_21 + H_22.

    Raises
    ------
    ValueError
        As `objective`.

    References
    ----------
    Mena, Nejatbakhsh, Varol, Niles-Weed 2020, arXiv:2006.16548.
    """
    landscape = _landscape(X, means, weights, tau, covariance, row_mass)
    B, K, d = landscape.means.shape
    out = np.empty((B, K * d, K * d))
    for points, scores, plans in landscape.solved():
        for j, point in enumerate(range(B)[points]):
            R = responsibilities(scores[j].T, offset_of(landscape.weights[point], plans.potentials[j]))
            out[point] = _hessian_at(landscape, landscape.means[point], R)
    back = np.kron(np.eye(K), landscape.whitening.inverse)
    return np.asarray(back.T @ out @ back)


def _landscape(X: Any, means: Any, weights: Any, tau: float, covariance: Any, row_mass: Any) -> _Landscape:
    """Checked, whitened, and centred: nothing then cancels in the moments."""
    rows = check_rows(X, stacked=False)[0]
    n, d = rows.shape
    M = check_means(means, d)
    check_tau(tau)
    B, K = M.shape[:2]
    w = np.array(np.broadcast_to(check_masses(weights, B, K, "weights"), (B, K)))
    a, whitening = check_masses(row_mass, 1, n, "row_mass")[0], check_covariance(covariance, d)
    shift = a @ rows
    return _Landscape(whitening.forward(rows - shift, "X"), a, whitening.forward(M - shift, "means"), w, tau, whitening)


def _scores(X: Floats, means: Floats) -> Floats:
    """-|x_i - mu_k|^2 / 2 (B, K, n)."""
    B, K = means.shape[:2]
    out, Y = np.empty((B, K, len(X))), np.ascontiguousarray(X.T)
    run_blocks(lambda block, i, j: _score_block(Y, means, i, j, out), B, n_blocks(B, out[0].size, 1))
    return out


def _moments(landscape: _Landscape, scores: Floats, weights: Floats, g: Floats) -> Floats:
    """sum_i a_i r_ik (x_i, 1), (B, K, d + 1)."""
    B, K, n = scores.shape
    Y, tile = np.ascontiguousarray(landscape.X.T), min(tile_rows(K), n)
    out, offset = np.empty((B, K, len(Y) + 1)), offset_of(weights, g)
    run_blocks(
        lambda block, i, j: _moment_block(Y, scores, landscape.row_mass, offset, tile, i, j, out),
        B,
        n_blocks(B, n * K, 1),
    )
    return out


@kernel
def _score_block(X, means, start, stop, out):
    for j in range(start, stop):
        unit_scores(X, means[j], out[j])


@kernel
def _moment_block(X, scores, row_mass, offset, tile, start, stop, out):
    for j in range(start, stop):
        moments_pass(X, scores[j], row_mass, offset[j], tile, out[j], False)


def _hessian_at(landscape: _Landscape, means: Floats, R: Floats) -> Floats:
    """The Hessian (K d, K d) at one point, whitened, from its responsibilities (n, K)."""
    K, d = means.shape
    Z = landscape.X.T[None] - means[:, :, None]  # (K, d, n)
    RZ = R.T[:, None] * Z
    Q = np.concatenate([RZ.reshape(K * d, -1), R.T])
    P = landscape.row_mass * R.T
    products = (landscape.row_mass * Q) @ Q.T
    own = (P[:, None] * Z) @ Z.transpose(0, 2, 1) - P.sum(axis=1)[:, None, None] * np.eye(d)
    F_mm, F_mg = -products[: K * d, : K * d], -products[: K * d, K * d :]
    for k in range(K):
        block = slice(k * d, (k + 1) * d)
        F_mm[block, block] += own[k]
        F_mg[block, k] += Z[k] @ P[k]
    if landscape.tau == 0:
        return -F_mm
    F_gg = -products[K * d :, K * d :]
    F_gg[np.diag_indices(K)] = 0.0
    F_gg[np.diag_indices(K)] = -F_gg.sum(axis=1)  # a Laplacian: as the solver's, without cancellation
    return np.asarray(-F_mm + F_mg @ np.linalg.pinv(F_gg, hermitian=True) @ F_mg.T)
