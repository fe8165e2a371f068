"""The trainings of the experiment `genevay`: data, families of methods that share networks, and the rows of a table.

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
from ..mixture import GaussianMixture
from .base import ReproductionError
from .genevay_designs import (
    AE,
    AE_EM,
    AE_MIXTURE,
    AE_VIEWS,
    AE_VIEWS_MIXTURE,
    AFFINE,
    CLASSES,
    DIGITS,
    DKM_P,
    LOSSES,
    MEASURES,
    OT_P,
    OURS,
    OURS_MIXTURE,
    PIXELS,
    READINGS,
    SCORES,
    SOFT_P,
    VIEWS,
    VIEWS_MIXTURE,
    WITH_VIEWS,
    Design,
)

MIXTURE_ROWS, MIXTURE_STARTS = 20_000, 5


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


def mixture(bench: Bench, trained: Any, tau: float = 1.0) -> np.ndarray:
    """Labels (S, n) of the networks' codes by a Gaussian mixture of equal sizes; Sinkhorn-EM, or EM at tau = 0."""
    labels, X = [], import_module("torch").as_tensor(bench.images.X)
    for seed, Z in zip(bench.seeds, trained.codes(X).astype(float), strict=True):
        fit = GaussianMixture(CLASSES, weights="uniform", tau=tau, n_init=MIXTURE_STARTS, random_state=seed)
        labels.append(fit.fit(Z[:: -(-len(Z) // MIXTURE_ROWS)]).predict(Z))
    return np.stack(labels)


def from_pretrained(bench: Bench, ours: bool = True) -> pd.DataFrame:
    """Autoencoders and k-means of their codes; then each method, all from the same networks; mixtures of the codes, if ours too."""
    networks = bench.pretrained()
    parts = [bench.first(networks.labels).assign(method=AE)]
    for method in (SOFT_P, OT_P):
        parts.append(bench.rows(method, bench.train("paper", networks.state, loss=LOSSES[method]), networks.labels))
    if not ours:
        return pd.concat(parts, ignore_index=True)
    by_mixture = mixture(bench, networks)
    parts.append(bench.first(by_mixture).assign(method=AE_MIXTURE))
    parts.append(bench.first(mixture(bench, networks, tau=0.0)).assign(method=AE_EM))
    few = {"epochs": max(1, bench.design.epochs // 2)}
    parts += _ours(bench, (OURS, OURS_MIXTURE), by_mixture, bench.train("mixture", networks.state, **few))
    return pd.concat(parts, ignore_index=True)


def with_views(bench: Bench) -> pd.DataFrame:
    """Augmentation consistency: autoencoders of views, then assignments of views that follow the plan of the images."""
    side = int(np.sqrt(bench.images.X.shape[1]))
    shape = (side, side) if bench.images.X.ndim == 2 else None
    views = {"augment": import_module("sinkhorn_em.deep.augment").RandomAffine(**AFFINE, shape=shape)}
    networks = bench.train("mixture", pretrain_epochs=bench.design.pretrain, epochs=0, centres="kmeans", **views)
    by_mixture = mixture(bench, networks)
    parts = [bench.first(networks.labels).assign(method=AE_VIEWS)]
    parts.append(bench.first(by_mixture).assign(method=AE_VIEWS_MIXTURE))
    trained = bench.train("mixture", networks.state, **WITH_VIEWS, **views)
    return pd.concat([*parts, *_ours(bench, (VIEWS, VIEWS_MIXTURE), by_mixture, trained)], ignore_index=True)


def _ours(bench: Bench, methods: tuple[str, str], before: np.ndarray, trained: Any) -> list[pd.DataFrame]:
    """Labels by the nearest centre, and by a mixture of the codes at the end."""
    after = bench.first(mixture(bench, trained)).assign(method=methods[1])
    return [bench.rows(methods[0], trained, before), after]


def over_readings(bench: Bench) -> pd.DataFrame:
    """Transport under every reading, from the same pre-trained networks, for a few epochs."""
    networks, parts = bench.pretrained(), []
    for reading, options in READINGS.items():
        start, method = networks.state, DKM_P if reading == "through the softmax" else OT_P
        if options.get("centres") == "random_encoder":
            start = replace(start, centres=bench.train(reading, epochs=0).state.centres)
        done = {"pretrain_epochs": bench.design.pretrain}  # centres placed before it are kept
        trained = bench.train(reading, start, loss=LOSSES[method], **done)
        parts.append(bench.rows(method, trained, networks.labels).assign(reading=reading))
    return pd.concat(parts, ignore_index=True)


def from_scratch(bench: Bench, reading: str, method: str) -> pd.DataFrame:
    """A method that starts from k-means of the codes of the random network."""
    before = bench.train(reading, epochs=0).labels
    return bench.rows(method, bench.train(reading, loss=LOSSES[method]), before)


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


def tidy(rows: pd.DataFrame, first: int) -> pd.DataFrame:
    """Columns in the order of the table, with the significant digits that are kept; seeds numbered from ``first``."""
    table = rows.assign(seed=rows["member"].astype(int) + first, epoch=rows["epoch"].astype(int))
    for name in (*SCORES, *MEASURES):
        values = table.get(name, np.nan)
        table[name] = [float(f"{x:.{DIGITS}g}") for x in np.broadcast_to(values, len(table))]
    kept = ["seed", "method", "epoch", *SCORES, *MEASURES]
    return table[["reading", *kept] if "reading" in table else kept]
