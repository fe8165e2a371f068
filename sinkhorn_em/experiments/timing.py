"""Seconds and passes of one iteration along a fit: EM, and Sinkhorn-EM by Newton, by plain Sinkhorn and by POT, side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist

from .._typing import Floats
from ..datasets import simulate_gaussian_mixture
from ..plots import COLOURS, GREY, INK, MARKERS, panels
from .base import Experiment, Scale, Task, Verdict
from .statistics import mean, share
from .timing_arms import (
    COLD,
    EM,
    FIT,
    MOST_PASSES,
    NEWTON,
    POT,
    POT_LOG,
    SCIKIT_LEARN,
    WARM,
    WORK,
    Point,
    measure,
    one_thread,
    scikit_learn,
    way,
)

ARMS = (FIT, NEWTON, WARM, COLD, POT, POT_LOG, SCIKIT_LEARN)
COLOUR = dict(zip(ARMS, (*COLOURS[:1], COLOURS[5], COLOURS[2], *COLOURS[3:5], COLOURS[6], COLOURS[1]), strict=True))
MARKER = dict(zip(ARMS, MARKERS, strict=True))
TOLERANCES = (1e-6, 1e-9)  # L1 error of the column masses
FEATURES = 2  # the fewer, the less EM has to do, and the dearer transport looks
LARGE = 1_000_000  # entries from which only the tight tolerance is measured
CLAIM = (10.0, 100.0)  # iterations of EM that one of Sinkhorn-EM costs, in the papers


class Timing(Experiment):
    name = "timing"
    question = "What does an iteration of Sinkhorn-EM cost, in iterations of EM?"
    source = "Mena et al. 2020: an iteration of Sinkhorn-EM costs 10 to 100 of EM; fewer passes by Newton's method: computed for us"
    alone = True

    def tasks(self, scale: Scale) -> list[Task]:
        states = (
            {"first": 5, "last": 5} if scale.quick else {"first": 2, "last": 6}
        )  # iterations at which all is measured
        sizes, components = ([1000], [3, 10]) if scale.quick else ([1000, 10_000, 100_000], [3, 10, 50])
        return [
            {"n": n, "K": K, "separation": separation, **states, "repetition": repetition}
            for n in sizes
            for K in components
            for separation in ((2.0, 4.0) if scale.quick else (2.0, 4.0, 8.0))
            for repetition in range(scale.count(1, 1))
        ]

    def run(self, task: Task, rng: np.random.Generator) -> pd.DataFrame:
        K = int(task["K"])
        X = _rows(int(task["n"]), K, float(task["separation"]), rng)
        with one_thread():
            points = way(X, K, int(task["first"]), int(task["last"]), int(rng.integers(2**31)))
            return self._measured(points, X)

    @staticmethod
    def _measured(points: list[Point], X: Floats) -> pd.DataFrame:
        records: list[dict[str, Any]] = []
        entries = len(X) * len(points[0].state.weights)
        for point in points:
            for tolerance in TOLERANCES if entries < LARGE else TOLERANCES[-1:]:
                for arm in (EM, *ARMS[:-1]):
                    columns = {"iteration": point.iteration, "tolerance": tolerance, "arm": arm}
                    if arm != POT_LOG or (point is points[-1] and tolerance == TOLERANCES[-1]):  # too slow for more
                        records.append(columns | measure(X, point, tolerance, arm))
            columns = {"iteration": point.iteration, "tolerance": TOLERANCES[-1], "arm": SCIKIT_LEARN}
            records.append(columns | scikit_learn(X, point))
        return pd.DataFrame(records)

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        cost = _cells(_with_ratio(table), "ratio")
        return [*_passes(table), *_seconds(cost, judged=table["n"].nunique() > 1)]

    def summary(self, table: pd.DataFrame) -> pd.DataFrame:
        """By arm: what it costs, and what an entry costs: seconds are at least passes x entries x that of a pass."""
        frame = _with_ratio(table)
        frame["ns"] = frame["seconds"] / (frame["n"] * frame["K"]) * 1e9
        frame["pass"] = frame["e_step"] / (frame["n"] * frame["K"] * frame["passes"]) * 1e9
        columns = {"ratio": "iterations of EM", "passes": "passes of an E-step", "ns": "ns an entry, whole iteration"}
        columns |= {"pass": "ns an entry and pass", "stopped": "share stopped"}
        groups = frame.groupby(["n", "arm"], sort=False)[list(columns)]
        return (
            groups.agg({name: "mean" if name == "stopped" else "median" for name in columns})
            .rename(columns=columns)
            .reset_index()
        )

    def notes(self, scale: Scale) -> str:
        return (
            f"Gaussian mixtures in {FEATURES} dimensions, full covariances, uniform weights held; K centres whose median distance "
            "to their nearest neighbour is the separation, in standard deviations. States: iterations 2 to 6 (quick: 5) of "
            "Sinkhorn-EM from a k-means++ start. Measured: scores, E-step and M-step, in seconds of the processor, one thread, all "
            "arms in turn at every state. Cold: from zero potentials, as in the papers; warm: from those of the last E-step. As in "
            "a fit: to the error that the fit allows itself at that state. An E-step stops when entries times passes exceed "
            f"{WORK[COLD]:.0e} (POT {WORK[POT]:.0e}, its logarithmic form {WORK[POT_LOG]:.0e}, which is measured at the last state "
            f"only), or passes {MOST_PASSES}: it is then marked stopped, and its cost is a lower bound. An E-step takes passes x "
            "entries (n K) x ns an entry and pass. With more features EM has more to do and all ratios fall. POT looks at its "
            f"error every ten passes. From {LARGE:.0e} entries on only the tolerance {TOLERANCES[-1]:g} is measured."
        )

    def draw(self, table: pd.DataFrame) -> Any:
        frame = _with_ratio(table)
        figure, axes = panels(1, 4, (15, 4.6), sharey=True, width_ratios=[1, 1, 1, 0.55])
        for ax, name, label in zip(
            axes[0], ("separation", "K", "n"), ("separation, sd", "components K", "rows n"), strict=False
        ):
            _draw_against(ax, frame, name)
            ax.set(xlabel=label, xscale="log", yscale="log", xticks=sorted(frame[name].unique()))
            ax.set_xticklabels([f"{value:g}" for value in sorted(frame[name].unique())])
            ax.minorticks_off()
        axes[0, 0].set_ylabel("cost of an iteration, in iterations of EM")
        axes[0, 3].set_axis_off()
        axes[0, 3].legend(*axes[0, 0].get_legend_handles_labels(), frameon=False, loc="center left")
        figure.suptitle(
            "Medians; tolerance 1e-9 where it is fixed; arrows: stopped before it was reached, so at least",
            fontsize="large",
        )
        return figure


def _rows(n: int, K: int, separation: float, rng: np.random.Generator) -> Floats:
    """Draws (n, d) from K unit Gaussians: the median distance of a centre to its nearest neighbour is ``separation``."""
    centres = rng.normal(size=(K, FEATURES))
    apart = cdist(centres, centres)
    np.fill_diagonal(apart, np.inf)
    centres *= separation / np.median(apart.min(axis=1))
    return simulate_gaussian_mixture(n, np.full(K, 1 / K), centres, np.eye(FEATURES), random_state=rng)[0]


def _with_ratio(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of all arms with the tight tolerance, with the cost over that of EM's iteration at the same state."""
    at = ["n", "K", "separation", "repetition", "iteration"]
    tight = table[table["tolerance"] == min(TOLERANCES)]
    reference = tight[tight["arm"] == EM].set_index(at)["seconds"].rename("reference")
    frame = tight[(tight["arm"] != EM) & (tight["seconds"] > 0)].join(reference, on=at)
    return frame.assign(ratio=frame["seconds"] / frame["reference"], stopped=frame["status"] == "max_passes")


def _cells(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    """Medians over the states of every fit, one column for each arm."""
    tight = frame[frame["tolerance"] == min(TOLERANCES)]
    return tight.pivot_table(column, ["n", "K", "separation", "repetition"], "arm", aggfunc="median", sort=False)


def _passes(table: pd.DataFrame) -> list[Verdict]:
    """What does not depend on the machine."""
    quick = table["n"].nunique() == 1
    done = table[(table["status"] == "converged") & (table["arm"].isin(WORK) | (table["arm"] == NEWTON))]
    passes = _cells(table, "passes")
    newton, far = passes[NEWTON], passes.index.get_level_values("separation") >= 4
    times, warm = (passes[COLD] / newton)[far], (passes[WARM] / newton)[far]
    fewer = mean(np.log(times))
    return [
        Verdict(
            "all solvers that converged have the same column masses: L1 error within the tolerance (POT: as it stops)",
            f"largest error / tolerance: {(done['error'] / done['tolerance']).max():.2g}",
            bool((done["error"] <= 1.01 * done["tolerance"]).all()),
        ),
        Verdict(
            "Newton's method, warm as inside a fit, takes at most 8 passes an E-step to 1e-9 (computed for us: 3-5)",
            f"medians of {len(newton)} cells: mean {mean(newton)}, from {newton.min():g} to {newton.max():g}; most of a single "
            f"E-step {table.loc[table['arm'] == NEWTON, 'passes'].max():g}",
            bool(newton.mean() <= 8 if quick else mean(newton).high <= 8),
        ),
        Verdict(
            "from 4 standard deviations on, on average at least 5 times fewer passes than plain Sinkhorn",
            f"cold {fewer.exp()} times, at least {times.min():.3g}; warm {mean(np.log(warm)).exp()} times "
            "(where Sinkhorn was stopped: at least)",
            bool(times.min() > 5 if quick else fewer.low > np.log(5)),
        ),
    ]


def _seconds(cost: pd.DataFrame, judged: bool) -> list[Verdict]:
    """Iterations in those of EM; few measurements are shown and not judged."""
    price = {arm: mean(np.log(cost[arm].dropna())) for arm in ARMS if arm in cost and cost[arm].notna().any()}
    cold, tight, fit = price[COLD], cost[COLD].dropna(), price[FIT]
    return [
        Verdict(
            "an iteration by plain Sinkhorn from zero potentials, same compiled pass, costs 10 to 100 of EM (Mena et al. 2020)",
            f"geometric mean {cold.exp()}, cells from {tight.min():.3g} to {tight.max():.3g}, within 10 to 100: "
            f"{share(tight.between(*CLAIM))}; warm {price[WARM].exp()}",
            bool(cold.low > np.log(CLAIM[0]) and cold.high < np.log(CLAIM[1])) if judged else None,
        ),
        Verdict(
            "by Newton's method an iteration inside a fit costs at most 2 of EM, and not 10 to 100",
            f"geometric mean {fit.exp()}, cells up to {cost[FIT].max():.3g}; to a fixed error {price[NEWTON].exp()}",
            bool(fit.high < np.log(2)) if judged else None,
        ),
        Verdict(
            "POT in the place of our solver, and the EM of scikit-learn, in iterations of our EM",
            "; ".join(f"{arm} {price[arm].exp()}" for arm in (POT, POT_LOG, SCIKIT_LEARN) if arm in price),
            None,
        ),
    ]


def _draw_against(ax: Any, frame: pd.DataFrame, name: str) -> None:
    """Median cost over everything else, against one axis of the design."""
    ax.axhspan(*CLAIM, color=GREY, alpha=0.25, label="the papers: 10 to 100", linewidth=0)
    ax.axhline(1, color=INK, linewidth=0.8)
    for arm in ARMS:
        groups = frame[frame["arm"] == arm].groupby(name)
        if not len(groups):
            continue
        middle, stopped = groups["ratio"].median(), groups["stopped"].mean() > 0.5
        ax.plot(middle.index, middle, color=COLOUR[arm], marker=MARKER[arm], label=arm)
        ax.plot(middle.index[stopped], 1.25 * middle[stopped], "^", color=COLOUR[arm], markersize=4)
