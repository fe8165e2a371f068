"""`LocationScaleMixture`: mixtures of every family, by Sinkhorn-EM."""

from __future__ import annotations

from typing import Any

from .base import BaseMixture


class LocationScaleMixture(BaseMixture):
    r"""Mixture of location-scale components (or of counts), fitted by Sinkhorn-EM.

    .. math:: f_k(x) = |S_k|^{-1/2} g(q),\quad q = (x - m_k)^T S_k^{-1} (x - m_k),

    with the generator g of the family, any covariance structure for S, and the E-step of `GaussianMixture` (which is the family
    "gaussian" of this one). Options, attributes and methods are those of `GaussianMixture`, and

    Parameters
    ----------
    n_components : int
        K.
    family : str or object of `sinkhorn_em.families`, default "student_t"
        "gaussian", "student_t", "cauchy", "laplace", "logistic", "hyperbolic_secant", "generalised_gaussian" and
        "contaminated_gaussian" are location-scale families in any dimension; "gumbel" has independent coordinates, "skew_normal"
        one; "poisson", "bernoulli" and "multinomial" are for counts. Objects hold the options: ``StudentT(df=4)``,
        ``StudentT(df="component")``, ``GeneralisedGaussian(power=1.5)``, ``Gumbel(tail="left")``. So may a `Family` of your own.
    covariance_type : str, default "full"
        As for `GaussianMixture`. S is the scale matrix: the covariance for the Gaussian, a multiple of it (if there is one) else.
    form : {"elliptical", "product"}, default "elliptical"
        Whether the generator acts on the Mahalanobis radius, or on every standardised coordinate on its own (diagonal structures).

    Attributes
    ----------
    means_ : array (K, d)
        Locations; rates or probabilities for counts.
    covariances_, precisions_, precisions_cholesky_ : arrays
        Scale matrices, in the shape of their structure.
    df_, power_, contamination_, inflation_ : arrays (K,)
        Shape parameters of the family, if it has any.
    scales_, slants_ : arrays
        Of the Gumbel and skew-normal families.
    weights_, lower_bound_, ... :
        As for `GaussianMixture`.

    Raises
    ------
    ValueError
        Parameters or data that do not fit; the message says which, and what to do.

    References
    ----------
    Mena, Nejatbakhsh, Varol & Niles-Weed 2020, arXiv:2006.16548; Lange, Little & Taylor 1989; Peel & McLachlan 2000.

    Examples
    --------
    >>> from sinkhorn_em import LocationScaleMixture
    >>> from sinkhorn_em.families import StudentT
    >>> from sinkhorn_em.datasets import load_faithful
    >>> model = LocationScaleMixture(2, family=StudentT(df=5), tol=1e-9, random_state=0).fit(load_faithful().data)
    >>> round(272 * model.lower_bound_, 4)
    -1137.17
    """

    def __init__(
        self,
        n_components: int = 1,
        *,
        family: Any = "student_t",
        covariance_type: str = "full",
        form: str = "elliptical",
        tau: Any = 1.0,
        weights: Any = "learned",
        trim: float = 0.0,
        size_bounds: Any = None,
        noise: Any = None,
        prior: Any = None,
        frozen: Any = None,
        blocks: Any = None,
        eigenvalue_bounds: Any = None,
        tol: float = 1e-6,
        reg_covar: Any = "scale",
        max_iter: int = 500,
        n_init: int = 1,
        init_params: str = "kmeans",
        weights_init: Any = None,
        means_init: Any = None,
        precisions_init: Any = None,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: int = 0,
        verbose_interval: int = 10,
    ) -> None:
        self.n_components = n_components
        self.family = family
        self.covariance_type = covariance_type
        self.form = form
        self.tau = tau
        self.weights = weights
        self.trim = trim
        self.size_bounds = size_bounds
        self.noise = noise
        self.prior = prior
        self.frozen = frozen
        self.blocks = blocks
        self.eigenvalue_bounds = eigenvalue_bounds
        self.tol = tol
        self.reg_covar = reg_covar
        self.max_iter = max_iter
        self.n_init = n_init
        self.init_params = init_params
        self.weights_init = weights_init
        self.means_init = means_init
        self.precisions_init = precisions_init
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.verbose_interval = verbose_interval
