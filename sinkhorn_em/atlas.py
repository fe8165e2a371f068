"""A statistical atlas: where named things lie and how much they vary; how to build one, align to it, and assign names by it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment
from scipy.stats import norm, rankdata

from ._typing import Floats, Integers
from .alignment import Similarity, soft_similarity
from .coordinates import Blocks

PRIOR_DEGREES = 5.0  # of freedom that the pooled covariance counts for, beside those of a name's own rows
SPACE = 3  # the first features are positions


class Atlas(NamedTuple):
    """Named Gaussians N(means_k, covariances_k), the first three features being positions."""

    names: tuple[str, ...]
    means: Floats  # (K, d)
    covariances: Floats  # (K, d, d)
    counts: Integers  # (K,) individuals in which a name was seen

    @property
    def weights(self) -> Floats:
        """Shares of the counts, (K,)."""
        return self.counts / self.counts.sum()

    def select(self, names: Sequence[str]) -> Atlas:
        """The atlas of some names, in their order; KeyError names those that are missing."""
        missing = sorted(set(names) - set(self.names))
        if missing:
            raise KeyError(f"the atlas has no {', '.join(missing)}; its names are {', '.join(self.names)}")
        k = np.array([self.names.index(name) for name in names])
        return Atlas(tuple(names), self.means[k], self.covariances[k], self.counts[k])

    def marginal(self, features: Sequence[int]) -> Atlas:
        """The atlas of some features only."""
        j = np.asarray(features)
        return self._replace(means=self.means[:, j], covariances=self.covariances[:, j[:, None], j])

    def numbers(self, names: Sequence[str]) -> Integers:
        """The numbers of names, -1 for those that the atlas does not have."""
        return np.asarray(pd.Index(self.names).get_indexer(pd.Index(names)), np.int64)

    def squared_distances(self, X: Floats) -> Floats:
        """Squared Mahalanobis distances of rows X (n, d), (n, K)."""
        inverse = np.linalg.inv(np.linalg.cholesky(self.covariances))
        return np.stack([(((X - m) @ F.T) ** 2).sum(axis=1) for m, F in zip(self.means, inverse, strict=True)], axis=1)

    def log_density(self, X: Floats) -> Floats:
        """log N(x; means_k, covariances_k) of rows X (n, d), (n, K)."""
        log_det = np.linalg.slogdet(self.covariances)[1]
        return -0.5 * (self.squared_distances(X) + log_det + X.shape[1] * np.log(2 * np.pi))

    def align(self, X: Floats) -> Similarity:
        """The similarity of positions that takes rows X (n, d) without names to the atlas: by what they look like."""

        def scores(moved: Floats) -> Floats:
            return self.log_density(np.column_stack([moved, X[:, SPACE:]]))

        variances = np.trace(self.covariances[:, :SPACE, :SPACE], axis1=1, axis2=2) / SPACE
        return soft_similarity(X[:, :SPACE], scores, self.means[:, :SPACE], self.weights, 1 / variances)

    def assign(self, X: Floats) -> Integers:
        """The one-to-one assignment of rows X (n, d) to names with the smallest sum of squared Mahalanobis distances, (n,).

        By the Hungarian method; -1 for rows without a name, if there are more rows than names.
        """
        labels = np.full(len(X), -1)
        rows, columns = linear_sum_assignment(self.squared_distances(X))
        labels[rows] = columns
        return labels


def build_atlas(rows: Floats, names: Sequence[str], blocks: Blocks) -> Atlas:
    """An atlas from rows (n, d) of aligned individuals and the name of each.

    A name's covariance about its mean m_k is (scatter_k + 5 pooled) / (n_k - 1 + 5), with the pooled covariance within names, so
    that names seen once have one too; it is multiplied by 1 + 1/n_k, the variance of a new row about the mean of n_k. Features of
    different ``blocks`` are independent. ValueError if no name has two rows: nothing then tells how much they vary.
    """
    X, codes = np.asarray(rows, float), pd.Categorical(list(names))
    number, K, d = np.asarray(codes.codes), len(codes.categories), X.shape[1]
    if not len(X) > K:
        raise ValueError(f"names has {K} names for {len(X)} rows; some name must have two rows: add individuals")
    counts = np.bincount(number, minlength=K)
    means = np.zeros((K, d))
    np.add.at(means, number, X)
    means /= counts[:, None]
    delta, scatter = X - means[number], np.zeros((K, d, d))
    np.add.at(scatter, number, delta[:, :, None] * delta[:, None, :])
    within = np.zeros((d, d), bool)
    for block in blocks:
        within[np.ix_(block, block)] = True
    scatter *= within
    pooled = scatter.sum(axis=0) / max(len(X) - K, 1)
    covariances = (scatter + PRIOR_DEGREES * pooled) / (counts - 1 + PRIOR_DEGREES)[:, None, None]
    return Atlas(tuple(map(str, codes.categories)), means, covariances * (1 + 1 / counts)[:, None, None], counts)


def normal_scores(X: Floats) -> Floats:
    """Each feature by its ranks: normal quantiles of (rank - 1/2)/n, ties at their middle rank.

    What is left does not depend on gain, offset or saturation of a camera, as long as brighter stays brighter.
    """
    return np.asarray(norm.ppf((rankdata(X, axis=0) - 0.5) / len(X)))
