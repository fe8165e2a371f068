"""The fits of experiment `dlpfc`: two matrices of counts, and all methods on one of them from one seed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans, SpectralBiclustering, SpectralCoclustering
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.mixture import GaussianMixture as PlainMixture

from .._typing import Floats, Integers
from ..block_families import BlockFamily, Gaussian, NegativeBinomial, Poisson
from ..coclustering import LatentBlockModel
from ..datasets import fetch_dlpfc, load_pbmc68k
from ..mixture import GaussianMixture
from .base import fit_quietly
from .dlpfc_genes import MARKERS, symbol

GENE_CLUSTERS = 8
COMPONENTS = 15  # principal components that clusterings of rows alone see
TOP = 8  # genes named of a gene cluster
MAIN = "Poisson"


class Counts(NamedTuple):
    """A matrix to co-cluster, and what is known of its rows."""

    counts: Any  # (n, m) CSR
    logs: Floats  # (n, m) log(1 + count over the relative total of the row)
    truth: Integers  # (n,) codes into names
    names: list[str]
    genes: list[str]
    coordinates: Integers | None = None  # (n, 2) row and column on the slide's array
    markers: tuple[str, ...] = ()  # symbols of genes that are known to mark classes

    @property
    def shares(self) -> Floats:
        """Of the rows, by true class."""
        return np.bincount(self.truth) / len(self.truth)


class Arm(NamedTuple):
    """A way to fit a latent block model, and the methods that are fitted so."""

    family: BlockFamily
    init: str
    n_column_clusters: int
    methods: tuple[str, ...]


SVEM, SHARES, DEFAULT, VEM, VEM_UNIFORM = "SVEM", "SVEM, true shares", "default", "VEM", "VEM, uniform"
THREE = (SVEM, DEFAULT, VEM)
ARMS = {
    MAIN: Arm(Poisson("both"), "k-means++", GENE_CLUSTERS, (SVEM, SHARES, DEFAULT, VEM, VEM_UNIFORM)),
    "Poisson, random start": Arm(Poisson("both"), "random", GENE_CLUSTERS, (SVEM, SHARES, DEFAULT, VEM)),
    "Poisson, 16 gene clusters": Arm(Poisson("both"), "k-means++", 16, THREE),
    "negative binomial": Arm(NegativeBinomial("both"), "k-means++", GENE_CLUSTERS, THREE),
    "Gaussian": Arm(Gaussian("column"), "k-means++", GENE_CLUSTERS, THREE),
}
BASELINES = "baselines"
BICLUSTERING, BICLUSTERING_LOG = "spectral biclustering", "spectral biclustering, log"
COCLUSTERING, KMEANS = "spectral co-clustering", "k-means"
MIXTURE, OWN_MIXTURE = "Gaussian mixture, scikit-learn", "Gaussian mixture, ours"


@cache
def cortex(folder: Path) -> Counts:
    """The labelled spots of the section 151510; FileNotFoundError where the folder does not have it."""
    section = fetch_dlpfc(folder, download=False)
    labelled = section.layers != ""
    counts = section.counts[labelled]
    totals = np.asarray(counts.sum(axis=1)).ravel()
    logs = np.log1p(counts.toarray() * (np.median(totals) / totals)[:, None])
    truth = np.array([section.layer_names.index(layer) for layer in section.layers[labelled]])
    genes, coordinates = section.genes.tolist(), section.coordinates[labelled]
    return Counts(counts, logs, truth, section.layer_names, genes, coordinates, MARKERS)


@cache
def blood() -> Counts:
    """The blood cells that come with the package."""
    cells = load_pbmc68k()
    return Counts(cells.counts, cells.data, cells.target, list(cells.target_names), cells.feature_names)


def spots(data: Counts) -> pd.DataFrame:
    """Where the spots are, and their layers."""
    assert data.coordinates is not None
    row, column = data.coordinates.T
    return pd.DataFrame({"kind": "spot", "row": row, "column": column, "layer": np.array(data.names)[data.truth]})


def fit_blocks(data: Counts, arm: str, seed: int) -> pd.DataFrame:
    """Every method of an arm from the same starting labels; of the main arm also the labels and the gene clusters."""
    family, init, L, methods = ARMS[arm]
    X = _standardised(data.logs) if isinstance(family, Gaussian) else data.counts
    records: list[dict[str, Any]] = []
    for method in methods:
        options = _options(method, data.shares)
        model = LatentBlockModel(len(data.names), L, family=family, init=init, random_state=seed, **options)
        fit_quietly(model, X)
        record = _scores(method, data.truth, model.row_labels_)
        record |= {"bound": model.bound_ / data.logs.size, "sweeps": model.n_iter_, "converged": model.converged_}
        if arm == MAIN and data.coordinates is not None:
            record["labels"] = "".join(chr(ord("a") + k) for k in model.row_labels_)
        records.append(record)
        if arm == MAIN and method == DEFAULT:
            records += [{"kind": "genes", "method": method, **row} for row in _gene_clusters(model, data)]
    return pd.DataFrame(records)


def fit_baselines(data: Counts, seed: int) -> pd.DataFrame:
    """Clusterings by other models, from one seed; bound: what they maximise, where they say it."""
    K, logs = len(data.names), data.logs
    P = PCA(COMPONENTS, random_state=0).fit_transform(logs)
    shape = (K, GENE_CLUSTERS)
    models: dict[str, tuple[Any, Floats, Callable[[Any], Any], Callable[[Any], float]]] = {
        BICLUSTERING: (SpectralBiclustering(shape, random_state=seed), logs, _row_labels, _nothing),
        BICLUSTERING_LOG: (
            SpectralBiclustering(shape, method="log", random_state=seed),
            logs + 1,
            _row_labels,
            _nothing,
        ),
        COCLUSTERING: (SpectralCoclustering(K, random_state=seed), logs, _row_labels, _nothing),
        KMEANS: (KMeans(K, n_init=1, random_state=seed), P, lambda m: m.labels_, lambda m: -m.inertia_ / len(P)),
        MIXTURE: (PlainMixture(K, random_state=seed), P, lambda m: m.predict(P), lambda m: m.lower_bound_),
        OWN_MIXTURE: (GaussianMixture(K, random_state=seed), P, lambda m: m.predict(P), lambda m: m.lower_bound_),
    }
    records = []
    for method, (model, X, labels, criterion) in models.items():
        fit_quietly(model, X)
        records.append(_scores(method, data.truth, labels(model)) | {"bound": criterion(model)})
    return pd.DataFrame(records)


def _row_labels(model: Any) -> Any:
    return model.row_labels_


def _nothing(model: Any) -> float:
    return float("nan")


def _options(method: str, shares: Floats) -> dict[str, Any]:
    """Of `LatentBlockModel`."""
    uniform: dict[str, Any] = {"row_weights": "uniform", "column_weights": "uniform"}
    return {
        SVEM: {"tau": 1, **uniform},
        SHARES: {"tau": 1, **uniform, "row_weights": shares},
        DEFAULT: {},
        VEM: {"tau": 0},
        VEM_UNIFORM: {"tau": 0, **uniform},
    }[method]


def _standardised(X: Floats) -> Floats:
    """Columns of mean 0 and variance 1; constant ones are 0."""
    centred = X - X.mean(axis=0)
    deviation = centred.std(axis=0)
    return centred / np.where(deviation > 0, deviation, 1.0)


def _scores(method: str, truth: Integers, labels: Integers) -> dict[str, Any]:
    return {
        "kind": "fit",
        "method": method,
        "ari": adjusted_rand_score(truth, labels),
        "nmi": normalized_mutual_info_score(truth, labels),
        "clusters": len(np.unique(labels)),  # that are not empty
    }


def _gene_clusters(model: LatentBlockModel, data: Counts) -> list[dict[str, Any]]:
    """Of each gene cluster: the row cluster of the highest rate, its commonest class, and the genes that are highest there."""
    z, w, rates = model.row_labels_, model.column_labels_, model.block_parameters_["rates"]
    per_row = np.asarray(data.counts.sum(axis=1)).ravel()
    per_gene = np.asarray(data.counts.sum(axis=0)).ravel()
    rows, used = [], np.unique(z)
    for cluster in np.unique(w):
        k = int(used[rates[used, cluster].argmax()])
        classes = np.bincount(data.truth[z == k], minlength=len(data.names))
        own = np.flatnonzero(w == cluster)
        seen = np.asarray(data.counts[z == k][:, own].sum(axis=0)).ravel()
        expected = per_row[z == k].sum() * per_gene[own] / per_row.sum()  # of independence
        ratio = np.divide(seen, expected, out=np.zeros(len(own)), where=expected > 0)
        order = [data.genes[j] for j in own[np.argsort(-ratio, kind="stable")]]
        rows.append(
            {
                "cluster": int(cluster),
                "genes": len(own),
                "spots": int((z == k).sum()),
                "class": data.names[int(classes.argmax())],
                "share": classes.max() / classes.sum(),
                "rate": rates[k, cluster],
                "top": " ".join(order[:TOP]),
                "markers": " ".join(name for name in map(symbol, order) if name in data.markers),
            }
        )
    return rows
