"""The trainings of the experiment `genevay`: data, designs, readings of the paper, and the rows of a table.

Networks are those of `sinkhorn_em.deep`, looked up by name: they need torch, and the other experiments do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans

from ..datasets import IMAGE_SETS
from ..metrics import clustering_scores
from .base import ReproductionError

CLASSES = 10  # and clusters, and codes of the networks
PIXELS, AE = "k-means (pixels)", "AE + k-means"
SOFT, SOFT_P, DKM_P, OT, OT_P = "soft k-means", "soft k-means (p)", "DKM (p)", "OT", "OT (p)"
AE_VIEWS, VIEWS = "AE + k-means, views", "OT, views (p)"  # ours: beyond the paper
METHODS = (PIXELS, AE, SOFT, SOFT_P, OT, OT_P)  # the columns of Table 1
SCORES = ("accuracy", "balanced_accuracy", "nmi", "ari")
MEASURES = ("loss", "reconstruction", "transport", "marginal_error", "n_passes", "plan_entropy", "epsilon")
DIGITS = 6  # significant, that are kept


class Design(NamedTuple):
    """How long and with what the networks of a data set are trained."""

    encoder: str
    batch: int
    pretrain: int  # epochs
    epochs: int
    every: int  # epochs between two rows of the table


#: on a processor: shorter than the paper's
DESIGNS = {
    "mnist": Design("mlp", 300, 20, 20, 2),
    "fashion": Design("mlp", 300, 20, 20, 2),
    "cifar10": Design("conv", 300, 10, 10, 2),
    "digits": Design("mlp", 100, 50, 50, 5),
}
#: on a graphics card: 200 epochs, 50 of them or more before (the paper does not say)
LONG_DESIGNS = {name: design._replace(pretrain=50, epochs=200, every=10) for name, design in DESIGNS.items()}
QUICK, QUICK_ROWS = Design("mlp", 50, 7, 2, 2), 900
FEW = 3  # times fewer epochs at each epsilon of Figure 2

_PAPER = {"epsilon": 1e-2, "epsilon_mode": "absolute"}
#: what the paper leaves open, as options of `sinkhorn_em.deep.options.Options`
READINGS: dict[str, dict[str, Any]] = {
    "paper": _PAPER,  # entropic value, envelope gradient, sums over pixels, centres after pre-training
    "ours": {"epsilon": 0.05, "epsilon_mode": "relative"},
    "unrolled": {**_PAPER, "gradient": "unrolled"},
    "sharp": {**_PAPER, "value": "sharp", "gradient": "implicit"},
    "sharp unrolled": {**_PAPER, "value": "sharp", "gradient": "unrolled"},
    "total": {**_PAPER, "reconstruction": "total"},
    "mean": {**_PAPER, "reconstruction": "mean"},
    "centres before": {**_PAPER, "centres": "random_encoder"},
    "through the softmax": _PAPER,  # of soft k-means: the gradient of deep k-means (DKM, Fard et al. 2018)
}
#: methods that start from pre-trained networks, by reading; the readings of the grid have the last only
PRETRAINED = {"paper": (SOFT_P, OT_P), "ours": (SOFT_P, OT_P), "through the softmax": (DKM_P,)}
#: of the last two: the plan of the images is the target of their views, codes have length 1, the autoencoder saw views too
WITH_VIEWS: dict[str, Any] = {
    "epsilon": 0.03,
    "unit_codes": True,
    "reconstruction_weight": 0.02,
    "transport_weight": 0.0,
    "consistency_weight": 1.0,
    "consistency_temperature": 3.0,
    "halve_every": 3,
}
AFFINE = {"degrees": 10.0, "shift": 0.07, "scale": 0.15, "shear": 0.25}
LOSSES = {SOFT: "soft_kmeans", SOFT_P: "soft_kmeans", DKM_P: "dkm", OT: "transport", OT_P: "transport"}
EPSILONS, QUICK_EPSILONS = (1e-3, 1e-2, 1e-1, 1.0, 10.0), (1e-2, 10.0)  # absolute, as in the paper


class Images(NamedTuple):
    """Images and their classes."""

    X: np.ndarray  # (n, p) float32 in [0, 1], or (n, channels, h, w) for convolutions
    y: np.ndarray
    name: str


@lru_cache(maxsize=1)
def load(dataset: str, encoder: str, folder: Path | None, rows: int = 0) -> Images:
    """The training set, or ``rows`` images of it, evenly spaced; a ReproductionError says what to do if it is not there."""
    try:
        found = IMAGE_SETS[dataset](data_home=folder, download=False)
    except FileNotFoundError as error:
        raise ReproductionError(
            f"dataset is {dataset!r}, whose files are not at hand ({error}). Pass --data, a folder that has them, or get them once "
            f"with sinkhorn_em.datasets.{IMAGE_SETS[dataset].__name__}(); --dataset digits needs no files"
        ) from None
    images = found.images if encoder == "conv" else found.data
    if images.ndim == 4:
        images = np.moveaxis(images, 3, 1)
    chosen = np.linspace(0, len(images) - 1, rows or len(images)).astype(int)
    X = np.ascontiguousarray(images[chosen], np.float32) / np.float32(found.maximum)
    return Images(X, found.target[chosen], found.name)


class Bench(NamedTuple):
    """What the trainings of a task share."""

    images: Images
    design: Design
    seeds: Sequence[int]  # one network each
    device: str

    def train(self, reading: str, start: Any = None, **options: Any) -> Any:
        """Networks of all seeds, trained side by side: a `Trained`."""
        module, torch = import_module("sinkhorn_em.deep.side_by_side"), import_module("torch")
        full = {"epochs": self.design.epochs, "pretrain_epochs": 0} | READINGS[reading] | options
        return module.train_seeds(
            torch.as_tensor(self.images.X),
            import_module("sinkhorn_em.deep.options").Options(CLASSES, batch_size=self.design.batch, **full),
            self.seeds,
            encoder=self.design.encoder,
            n_codes=CLASSES,
            y=self.images.y,
            every=self.design.every,
            start=start,
            device=self.device,
        )

    def pretrained(self) -> Any:
        """Autoencoders, with k-means of their codes."""
        return self.train("paper", pretrain_epochs=self.design.pretrain, epochs=0)

    def rows(self, method: str, trained: Any, before: np.ndarray) -> pd.DataFrame:
        """Every few epochs of a method, the first being the labels ``before`` it; scores but accuracy at the last only."""
        history = trained.history
        history = history[(history["phase"] == "cluster") & history["accuracy"].notna()]
        rows = pd.concat([self.first(before), history[["member", "epoch", "accuracy", *MEASURES]]], ignore_index=True)
        last = rows["epoch"] == rows["epoch"].max()
        for member, labels in enumerate(trained.labels):
            rows.loc[last & (rows["member"] == member), list(SCORES)] = self.score(labels)
        return rows.assign(method=method)

    def first(self, labels: np.ndarray) -> pd.DataFrame:
        """Scores of the labels (S, n) of all members, as of epoch 0."""
        scores = pd.DataFrame([self.score(found) for found in labels], columns=list(SCORES))
        return scores.assign(member=range(len(labels)), epoch=0)

    def score(self, labels: np.ndarray) -> list[float]:
        found = clustering_scores(self.images.y, labels)
        return [found.accuracy, found.balanced_accuracy, found.normalized_mutual_info, found.adjusted_rand]


def pixels(bench: Bench) -> pd.DataFrame:
    """k-means of the images, one start, as scikit-learn has it."""
    X = bench.images.X.reshape(len(bench.images.X), -1)
    labels = [KMeans(CLASSES, n_init=1, random_state=seed).fit(X).labels_ for seed in bench.seeds]
    return bench.first(np.stack(labels)).assign(method=PIXELS)


def from_pretrained(bench: Bench, reading: str) -> pd.DataFrame:
    """Autoencoders and k-means of their codes; then each method, all from the same networks and centres."""
    networks = bench.pretrained()
    parts = [bench.first(networks.labels).assign(method=AE)]
    start = networks.state
    if READINGS[reading].get("centres") == "random_encoder":
        start = replace(start, centres=bench.train(reading, epochs=0).state.centres)
    for method in PRETRAINED.get(reading, (OT_P,)):
        options = {
            "pretrain_epochs": bench.design.pretrain,
            "loss": LOSSES[method],
        }  # done: centres placed before it are kept
        trained = bench.train(reading, start, **options, **_without_transport(reading, method))
        parts.append(bench.rows(method, trained, networks.labels))
    return pd.concat(parts, ignore_index=True)


def from_scratch(bench: Bench, reading: str, method: str) -> pd.DataFrame:
    """A method that starts from k-means of the codes of the random network."""
    before = bench.train(reading, epochs=0).labels
    trained = bench.train(reading, loss=LOSSES[method], **_without_transport(reading, method))
    return bench.rows(method, trained, before)


def with_views(bench: Bench) -> pd.DataFrame:
    """Augmentation consistency: autoencoders of views, then assignments of views that follow the plan of the images."""
    side = int(np.sqrt(bench.images.X.shape[1]))
    shape = (side, side) if bench.images.X.ndim == 2 else None
    views = {"augment": import_module("sinkhorn_em.deep.augment").RandomAffine(**AFFINE, shape=shape)}
    networks = bench.train("ours", pretrain_epochs=bench.design.pretrain, epochs=0, **views)
    trained = bench.train("ours", networks.state, **WITH_VIEWS, **views)
    first = bench.first(networks.labels).assign(method=AE_VIEWS)
    return pd.concat([first, bench.rows(VIEWS, trained, networks.labels)], ignore_index=True)


def over_epsilon(bench: Bench, epsilons: Sequence[float]) -> pd.DataFrame:
    """Figure 2: a few epochs at each epsilon, from the same pre-trained networks."""
    networks, parts = bench.pretrained(), []
    for epsilon in epsilons:
        for method in (SOFT_P, OT_P):
            trained = bench.train("paper", networks.state, epsilon=epsilon, loss=LOSSES[method])
            rows = bench.rows(method, trained, networks.labels)
            parts.append(rows[rows["epoch"] > 0].assign(epsilon=epsilon))
    return pd.concat(parts, ignore_index=True)


@contextmanager
def single_thread() -> Iterator[None]:
    """Torch in one thread: sums then come in one order, whatever else runs."""
    torch = import_module("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _without_transport(reading: str, method: str) -> dict[str, Any]:
    """Value and gradient are those of the transport: the other losses have their own."""
    return {} if LOSSES[method] == "transport" else {"value": "entropic", "gradient": "envelope"}


def tidy(rows: pd.DataFrame, first: int) -> pd.DataFrame:
    """Columns in the order of the table, with the significant digits that are kept; seeds numbered from ``first``."""
    table = rows.assign(seed=rows["member"].astype(int) + first, epoch=rows["epoch"].astype(int))
    for name in (*SCORES, *MEASURES):
        values = table.get(name, np.nan)
        table[name] = [float(f"{x:.{DIGITS}g}") for x in np.broadcast_to(values, len(table))]
    return table[["seed", "method", "epoch", *SCORES, *MEASURES]]
