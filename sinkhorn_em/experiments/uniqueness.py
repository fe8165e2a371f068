"""From which weight on has the symmetric mixture no spurious stationary point? Thresholds of EM and Sinkhorn-EM, population."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ..plots import INK, panels
from ..population import fixed_points, spurious_threshold, tilted_weight
from .base import COLOUR, METHODS, Experiment, Scale, Task, Verdict

#: computed independently of this package, to be met within WITHIN
THRESHOLDS = {
    "EM": {0.5: 0.6256, 0.75: 0.6911, 1.0: 0.7606, 1.5: 0.8984, 2.0: 0.9797, 3.0: 1.000},
    "Sinkhorn-EM": {0.5: 0.6119, 0.75: 0.6504, 1.0: 0.6774, 1.5: 0.7086, 2.0: 0.7237, 3.0: 0.7367},
}
ROOTS = {("EM", 1.0): -0.979, ("Sinkhorn-EM", 1.0): -0.846, ("EM", 2.0): -1.998, ("Sinkhorn-EM", 2.0): -1.580}
TILTED = {-1.0: 0.931, 0.5: 0.673, 1.0: 0.700, 2.0: 0.782, 3.0: 0.856}
WITHIN, PRINTED = 0.002, 0.0006  # the second: three digits, rounded
ROOT_ALPHA, TILTED_ALPHA = 0.6, 0.7
LIMIT = 0.75


class Uniqueness(Experiment):
    name = "uniqueness"
    question = "From which weight on is the truth the only stationary point?"
    source = (
        "Mena et al. 2020 (fewer spurious points than EM); the thresholds were computed independently for this project"
    )

    def tasks(self, scale: Scale) -> list[Task]:
        curve = [] if scale.quick else [0.25, 0.35, 1.25, 1.75, 2.5, 4.0, 5.0, 6.0, 8.0, 12.0]
        truths = sorted([*THRESHOLDS["EM"], *curve])
        thresholds: list[Task] = [{"part": "threshold", "method": m, "theta_star": t} for m in METHODS for t in truths]
        far = [10.0] if scale.quick else [10.0, 20.0]
        limit: list[Task] = [{"part": "threshold", "method": "Sinkhorn-EM", "theta_star": t} for t in far]
        roots: list[Task] = [{"part": "root", "method": m, "theta_star": t} for m, t in ROOTS]
        return [*thresholds, *limit, *roots, {"part": "tilted", "theta_star": 1.0}]

    def run(self, task: Task, rng: np.random.Generator) -> pd.DataFrame:
        theta_star = float(task["theta_star"])
        if task["part"] == "threshold":
            return pd.DataFrame({"alpha": [spurious_threshold(theta_star, tau=METHODS[str(task["method"])])]})
        if task["part"] == "root":
            roots = fixed_points(ROOT_ALPHA, theta_star, tau=METHODS[str(task["method"])])
            return pd.DataFrame({"alpha": ROOT_ALPHA, "theta": roots})
        theta = np.array(list(TILTED))
        tilted = tilted_weight(theta, TILTED_ALPHA, theta_star)
        return pd.DataFrame({"alpha": TILTED_ALPHA, "theta": theta, "tilted": tilted})

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        curve = _curve(table)
        both = curve.dropna()
        both = both[both["EM"] < 1]
        roots = {pair: _spurious(table, *pair) for pair in ROOTS}
        tilted = table[table["part"] == "tilted"].set_index("theta")["tilted"]
        return [
            *(_threshold(curve[method].dropna(), method) for method in METHODS),
            Verdict(
                "the threshold of Sinkhorn-EM is the lower one for every theta*",
                f"smallest difference {np.min(both['EM'] - both['Sinkhorn-EM']):.4f}, at theta* = {both.index[0]:g} (the smallest)",
                bool((both["EM"] > both["Sinkhorn-EM"]).all()),
            ),
            Verdict(
                "the threshold of Sinkhorn-EM tends to 3/4 as theta* grows (EM's to 1)",
                ", ".join(
                    f"{t:g}: {LIMIT - value:.5f} below 3/4" for t, value in curve["Sinkhorn-EM"].dropna()[3.0:].items()
                ),
                _tends_to_limit(curve["Sinkhorn-EM"].dropna()),
            ),
            Verdict(
                f"spurious roots at alpha = {ROOT_ALPHA}: "
                + ", ".join(f"{m} {t:g}: {v}" for (m, t), v in ROOTS.items()),
                ", ".join(f"{roots[pair]:.4f}" for pair in ROOTS),
                all(abs(roots[pair] - value) <= PRINTED for pair, value in ROOTS.items()),
            ),
            Verdict(
                f"tilted weight at theta* = 1, alpha = {TILTED_ALPHA}: "
                + ", ".join(f"{t:g} {v}" for t, v in TILTED.items()),
                ", ".join(f"{tilted[t]:.4f}" for t in TILTED),
                all(abs(tilted[t] - value) <= PRINTED for t, value in TILTED.items()),
            ),
        ]

    def summary(self, table: pd.DataFrame) -> pd.DataFrame:
        return _curve(table).reset_index()

    def notes(self, scale: Scale) -> str:
        return (
            "Means theta and -theta, truth theta* and -theta*, variance 1 and weights alpha, 1 - alpha known; expectations by "
            "quadrature. The threshold is the smallest alpha above which no stationary point lies at theta < 0."
        )

    def draw(self, table: pd.DataFrame) -> Any:
        figure, axes = panels(1, 1, (7, 4.6))
        ax, curve = axes[0, 0], _curve(table)
        for method in METHODS:
            line = curve[method].dropna()
            ax.plot(line.index, line, "o-", color=COLOUR[method], markersize=4, label=method)
            printed = THRESHOLDS[method]
            label = "computed independently" if method == "EM" else None
            ax.plot(list(printed), list(printed.values()), "o", color=INK, markersize=9, fillstyle="none", label=label)
        ax.axhline(LIMIT, color=INK, linewidth=0.8, linestyle=":")
        ax.annotate("3/4", (curve.index[0], LIMIT), ha="left", va="bottom")
        ax.set(xlabel="θ*, standard deviations", ylabel="α", ylim=(0.5, 1.02), xscale="log")
        ax.set(title="Above the line the truth is the only stationary point")
        ax.legend(frameon=False, loc="upper left")
        return figure


def _curve(table: pd.DataFrame) -> pd.DataFrame:
    """(theta*) x (method): threshold."""
    rows = table[table["part"] == "threshold"]
    return rows.pivot(index="theta_star", columns="method", values="alpha").rename_axis(columns=None)


def _threshold(line: pd.Series, method: str) -> Verdict:
    expected = THRESHOLDS[method]
    worst = max(abs(line[t] - value) for t, value in expected.items())
    return Verdict(
        f"{method}, thresholds at theta* = " + ", ".join(f"{t:g}: {value:.4f}" for t, value in expected.items()),
        ", ".join(f"{line[t]:.4f}" for t in expected) + f"; largest difference {worst:.1g}",
        bool(worst <= WITHIN),
    )


def _tends_to_limit(line: pd.Series) -> bool:
    """It rises, stays below the limit, and comes within WITHIN of it."""
    missing = LIMIT - line
    return bool(line.is_monotonic_increasing and (missing > 0).all() and missing.iloc[-1] <= WITHIN)


def _spurious(table: pd.DataFrame, method: str, theta_star: float) -> float:
    rows = table[(table["part"] == "root") & (table["method"] == method) & (table["theta_star"] == theta_star)]
    return float(rows["theta"].min())
