"""Neurons of C. elegans: pixels of simulated worms, and the names of neurons in seven real ones."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning

from .._typing import Floats
from ..atlas import SPACE, Atlas
from ..datasets import load_neuropal_atlas, load_neuropal_worms, simulate_neurons, synthetic_atlas
from ..datasets.neuropal import ATLAS, WORMS, find_neuropal
from ..families.priors import NormalPrior
from ..metrics import clustering_accuracy, matched_errors, matched_labels
from ..mixture import GaussianMixture
from ..plots import COLOURS, GREY, INK, panels
from .base import Experiment, Scale, Task, Verdict
from .celegans_worms import BLOCKS, COLOUR, WORDS, draw_worms, identify, worm_verdicts
from .statistics import mean

NEURONS = ("PDA", "DVB", "PHAL", "ALNL", "PLML")
SETTINGS = {
    "known": "shapes known, random start",
    "learned": "shapes learned, random start",
    "atlas": "shapes learned, start at the atlas",
    "named": "known, random start named by atlas",
    "background": "20 % background, start as before",
}
ORIGIN = {"known": "paper", "learned": "paper", "named": "ours", "background": "ours"}
BACKGROUND = 0.2  # share of pixels
BOUNDS = (0.1, 10.1)  # of eigenvalues, as in the authors' code
FULL, QUICK = (5000, 100), (600, 10)  # pixels of a worm, iterations
SYNTHETIC = 10  # neurons of the made-up atlas
NEARLY = 0.9  # share of the centres
SCORES = {
    "pixels": "test pixels labelled right",
    "test": "test log-likelihood",
    "within_1": "same-named centres within 1",
}
TRAINING = 0.8  # share of pixels
ITERATIONS = (1, 3, 10, 30, 100)
METHODS: dict[str, dict[str, Any]] = {
    "EM": {"tau": 0, "weights": "uniform"},
    "EM_learned": {"tau": 0, "weights": "learned"},
    "SEM": {"tau": 1, "weights": "uniform"},
}


class Celegans(Experiment):
    name = "celegans"
    question = "Does Sinkhorn-EM find and name more neurons than EM?"
    source = "Mena et al. 2020, neuron segmentation, in the design of the authors' code; real worms: Yemini et al. 2021"
    folder: Path | None = None  # the user's data: where a task finds its file, no part of what is computed

    def tasks(self, scale: Scale) -> list[Task]:
        self.folder = scale.data
        atlas = "synthetic" if find_neuropal(scale.data, ATLAS) is None else "NeuroPAL tail"
        n, iterations = QUICK if scale.quick else FULL
        pixels: dict[str, Any] = {"atlas": atlas, "n": n, "iterations": iterations}
        settings = ("known",) if scale.quick else SETTINGS
        repetitions = range(scale.count(25, 24))
        tasks: list[Task] = [
            {"part": "pixels", "setting": s, **pixels, "repetition": r} for s in settings for r in repetitions
        ]
        tasks.append({"part": "map", "setting": "background", **pixels, "starts": 3 if scale.quick else 11})
        if find_neuropal(scale.data, WORMS) is not None:
            worms = load_neuropal_worms(self.folder or "")["worm"].unique()
            tasks += [{"part": "worms", "worm": worm} for worm in worms[: 3 if scale.quick else None].tolist()]
        return tasks

    def run(self, task: Task, rng: np.random.Generator) -> pd.DataFrame:
        if task["part"] == "worms":
            return identify(load_neuropal_worms(self.folder or ""), str(task["worm"]))
        real = task["atlas"] != "synthetic"
        atlas = load_neuropal_atlas(self.folder or "").select(NEURONS) if real else synthetic_atlas(SYNTHETIC)
        return (_pixels if task["part"] == "pixels" else _map)(task, atlas, rng)

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        last = _last(table)
        verdicts = []
        for setting in last["setting"].unique():
            rows = last[last["setting"] == setting]
            if setting == "atlas":
                verdicts.append(_near(rows))
                continue
            verdicts += [_more(rows, setting, "pixels", other) for other in ("EM", "EM_learned")]
            verdicts += [_more(rows, setting, column) for column in ("test", "within_1")]
        worms = table[table["part"] == "worms"]
        return [*verdicts, *(worm_verdicts(worms) if len(worms) else [])]

    def summary(self, table: pd.DataFrame) -> pd.DataFrame:
        scores = ["train", "test", "within_1", "within_3", "found_1", "distance", "pixels"]
        cells = _last(table).groupby(["setting", "method"], sort=False)[scores].agg(["mean", "std"])
        text = {s: cells[s].apply(lambda row: f"{row['mean']:.3g} ({row['std']:.2g})", axis=1) for s in scores}
        return pd.DataFrame(text).reset_index()

    def notes(self, scale: Scale) -> str:
        here = find_neuropal(scale.data, WORMS)
        worms = "" if here else f" The real worms were left out: --data has no {WORMS}."
        return (
            "Pixels: the three settings of the authors' code (shapes known; shapes learned; start at the atlas), and two of ours. "
            "Random starts are pixels drawn at random; in the authors' design names fall on them at random, in ours the atlas "
            "gives each its name (Hungarian assignment). Background: pixels uniform on the box of the others, share known. Scores: "
            f"mean (sd) after {(QUICK if scale.quick else FULL)[1]} iterations; pixels: test pixels labelled right, names set "
            "aside; within_r: true centres within r (in space) of the mean of the same name, the authors' score; "
            "found_1: within 1 of a mean of their own, whatever its name; distance: to the mean of the same name. With names at "
            "random and hundreds of pixels a neuron the prior "
            "cannot put names right: same-named scores are then near 1/K for every method. Unlike the authors' "
            "code the prior's covariances are not divided by 10, and EM's responsibilities do not contain the prior. Without the "
            f"atlas file a synthetic atlas of {SYNTHETIC} neurons takes its place. Worms: each is named by an atlas of the others, "
            "with shrunken covariances; colours, saturated in five of seven, enter by normal scores of their ranks. Half of an "
            "atlas covariance is spread about a neuron's mean, half belongs to the mean; components are all names of the others, "
            "about 300 for 220 to 260 neurons, weighted as often as seen. The worm is aligned without its names, by posterior "
            "assignment; aligning it by its names is an upper bound. 'Names at most once' bounds a column's mass by one neuron: "
            f"what the Hungarian assignment knows.{worms}"
        )

    def draw(self, table: pd.DataFrame) -> Any:
        figure, axes = panels(2, 4, (15, 7.4))
        curves = table[table["part"] == "pixels"]
        for ax, setting in zip(axes[0], SETTINGS, strict=False):
            _draw_curves(ax, curves[curves["setting"] == setting], SETTINGS[setting])
        axes[0, 0].set_ylabel("test pixels labelled right")
        axes[0, 0].legend(frameon=False, loc="lower right")
        pixels = table[table["part"] == "map"]
        for ax, column in zip(axes[1], ("truth", "EM", "SEM"), strict=False):
            _draw_map(ax, pixels, column)
        axes[1, 0].set_ylabel("position y")
        draw_worms(axes[1, 3], table[table["part"] == "worms"])
        title = "Simulated neurons: pixels right, names set aside (above); a worm with 20 % background, median start (below)"
        figure.suptitle(title, fontsize="large")
        return figure


def _simulate(task: Task, atlas: Atlas, rng: np.random.Generator) -> tuple[Any, Floats, Floats]:
    """A worm, and its training and test pixels."""
    share = BACKGROUND if task["setting"] == "background" else 0.0
    worm = simulate_neurons(atlas, int(task["n"]), background=share, random_state=rng)
    n = int(TRAINING * len(worm.data))
    return worm, worm.data[:n], worm.data[n:]


def _options(setting: str, worm: Any, start: Floats) -> dict[str, Any]:
    K, d = worm.means.shape
    places = worm.atlas.means
    options: dict[str, Any] = {"prior": NormalPrior(places, worm.atlas.covariances), "blocks": BLOCKS, "tol": 0}
    options |= {"means_init": places if setting == "atlas" else start, "warm_start": True}
    if setting in ("named", "background"):
        options["means_init"] = start[np.argsort(worm.atlas.assign(start))]
    if setting == "background":
        options["noise"] = BACKGROUND
    if setting in ("known", "named"):
        return options | {"precisions_init": np.linalg.inv(worm.covariances), "frozen": "covariances"}
    return options | {"precisions_init": np.tile(np.eye(d) / 10, (K, 1, 1)), "eigenvalue_bounds": BOUNDS}


def _fits(task: Task, K: int, options: dict[str, Any], X: Floats) -> Iterator[tuple[int, GaussianMixture]]:
    """One fit, looked at after some iterations."""
    model = GaussianMixture(K, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # stopped on purpose
        for before, now in pairwise((0, *(i for i in ITERATIONS if i <= int(task["iterations"])))):
            yield now, model.set_params(max_iter=now - before).fit(X)


def _pixels(task: Task, atlas: Atlas, rng: np.random.Generator) -> pd.DataFrame:
    worm, train, test = _simulate(task, atlas, rng)
    K, truth = len(worm.means), worm.target[len(train) :]
    options = _options(str(task["setting"]), worm, rng.choice(train, K, replace=False))
    records = []
    for method, own in METHODS.items():
        for iteration, model in _fits(task, K, options | own, train):
            centres, means = worm.means[:, :SPACE], model.means_[:, :SPACE]
            errors, matched = np.linalg.norm(means - centres, axis=1), matched_errors(means, centres)
            record = {"method": method, "iteration": iteration, "train": model.score(train), "test": model.score(test)}
            record |= {f"within_{r}": (errors < r).mean() for r in (1, 3)} | {"found_1": (matched < 1).mean()}
            record |= {"distance": errors.mean(), "pixels": clustering_accuracy(truth, model.predict(test))}
            records.append(record)
    return pd.DataFrame(records).round(4)


def _map(task: Task, atlas: Atlas, rng: np.random.Generator) -> pd.DataFrame:
    """Test pixels of one worm, with the labels of each method from the start that is its median in pixels labelled right."""
    worm, train, test = _simulate(task, atlas, rng)
    K, truth = len(worm.means), worm.target[len(train) :]
    starts = [rng.choice(train, K, replace=False) for _ in range(int(task["starts"]))]
    columns: dict[str, Any] = {"x": test[:, 0].round(2), "y": test[:, 1].round(2), "truth": truth}
    options = [_options(str(task["setting"]), worm, start) for start in starts]
    for method in ("EM", "SEM"):
        fits = [list(_fits(task, K, own | METHODS[method], train))[-1][1].predict(test) for own in options]
        right = [clustering_accuracy(truth, labels) for labels in fits]
        columns[method] = fits[int(np.argsort(right, kind="stable")[len(right) // 2])]
    return pd.DataFrame(columns).iloc[:500]


def _last(table: pd.DataFrame) -> pd.DataFrame:
    return table[(table["part"] == "pixels") & (table["iteration"] == table["iterations"])]


def _more(rows: pd.DataFrame, setting: str, column: str, other: str = "EM") -> Verdict:
    """Sinkhorn-EM less another method, on the same pixels from the same start. A quick run judges the pixels only."""
    wide = rows.pivot(index="repetition", columns="method", values=column)
    difference = mean(wide["SEM"] - wide[other])
    judged = column == "pixels" or (rows["n"] >= FULL[0]).all()
    return Verdict(
        f"{SETTINGS[setting]}: {SCORES[column]}, Sinkhorn-EM above {WORDS[other]} ({ORIGIN[setting]})",
        f"{wide['SEM'].mean():.3g} and {wide[other].mean():.3g}, difference {difference}",
        difference.low > 0 if judged else None,
    )


def _near(rows: pd.DataFrame) -> Verdict:
    shares = rows.groupby("method")["within_3"].mean()
    return Verdict(
        "start at the atlas: every method has at least 90 % of the same-named centres within 3",
        ", ".join(f"{WORDS[method]} {shares[method]:.3f}" for method in METHODS),
        bool((shares > NEARLY).all()),
    )


def _draw_curves(ax: Any, curves: pd.DataFrame, title: str) -> None:
    """Means over repetitions, and their 95 % intervals."""
    ax.set(title=title, xlabel="iteration", xscale="log", ylim=(0.6, 1.02), xlim=(1, ITERATIONS[-1]))
    for method in METHODS if len(curves) else ():
        values = curves[curves["method"] == method].groupby("iteration")["pixels"]
        centre, half = values.mean(), 1.96 * values.sem()
        ax.plot(centre.index, centre, ".-", color=COLOUR[method], label=WORDS[method])
        ax.fill_between(centre.index, centre - half, centre + half, color=COLOUR[method], alpha=0.15, linewidth=0)
    if not len(curves):
        ax.text(0.5, 0.5, "full run only", transform=ax.transAxes, ha="center", color=INK)


def _draw_map(ax: Any, pixels: pd.DataFrame, column: str) -> None:
    """Pixels in space, coloured by neuron, background grey."""
    labels = pixels[column].to_numpy(int)
    right = clustering_accuracy(pixels["truth"], labels)
    colours = np.array([GREY, *COLOURS, *COLOURS])[matched_labels(pixels["truth"], labels)]  # the class -1 is the first
    ax.scatter(pixels["x"], pixels["y"], 8, colours, alpha=0.7, linewidths=0)
    ax.set(
        title="truth (grey: background)" if column == "truth" else f"{WORDS[column]}: {right:.0%} of pixels right",
        xlabel="position x",
    )
