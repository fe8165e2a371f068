"""`LatentBlockModel`: the estimator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator, BiclusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from tqdm import tqdm

from .._compiled import single_threaded_blas
from .._typing import Booleans, Integers
from ..block_families import BLOCK_FAMILIES, BlockFamily
from ..block_families.base import New
from ..cells import Cells
from . import checks, criterion, soundness
from .loop import side_scores
from .schedule import BlockOutcome, BlockSchedule, best_of, match_sizes, run_starts
from .starts import Labels, Places, draw_labels, places


class Problem(NamedTuple):
    """Checked data."""

    family: BlockFamily
    scale: Any  # of the family: units, margins, categories
    cells: Cells


class LatentBlockModel(BiclusterMixin, BaseEstimator):
    r"""Co-clustering of rows and columns by variational Sinkhorn-EM.

    Row i has a cluster z_i in 1..K with weights pi, column j a cluster w_j in 1..L with weights rho, and the cells are independent
    given both, X_ij ~ f(.; phi_{z_i w_j}). With responsibilities T (n, K) and N (m, L) the fit maximises

    .. math:: J = \sum_{ijkl} T_{ik} N_{jl} \log f(X_{ij}; \phi_{kl}) - KL(T \,|\, \pi) - KL(N \,|\, \rho),

    a lower bound of the log-likelihood, nats, by turns over T, phi, N, phi and the weights. With tau = 1 the cluster sizes are held
    at the weights, :math:`\sum_i T_{ik} = n \pi_k` and :math:`\sum_j N_{jl} = m \rho_l`: every step is an entropic transport
    problem, and no cluster can be empty. With tau = 0 it is variational EM.

    Parameters
    ----------
    n_row_clusters, n_column_clusters : int, default 2
        K and L.
    family : str or BlockFamily, default "gaussian"
        The law of a cell: "gaussian", "poisson", "bernoulli", "negative_binomial", "multinomial", or an object of
        `sinkhorn_em.block_families` with options, such as ``Gaussian(variance="column")`` or ``Poisson(margins="both")``.
    tau : float in [0, 1] or pair, default 1.0
        How strongly the sizes of row and of column clusters are held at the weights: 1 variational Sinkhorn-EM, 0 variational EM,
        between them with a price of tau / (1 - tau) times the Kullback-Leibler divergence of the sizes from the weights.
    row_weights, column_weights : "learned", "uniform" or array (K,), (L,), default "learned"
        Learned weights are held, uniform, for at most 30 sweeps at tau and with dispersions in common, then released (variational
        EM); the same from the start itself, and the better of the two. Prescribed weights are held throughout; where they differ,
        each start is first fitted with learned weights, and its clusters are matched to the prescribed ones by size.
    init : "k-means++", "k-means", "spectral" or "random", default "k-means++"
        Starting labels: nearest prototype in the plane of the leading singular vectors; k-means there; k-means on directions of
        singular vectors; nearest of some rows (columns) drawn at random.
    n_init : int, default 1
        Starts, moved side by side, which share passes over X. The highest bound is kept.
    max_iter : int, default 500
        Sweeps of the main phase.
    tol : float, default 1e-8
        A sweep that raises J by less, nats per observed cell, ends the fit.
    temperatures : sequence of float, optional
        Falling, above 1: at most 10 sweeps at each before the fit, with divergences multiplied by it (deterministic annealing). A
        path too hot forgets its start and ends with blocks that are all alike; the fit without it runs as well, and the better
        counts.
    random_state : int, RandomState or None
    verbose : int, default 0
        1: a progress bar.

    Attributes
    ----------
    row_labels_, column_labels_ : ndarray (n,), (m,)
        Most probable cluster at the weights (not the plan's, whose sizes are held).
    rows_, columns_ : ndarray of bool (K L, n), (K L, m)
        Biclusters in the order of scikit-learn's SpectralBiclustering; ``biclusters_``, ``get_indices``, ``get_shape`` and
        ``get_submatrix`` are scikit-learn's.
    row_responsibilities_, column_responsibilities_ : ndarray (n, K), (m, L)
        T and N.
    row_weights_, column_weights_ : ndarray (K,), (L,)
    block_parameters_ : dict of ndarray
        In the units of the data, by name: "means" and "variances" (K, L) of Gaussian blocks, and so on.
    bound_ : float
        J at the end, total, nats; where 0 < tau < 1, less the price of the sizes.
    bounds_ : ndarray (n_iter_, 5)
        J after the row step, the parameters, the column step, the parameters, and the weights of every sweep, the burn-in's first:
        read row by row it never falls (but for rounding). Sweeps at temperatures above 1 are not in it.
    n_iter_ : int
        Sweeps of the best start.
    n_passes_ : int
        Passes over (n, K) or (m, L) scores of the row and column steps of all starts; fits that match prescribed weights are not
        counted.
    converged_ : bool
    marginal_errors_ : tuple of float
        L1 distance of the cluster sizes, as shares, from what tau asks, of rows and of columns.
    n_features_in_ : int
        m; ``feature_names_in_`` where X is a DataFrame.

    References
    ----------
    Govaert & Nadif 2008 (variational EM of block models); Mena et al. 2020, arXiv:2006.16548 (Sinkhorn-EM). The variational
    Sinkhorn-EM of block models is derived in the documentation of `sinkhorn_em.coclustering.loop`.

    Examples
    --------
    >>> from sinkhorn_em import LatentBlockModel
    >>> from sinkhorn_em.datasets import simulate_latent_blocks
    >>> X = simulate_latent_blocks(60, 40, [[0, 2], [2, 0], [2, 4]], random_state=0).data
    >>> model = LatentBlockModel(3, 2, random_state=0).fit(X)
    >>> model.block_parameters_["means"].shape
    (3, 2)
    """

    def __init__(
        self,
        n_row_clusters: int = 2,
        n_column_clusters: int = 2,
        *,
        family: str | BlockFamily = "gaussian",
        tau: Any = 1.0,
        row_weights: Any = "learned",
        column_weights: Any = "learned",
        init: str = "k-means++",
        n_init: int = 1,
        max_iter: int = 500,
        tol: float = 1e-8,
        temperatures: Any = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_row_clusters = n_row_clusters
        self.n_column_clusters = n_column_clusters
        self.family = family
        self.tau = tau
        self.row_weights = row_weights
        self.column_weights = column_weights
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.temperatures = temperatures
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any = None, *, mask: Any = None, row_labels: Any = None, column_labels: Any = None
    ) -> Self:
        """Fit to the matrix X (n, m).

        Parameters
        ----------
        X : array, DataFrame or sparse matrix (n, m)
            Rows and columns are clustered. Sparse input is never made dense, and what it does not store
            is an observed 0. NaN: the cell is left out; a row without any cell has the weights as its responsibilities.
        y : ignored
        mask : boolean array or sparse matrix (n, m), optional
            True where a cell is left out.
        row_labels, column_labels : array (n,), (m,) of int, optional
            Starting labels, from 0; with both there is one start.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter, X, the mask or labels break their rule; the message names it, its value, the rule and the remedy.
        """
        problem = self._problem(X, mask)
        with single_threaded_blas():
            given = self._given(row_labels, column_labels, problem.cells.shape)
            self._fit(problem, self._labels(problem, given))
        soundness.warn_of(self, stacklevel=3)
        return self

    def _problem(self, X: Any, mask: Any) -> Problem:
        """Checked options and data."""
        checks.check_options(self)
        family = checks.check_family(self.family)
        self._schedule(family)
        X, missing = self._validate(X, mask, reset=True)
        checks.check_sizes(X.shape, self.n_row_clusters, self.n_column_clusters)
        with single_threaded_blas():
            scale = family.measure(X, missing)
            return Problem(family, scale, family.cells(X, missing, scale))

    def _fit(self, problem: Problem, labels: list[Labels], burn_in: bool = True) -> None:
        """The best of the fits from ``labels``, whose attributes are stored."""
        self._store(problem, best_of(self._outcomes(problem, labels, burn_in)))

    def _outcomes(self, problem: Problem, labels: list[Labels], burn_in: bool) -> list[BlockOutcome]:
        schedule = replace(self._schedule(problem.family), burn_in=burn_in)
        with tqdm(disable=not self.verbose, desc="co-clustering", unit="sweep") as bar:
            return run_starts(problem.cells, schedule, labels, bar.update)

    def _schedule(self, family: BlockFamily) -> BlockSchedule:
        row_weights, rows_learned = checks.check_weights("row_weights", self.row_weights, self.n_row_clusters)
        column_weights, columns_learned = checks.check_weights(
            "column_weights", self.column_weights, self.n_column_clusters
        )
        return BlockSchedule(
            family,
            checks.check_rules(self.tau),
            (rows_learned, columns_learned),
            (row_weights, column_weights),
            checks.check_temperatures(self.temperatures),
            self.max_iter,
            self.tol,
        )

    def _validate(self, X: Any, mask: Any, reset: bool) -> tuple[Any, csr_array | None]:
        """X as an array in C order, or as CSR, with 0 at missing cells; and those."""
        if isinstance(X, np.ma.MaskedArray):
            hidden = np.ma.getmaskarray(X)
            if mask is not None:
                given = checks.check_mask(mask, X.shape)
                hidden = hidden | (given.toarray() if issparse(given) else given)
            X, mask = X.filled(0), hidden
        X = validate_data(
            self,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            order="C",
            ensure_all_finite="allow-nan" if mask is None else False,  # whatever there is in cells that are left out
        )
        if issparse(X):
            X = csr_array(X)
            if not X.has_canonical_format:
                X = X.copy()  # its arrays are the caller's
                X.sum_duplicates()
        X, missing = checks.split_missing(X, mask)
        checks.check_range(X)
        return X, missing

    def _given(self, row_labels: Any, column_labels: Any, shape: tuple[int, int]) -> tuple[Integers | None, ...]:
        """Starting labels of rows and columns, None where they are to be drawn."""
        K, L = self.n_row_clusters, self.n_column_clusters
        return (
            None if row_labels is None else checks.check_labels("row_labels", row_labels, shape[0], K),
            None if column_labels is None else checks.check_labels("column_labels", column_labels, shape[1], L),
        )

    def _labels(self, problem: Problem, given: tuple[Integers | None, ...], at: Places | None = None) -> list[Labels]:
        """The starts; what is drawn is matched to prescribed weights by size."""
        z, w = given
        if z is not None and w is not None:
            return [(z, w)]
        sizes = (self.n_row_clusters, self.n_column_clusters)
        at = places(problem.cells, problem.family, max(sizes), self.init) if at is None else at
        drawn = draw_labels(at, sizes, self.init, self.n_init, check_random_state(self.random_state))
        labels = [(one[0] if z is None else z, one[1] if w is None else w) for one in drawn]
        return match_sizes(problem.cells, self._schedule(problem.family), labels, (z is None, w is None))

    def _store(self, problem: Problem, best: BlockOutcome) -> None:
        """Fitted attributes."""
        family, scale, cells = problem
        state = best.fit.state
        self._family, self._parameters, self._scale = family, state.parameters, scale
        self.row_responsibilities_, self.column_responsibilities_ = (
            state.rows.responsibilities,
            state.columns.responsibilities,
        )
        self.row_weights_, self.column_weights_ = state.rows.weights, state.columns.weights
        self.block_parameters_ = family.describe(state.parameters, scale)
        self.row_labels_, self.column_labels_ = (
            self._posterior_labels(cells, True),
            self._posterior_labels(cells, False),
        )
        labels = self.row_labels_, self.column_labels_
        self.rows_, self.columns_ = block_indicators(*labels, self.n_row_clusters, self.n_column_clusters)
        self.bounds_ = np.array(best.bounds)
        self.bound_ = float(self.bounds_[-1, -1])
        self.n_iter_, self.n_passes_ = len(best.bounds), best.n_passes
        self.converged_ = best.fit.converged
        self.marginal_errors_ = (state.rows.marginal_error, state.columns.marginal_error)
        learned = self._schedule(family).learned
        self._icl = criterion.icl(cells, family, state, labels, learned, scale)

    def _posterior_labels(self, cells: Cells, rows: bool) -> Integers:
        """Most probable cluster of every row, or column, at the weights and the responsibilities of the other side."""
        if rows:
            sums, weights = cells.over_columns(self.column_responsibilities_), self.row_weights_
        else:
            sums, weights = cells.over_rows(self.row_responsibilities_), self.column_weights_
        scores = side_scores(self._family.natural(self._parameters), sums, rows)
        with np.errstate(divide="ignore"):
            return np.asarray((scores + np.log(weights)).argmax(axis=1), np.int64)

    def predict_rows(self, X: Any, *, mask: Any = None) -> Integers:
        """Clusters of new rows X (n', m): the most probable ones, given the column responsibilities and the weights.

        A row's label does not depend on the other rows. Counts in columns that had none in the fit say nothing where margins hold
        them at 0. Sparse rows are made dense after a dense Gaussian fit, which shifts zeros. Raises ValueError as `fit` does, and
        NotFittedError before it.
        """
        check_is_fitted(self)
        X, missing = self._validate(X, mask, reset=False)
        return self._predict(X, missing, "rows")

    def predict_columns(self, X: Any, *, mask: Any = None) -> Integers:
        """Clusters of new columns X (n, m'), for the n rows of the fit: the most probable ones, given the row responsibilities.

        Raises ValueError as `fit` does, and NotFittedError before it.
        """
        check_is_fitted(self)
        n = len(self.row_responsibilities_)
        X = X if hasattr(X, "shape") else np.asarray(X)
        if X.ndim != 2:
            raise ValueError(f"X has {X.ndim} dimensions; it must be ({n}, number of new columns)")
        if X.shape[0] != n:
            raise ValueError(f"X has {X.shape[0]} rows; the model was fitted to {n}: new columns need a value for each")
        checked = LatentBlockModel()._validate(X, mask, reset=True)
        return self._predict(*checked, "columns")

    def _predict(self, X: Any, missing: csr_array | None, new: New) -> Integers:
        with single_threaded_blas():
            cells = self._family.cells(X, missing, self._scale, new)
            return self._posterior_labels(cells, new == "rows")

    def icl(self) -> float:
        r"""Integrated completed likelihood of the fitted matrix, nats times -2: lower is better, like `bic` of the mixtures.

        .. math:: -2 \max_\phi \log p(X, \hat z, \hat w) + (K - 1) \log n + (L - 1) \log m + d \log(\text{observed cells})

        at the labels, for d parameters of the blocks; weights that are prescribed cost nothing. Keribin et al. 2015. Their
        criterion is this one times -1/2.
        """
        check_is_fitted(self)
        return float(self._icl)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        family = BLOCK_FAMILIES.get(self.family) if isinstance(self.family, str) else self.family
        tags.input_tags.positive_only = getattr(family, "non_negative", False)
        return tags


def block_indicators(rows: Integers, columns: Integers, K: int, L: int) -> tuple[Booleans, Booleans]:
    """Rows (K L, n) and columns (K L, m) of all blocks of these labels, in the order of scikit-learn's SpectralBiclustering."""
    k, l = np.divmod(np.arange(K * L), L)
    return rows == k[:, None], columns == l[:, None]
