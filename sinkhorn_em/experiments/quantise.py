"""Vector quantisation: codebooks of k-means, EM and Sinkhorn-EM on two photographs and an embedding, from the same starts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import entropy

from .._typing import Floats
from ..mixture import GaussianMixture
from ..plots import COLOURS, MARKERS, panels
from .base import Experiment, Scale, Task, Verdict
from .quantise_codebooks import (
    ITERATIONS,
    METHODS,
    PLAIN,
    SHARP,
    STARTS,
    TEMPERATURE,
    assignments,
    codebooks,
    draw_start,
    load,
    photograph,
    quantiser,
)
from .statistics import Interval, mean

COLOUR = dict(zip(METHODS, (COLOURS[2], COLOURS[1], COLOURS[5], COLOURS[0]), strict=True))
MARKER = dict(zip(METHODS, MARKERS, strict=False))
DATA = ("colours", "patches", "digits")
TWINS = 0.05  # codes closer than this share of the root of the distortion are one code
EVEN = 0.97  # share of log2 K from which codes count as used evenly
PICTURED = {"data": "colours", "codes": 16, "repetition": 0}  # the task whose codes are drawn
STEP, COLUMNS = 2, slice(110, 530)  # pixels of the photograph that are drawn: every other one, the middle


class Quantise(Experiment):
    name = "quantise"
    question = "Does Sinkhorn-EM use the codes of a codebook evenly, and at what price in distortion?"
    source = "no paper gives numbers; theory: the plan's column marginal is the weights, and k-means minimises the distortion"

    def tasks(self, scale: Scale) -> list[Task]:
        if scale.quick:
            return [_task("patches", 16, 400, r) for r in range(scale.count(4, 4))]
        designs = [(data, codes, 4) for data in DATA for codes in (16, 64)]
        designs += [(data, 256, 1) for data in ("colours", "patches")]
        return [_task(data, codes, 2000, r) for data, codes, reps in designs for r in range(scale.count(reps, 1))]

    def run(self, task: Task, rng: np.random.Generator) -> pd.DataFrame:
        rows = load(str(task["data"]))
        chosen = rng.permutation(len(rows))[: 2 * int(task["rows"])]
        train, held_out = np.array_split(rows[chosen], 2)
        seed = int(rng.integers(2**31))
        parts = []
        for start in STARTS:
            first = draw_start(train, int(task["codes"]), start, seed)
            for method, (codes, variance, converged) in codebooks(train, first).items():
                mixture = quantiser(codes, variance)
                columns: dict[str, Any] = {"start": start, "method": method, "converged": converged}
                table = pd.concat([_scores(mixture, train, "train"), _scores(mixture, held_out, "held out")])
                parts.append(table.assign(part="scores", **columns))
                if PICTURED.items() <= task.items():
                    palette = pd.DataFrame(codes, columns=["red", "green", "blue"])
                    parts.append(palette.assign(part="palette", variance=variance, **columns))
        return pd.concat(parts, ignore_index=True)

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        wide, quick = _wide(table), set(table["data"]) != set(DATA)
        own = wide["balanced_entropy"][SHARP]
        price = {m: _mean(np.log(wide["nearest_mse"][m] / wide["nearest_mse"]["k-means"])) for m in METHODS}
        later = _mean(np.log(wide["balanced_mse"][SHARP] / wide["balanced_mse"]["k-means"]))
        return [
            Verdict(
                f"sharp Sinkhorn-EM: codes assigned by the plan of held-out rows have an entropy above {EVEN} log2 K (theory: 1, "
                "but for ties and rows that are split)",
                f"{_mean(own)}; smallest {own.min():.3f}",
                _mean(own).low > EVEN,
            ),
            Verdict(
                "evenness costs distortion: that of the nearest code, held out, is above that of k-means from the same start",
                f"ratio: sharp {price[SHARP].exp()}, variance learned {price[PLAIN].exp()}, EM {price['EM'].exp()}",
                None if quick else price[SHARP].low > 0,  # few rows: k-means fits their noise
            ),
            Verdict(
                "where balance is asked for it pays to fit with it: distortion of the balanced assignment, sharp Sinkhorn-EM's "
                "codebook over k-means' balanced afterwards, is below 1",
                f"ratio {later.exp()}",
                later.high < 0,
            ),
            *_use(wide, SHARP, "sharp Sinkhorn-EM", judged_even=True, judged_lost=not quick),
            *_use(
                wide,
                PLAIN,
                "Sinkhorn-EM as in the papers, its variance learned,",
                judged_even=not quick,
                judged_lost=not quick,
            ),
        ]

    def summary(self, table: pd.DataFrame) -> pd.DataFrame:
        held_out = table[(table["part"] == "scores") & (table["of"] == "held out")].copy()
        pixels = held_out["data"] != "digits"
        held_out["PSNR"] = np.where(pixels, -10 * np.log10(held_out["nearest_mse"]), np.nan)
        columns = {"nearest_mse": "distortion", "PSNR": "PSNR", "nearest_entropy": "entropy", "nearest_dead": "unused"}
        columns |= {
            "twins": "coincident",
            "balanced_mse": "distortion, balanced",
            "balanced_entropy": "entropy, balanced",
        }
        groups = held_out.groupby(["data", "codes", "start", "method"], sort=False)
        return groups[list(columns)].mean().rename(columns=columns).reset_index()

    def notes(self, scale: Scale) -> str:
        return (
            "Rows: colours and patches of 4 x 4 pixels of china.jpg (photograph by danielbuechele, CC BY 2.0, "
            "flickr.com/photos/danielbuechele/6061409035, as shipped by scikit-learn; quantised here); 16 principal "
            "components of the digits, scaled to mean square length 1. Half of the rows drawn are held out. EM and Sinkhorn-"
            f"EM: one spherical variance, uniform weights, at most {ITERATIONS} iterations. Sharp: the variance is held below "
            f"{TEMPERATURE} of what k-means leaves of a feature; without that the E-step is so soft that codes melt into one "
            "where rows are dense. Distortion: mean square of an entry. PSNR: dB, range 1. Entropy: share of log2 K. "
            "Balanced: the largest entry of the row's plan at that variance."
        )

    def draw(self, table: pd.DataFrame) -> Any:
        wide = _wide(table).reset_index()
        data = list(dict.fromkeys(wide["data"]))
        palettes = table[table["part"] == "palette"]
        figure, axes = panels(
            1 + (len(palettes) > 0), 5 if len(palettes) else len(data) + 1, (15, 6.6 if len(palettes) else 3.6)
        )
        for ax, name in zip(axes[0], data, strict=False):
            _draw_trade(ax, wide[wide["data"] == name], name)
        axes[0, 0].set_ylabel("distortion / that of k-means")
        for ax in axes[0, len(data) :]:
            ax.set_axis_off()
        axes[0, len(data)].legend(*axes[0, 0].get_legend_handles_labels(), frameon=False, loc="center")
        if len(palettes):
            _draw_pictures(axes[1], palettes[palettes["start"] == "k-means++"])
        figure.suptitle(
            "Filled: nearest code. Hollow: balanced assignment. Held-out rows; even use is at the right",
            fontsize="large",
        )
        return figure


def _task(data: str, codes: int, rows: int, repetition: int) -> Task:
    rows = min(rows, 898) if data == "digits" else rows  # half of them
    return {"data": data, "codes": codes, "rows": rows, "repetition": repetition}


def _scores(mixture: GaussianMixture, X: Floats, of: str) -> pd.DataFrame:
    """One row: how well and how evenly the codes serve the rows of X."""
    codes = mixture.means_
    row: dict[str, Any] = {"of": of}
    for name, labels in assignments(mixture, X).items():
        counts = np.bincount(labels, minlength=len(codes))
        row[f"{name}_mse"] = float(((X - codes[labels]) ** 2).mean())
        row[f"{name}_entropy"] = float(entropy(counts) / np.log(len(codes)))
        row[f"{name}_dead"] = float((counts == 0).mean())
    apart = np.sqrt(((codes[:, None] - codes) ** 2).sum(axis=2))
    np.fill_diagonal(apart, np.inf)
    row["twins"] = float((apart.min(axis=1) < TWINS * np.sqrt(row["nearest_mse"] * X.shape[1])).mean())
    return pd.DataFrame([row])


def _wide(table: pd.DataFrame) -> pd.DataFrame:
    """Held-out scores, one row for each task and start, columns (measure, method)."""
    held_out = table[(table["part"] == "scores") & (table["of"] == "held out")]
    measures = ["nearest_mse", "nearest_entropy", "nearest_dead", "balanced_mse", "balanced_entropy", "twins"]
    return held_out.pivot(index=["data", "codes", "repetition", "start"], columns="method", values=measures)


def _use(wide: pd.DataFrame, method: str, name: str, *, judged_even: bool, judged_lost: bool) -> list[Verdict]:
    """How evenly the nearest codes are used, and how many codes are lost."""
    even, random = wide["nearest_entropy"], wide.xs("random rows", level="start")
    above = [_mean(even[method] - even[other]) for other in ("k-means", "EM")]
    lost = [_mean(random[measure][method] - random[measure]["EM"]) for measure in ("twins", "nearest_dead")]
    return [
        Verdict(
            f"{name} uses even the nearest code, without a plan, more evenly than k-means and EM (entropy / log2 K)",
            f"{_mean(even[method])}; above k-means by {above[0]}, above EM by {above[1]}",
            min(limits.low for limits in above) > 0 if judged_even else None,
        ),
        Verdict(
            f"from random rows {name} has fewer codes than EM that coincide or are nearest to no row",
            f"share of codes, less that of EM: coincident {lost[0]}, nearest to no row {lost[1]}",
            max(limits.high for limits in lost) < 0 if judged_lost else None,
        ),
    ]


def _mean(values: pd.Series) -> Interval:
    """Of the tasks; the starts of a task share their rows."""
    return mean(values.groupby(["data", "codes", "repetition"]).mean())


def _draw_trade(ax: Any, wide: pd.DataFrame, data: str) -> None:
    """Distortion against evenness, a point for each codebook size, means over repetitions and starts."""
    for method in METHODS:
        for kind, face in (("nearest", COLOUR[method]), ("balanced", "none")):
            ratio = wide[f"{kind}_mse"][method] / wide["nearest_mse"]["k-means"]
            points = pd.DataFrame({"codes": wide["codes"], "x": wide[f"{kind}_entropy"][method], "y": ratio})
            x, y = points.groupby("codes").mean().to_numpy().T
            label = method if kind == "nearest" else None
            ax.plot(x, y, MARKER[method], color=COLOUR[method], markerfacecolor=face, label=label)
    ax.set(title=data, xlabel="entropy of code use / log2 K", yscale="log")
    ax.yaxis.set_major_formatter("{x:g}")
    low, high = ax.get_ylim()
    ax.yaxis.set_minor_formatter("{x:.3g}" if high < 10 * low else "")  # several decades have no room for more labels


def _draw_pictures(axes: Any, palettes: pd.DataFrame) -> None:
    """The photograph, and what each codebook makes of it: sharp Sinkhorn-EM by its balanced assignment."""
    picture = photograph("china.jpg")[::STEP, COLUMNS][:, ::STEP]
    axes[0].imshow(picture)
    axes[0].set_title("china.jpg; shares of pixels that\n16 codes are nearest to", fontsize="medium")
    for ax, method in zip(axes[1:], METHODS, strict=True):
        palette = palettes[palettes["method"] == method]
        codes = palette[["red", "green", "blue"]].to_numpy(float)
        labels = assignments(quantiser(codes, float(palette["variance"].iloc[0])), picture.reshape(-1, 3))
        ax.imshow(codes[labels["balanced" if method == SHARP else "nearest"]].reshape(picture.shape))
        used = np.bincount(labels["nearest"], minlength=len(codes)) / len(labels["nearest"])
        ax.set_title(f"{method}\nnearest: {used.min():.1%} to {used.max():.1%}", fontsize="medium")
    for ax in axes:
        ax.set_axis_off()
