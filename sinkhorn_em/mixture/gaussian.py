"""`GaussianMixture`: Gaussian mixtures by Sinkhorn-EM, with the contract of scikit-learn's estimator of the same name."""

from __future__ import annotations

from typing import Any

from .base import BaseMixture


class GaussianMixture(BaseMixture):
    r"""Gaussian mixture fitted by Sinkhorn-EM.

    The E-step is the entropic transport plan whose column marginal is the mixture weights,

    .. math:: L(\theta) = \min_g \frac1n \sum_i \log \sum_k w_k e^{g_k} f_k(x_i) - \sum_k w_k g_k \ (= -\text{transport loss}),

    which has the global optimum of the likelihood and fewer traps (Mena et al. 2020). ``tau=0`` is EM.

    Parameters
    ----------
    n_components : int
        K.
    covariance_type : str, default "full"
        Structure of the component covariances: "full", "tied", "diag", "spherical", "tied_diag", "tied_spherical", or one of
        mclust's names, EII, VII, EEI, VEI, EVI, VVI, EEE, VEE, EVE, VVE, EEV, VEV, EVV, VVV (volume, shape,
        orientation: Equal, Varying, or along the axes), E and V for one feature (Celeux & Govaert 1995).
    tau : float or array (K,), default 1.0
        How strongly the E-step holds the column masses at the weights: 0 is EM, 1 Sinkhorn-EM, between them KL-relaxed.
    weights : "learned", "uniform", "exponentiated_gradient" or array (K,), default "learned"
        "learned" with tau > 0: at most 30 iterations with the weights held (uniform, or `weights_init`) and the covariance pooled,
        then EM with free weights to the maximum-likelihood estimate of the basin found; EM from the same start is run as well,
        and the better of the two is kept, so the result is never worse than EM's. Prescribed weights are kept: the same burn-in,
        then Sinkhorn-EM to convergence. "exponentiated_gradient", or an object
        ``sinkhorn_em.weight_steps.ExponentiatedGradient(eta=..., cap=...)``: the same burn-in, then Sinkhorn-EM with weights that
        descend the transport loss, ``w_k <- w_k exp(-eta g_k) / Z``, eta halved until it does not rise, then EM to the
        maximum-likelihood estimate; with free weights both losses have the same stationary points. It needs one tau > 0 for all
        components, and no `size_bounds`.
    trim : float in [0, 1), default 0.0
        Share of the rows, the worst fitted, that is left out of the fit (partial transport); ``transport_plan(X).unassigned`` says
        which. `score`, `bic` and `predict` are about all the rows they are given; `lower_bound_` is the trimmed objective.
    size_bounds : pair (lower, upper), optional
        Bounds on the component sizes, as fractions; used instead of tau.
    noise : None, "estimate" or float in (0, 1), default None
        One more component, uniform on the smaller of the box around the data and the one along their principal axes, with its
        share estimated or given. `predict` gives its rows the label -1, `predict_proba` a last column.
    prior : None, "mclust", or priors of `sinkhorn_em.families.priors`
        The fit is then the posterior mode. "mclust": the normal-inverse-Wishart prior of mclust's ``priorControl()``; a
        `NormalPrior` has its own mean and covariance for every component; an `InverseWishart` may go with it in a tuple.
    frozen : str, list of str or dict, optional
        What is not to move: "means" (at `means_init`), "covariances" (at `precisions_init`), "weights" (at `weights_init`). A dict
        maps these to True, a mask (K,) or component numbers.
    blocks : list of lists of features, optional
        Block-diagonal covariances: features (numbers or names) of different blocks are independent within a component.
    eigenvalue_bounds : pair (lower, upper) or list of pairs, optional
        Bounds on the eigenvalues of every covariance (of every block), in squared units of the data. VEI, VEE and VEV keep a lower
        or an upper bound, not both.
    tol : float, default 1e-6
        Stop when the bound rises by less, nats per row. (scikit-learn's default, 1e-3, leaves nats on the table.)
    reg_covar : "scale" or float, default "scale"
        "scale": eigenvalues are kept above 1e-9 of the variance of the bulk of the data, and nothing is added. A number is
        added to variances, in squared units of the data, as in scikit-learn.
    max_iter : int, default 500
        M-steps after the burn-in.
    n_init : int, default 1
        Starts; the one with the best bound is kept (among those without a collapsed or emptied component, if there are any).
    init_params : {"kmeans", "k-means++", "random_from_data", "random"}
        Starts are drawn in centred and rescaled coordinates over distinct rows: units, row order and duplicates do not matter.
    weights_init, means_init, precisions_init : arrays, optional
        Starting values; with `precisions_init` the burn-in is skipped.
    random_state : int, RandomState or None
    warm_start : bool
        Start from the last fit (without burn-in).
    verbose : int
        1: a progress bar.
    verbose_interval : int
        Iterations between updates of the bar.

    Attributes
    ----------
    weights_ (K,), means_ (K, d), covariances_, precisions_, precisions_cholesky_ : arrays
        As in scikit-learn; with noise, `weights_` sum to 1 - `noise_weight_`.
    noise_weight_ : float
        Share of the noise component, if there is one.
    lower_bound_ : float
        The objective at the final parameters, nats per row: the mean log-likelihood if weights are learned or tau = 0, else
        ``-transport_loss_``; with a prior, plus its log-density over the number of rows, without its constants.
    lower_bounds_ : list of float
        Its trace over all iterations of the best start; it never falls.
    transport_loss_ : float
        L at the final parameters, nats per row; equals minus the mean log-likelihood when the plan needs no tilt.
    potentials_ : array (K,)
        Column potentials g, nats (K + 1 with trim).
    tilted_weights_ : array (K,)
        w_k exp(g_k), normalised: the weights at which EM's gradient is Sinkhorn-EM's.
    marginal_error_ : float
        L1 error of the final plan's column masses.
    n_iter_, n_passes_ : int
        M-steps of the run that is reported, and passes over the scores of all runs.
    converged_ : bool
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Raises
    ------
    ValueError
        Parameters or data that do not fit; the message says which, and what to do.

    References
    ----------
    Mena, Nejatbakhsh, Varol & Niles-Weed 2020, arXiv:2006.16548. Celeux & Govaert 1995 (structures); Fraley & Raftery 2007
    (priors); Banfield & Raftery 1993 (noise).

    Examples
    --------
    >>> from sinkhorn_em import GaussianMixture
    >>> from sinkhorn_em.datasets import load_faithful
    >>> model = GaussianMixture(2, random_state=0).fit(load_faithful().data)
    >>> model.weights_.round(2).tolist()
    [0.64, 0.36]
    """

    def __init__(
        self,
        n_components: int = 1,
        *,
        covariance_type: str = "full",
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
        self.covariance_type = covariance_type
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
