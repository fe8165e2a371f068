"""Priors as a user states them, in the units of the data.

They are checked in `fit`, which knows K and d: a ValueError names the field, its value, the rule and the remedy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class NormalPrior:
    r"""Normal prior on the locations: :math:`m_k \sim N(\mu_k, B_k)`, its own for every component.

    The prior of an atlas: each component is known to lie near its own place (Nejatbakhsh et al. 2020, Mena et al. 2020).

    Parameters
    ----------
    means : array (K, d) or (d,)
        :math:`\mu_k`, in units of the data.
    covariances : array (K, d, d), (d, d), variances (d,), or one variance
        :math:`B_k`, in squared units.
    """

    means: Any
    covariances: Any


@dataclass(frozen=True)
class InverseWishart:
    r"""Inverse-Wishart prior on scale matrices: :math:`p(S) \propto |S|^{-(\nu+d+1)/2} e^{-\operatorname{tr}(\Lambda S^{-1})/2}`.

    On every component's matrix, or once on a matrix that all share. For diagonal structures it is the product of inverse gamma
    densities :math:`s_j^{-(\nu+2)} e^{-\Lambda_{jj}/(2 s_j^2)}`, for spherical ones that of the one variance, with
    :math:`\Lambda = \varsigma^2` (Fraley & Raftery 2007).

    Parameters
    ----------
    dof : float
        Degrees of freedom :math:`\nu > d - 1` (> 0 for diagonal and spherical structures).
    scale : array (d, d), or variances (d,), or one variance
        :math:`\Lambda`, in squared units of the data.
    """

    dof: Any
    scale: Any


@dataclass(frozen=True)
class NormalInverseWishart:
    r"""The conjugate prior :math:`m_k | S_k \sim N(\mu, S_k/\kappa)`, :math:`S_k \sim IW(\nu, \Lambda)`; the defaults are mclust's.

    ``prior="mclust"`` is short for ``NormalInverseWishart()``: mclust's ``priorControl()``.

    Parameters
    ----------
    mean : array (d,), optional
        :math:`\mu`; default the mean of the data.
    shrinkage : float
        :math:`\kappa`; default 0.01.
    dof : float, optional
        :math:`\nu`; default d + 2.
    scale : array, optional
        :math:`\Lambda`; default the covariance of the data (denominator n - 1) over :math:`K^{2/d}`; for diagonal and
        spherical structures the mean variance over :math:`K^{2/d}`.

    References
    ----------
    Fraley & Raftery 2007, Bayesian regularization for normal mixture estimation and model-based clustering.
    """

    mean: Any = None
    shrinkage: Any = 0.01
    dof: Any = None
    scale: Any = None
