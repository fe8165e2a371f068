"""Neurons of C. elegans in NeuroPAL worms, positions and colours: read from a folder that the user has, or simulated."""

from __future__ import annotations

from numbers import Integral
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.io import loadmat
from sklearn.utils import Bunch

from ..atlas import SPACE, Atlas
from .simulated import Seed, simulate_gaussian_mixture

ATLAS, WORMS = "atlas.mat", "worms_straightened.csv"
COLUMNS = ("worm", "id", "x", "y", "z", "r", "g", "b")
PREFIX = "pop_"  # of names in the file of worms
CORNER = 5.0  # smallest coordinate of a simulation
LOG_VARIANCE, SPREAD = 1.0, 0.1  # of log-normal variances within neurons


def find_neuropal(folder: str | Path | None, name: str) -> Path | None:
    """The file ``name`` in ``folder`` or its subfolder neuropal; None if it is in neither."""
    places = [] if folder is None else [Path(folder) / name, Path(folder) / "neuropal" / name]
    return next((path for path in places if path.is_file()), None)


def load_neuropal_atlas(folder: str | Path, *, part: str = "tail") -> Atlas:
    """The statistical atlas of Yemini et al. 2021 as the Sinkhorn-EM authors use it: 195 head or 45 tail neurons.

    Features are three positions and three colours; covariances have a block for each.

    Parameters
    ----------
    folder : path
        Where atlas.mat is, or its subfolder neuropal.
    part : "head" or "tail"

    Raises
    ------
    ValueError
        ``part`` is neither.
    FileNotFoundError
        There is no such file.

    References
    ----------
    Yemini et al. 2021, Cell 184; Mena et al. 2020, arXiv:2006.16548.
    """
    if part not in ("head", "tail"):
        raise ValueError(f"part={part!r} must be 'head' or 'tail'.")
    content = loadmat(_required(folder, ATLAS), simplify_cells=True)["atlas"][part]
    means = np.asarray(content["model"]["mu"], float)
    covariances = np.moveaxis(np.asarray(content["model"]["sigma"], float), -1, 0)
    return Atlas(tuple(map(str, content["N"])), means, covariances, np.ones(len(means), np.int64))


def load_neuropal_worms(folder: str | Path) -> pd.DataFrame:
    """Seven annotated worms, straightened: columns worm, id (the neuron), positions x, y, z in micrometres, colours r, g, b.

    Colours are in [0, 1] and saturated at 1 in most rows of five of the worms.

    Raises
    ------
    FileNotFoundError
        worms_straightened.csv is neither in ``folder`` nor in its subfolder neuropal.

    References
    ----------
    Yemini et al. 2021, Cell 184; the table is OpenWorm's.
    """
    table = pd.read_csv(_required(folder, WORMS))[list(COLUMNS)]
    return table.assign(id=table["id"].str.removeprefix(PREFIX))


def synthetic_atlas(n_neurons: int = 5, *, random_state: Seed = 0) -> Atlas:
    """A made-up atlas of the same shape and about the same spread as the tail's, for when the real one is not at hand.

    Means: positions uniform in a box of 30 x 8 x 8, colours uniform in [0, 20]. Covariances: a block for positions and one for
    colours, each turned at random, with log-normal eigenvalues (median 1 in space, 3 in colour; log-standard deviation .7).
    ValueError if ``n_neurons`` is not an integer of at least 1.
    """
    if not isinstance(n_neurons, Integral) or n_neurons < 1:
        raise ValueError(f"n_neurons={n_neurons!r} must be an integer of at least 1; the tail has 45.")
    rng = np.random.default_rng(random_state)
    means = np.column_stack(
        [rng.uniform(0, [30.0, 8.0, 8.0], (n_neurons, SPACE)), rng.uniform(0, 20.0, (n_neurons, 3))]
    )
    covariances = np.zeros((n_neurons, 6, 6))
    for block, median in ((slice(0, 3), 1.0), (slice(3, 6), 3.0)):
        turns = np.linalg.qr(rng.standard_normal((n_neurons, 3, 3)))[0]
        values = median * np.exp(0.7 * rng.standard_normal((n_neurons, 3)))
        covariances[:, block, block] = turns * values[:, None, :] @ np.swapaxes(turns, 1, 2)
    names = tuple(f"N{k + 1}" for k in range(n_neurons))
    return Atlas(names, means, covariances, np.ones(n_neurons, np.int64))


def simulate_neurons(atlas: Atlas, n_samples: int, *, background: float = 0.0, random_state: Seed = None) -> Bunch:
    """Draw the pixels of one worm: the simulation of Mena et al. 2020.

    Positions of the atlas are shifted so that the smallest is 5; a worm's centres are drawn from it, mu_k ~ N(m_k, S_k); a pixel
    of neuron k is N(mu_k, v_k I) with log v_k ~ N(1, .1^2), all neurons being equally likely.

    Parameters
    ----------
    atlas : Atlas
    n_samples : int
        Pixels.
    background : float in [0, 1)
        Expected share of pixels that are uniform on the box of the others, target -1.
    random_state : int, numpy.random.Generator or None

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        ``data`` (n, 6), ``target`` (n,), ``means`` (K, 6) and ``covariances`` (K, 6, 6) of the worm, ``atlas`` the shifted one.

    Raises
    ------
    ValueError
        If ``background`` is not in [0, 1), or ``n_samples`` no positive integer.
    """
    if not 0 <= background < 1:
        raise ValueError(f"background={background!r} must be in [0, 1); 0 is no background.")
    rng = np.random.default_rng(random_state)
    K, d = atlas.means.shape
    means = atlas.means.copy()
    means[:, :SPACE] += CORNER - means[:, :SPACE].min(axis=0)
    centres = np.array([rng.multivariate_normal(m, S) for m, S in zip(means, atlas.covariances, strict=True)])
    covariances = rng.lognormal(LOG_VARIANCE, SPREAD, (K, 1, 1)) * np.eye(d)
    X, labels = simulate_gaussian_mixture(n_samples, np.full(K, 1 / K), centres, covariances, random_state=rng)
    if background:
        outside = rng.random(n_samples) < background
        X[outside] = rng.uniform(X.min(axis=0), X.max(axis=0), (int(outside.sum()), d))
        labels[outside] = -1
    return Bunch(data=X, target=labels, means=centres, covariances=covariances, atlas=atlas._replace(means=means))


def _required(folder: str | Path, name: str) -> Path:
    path = find_neuropal(folder, name)
    if path is None:
        raise FileNotFoundError(
            f"{name} is neither in {folder} nor in its subfolder neuropal; see Yemini et al. 2021 for the data"
        )
    return path
