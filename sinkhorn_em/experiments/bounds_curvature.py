"""Curvature at the truth, the last part of `bounds`: the Hessians of l and L in the means, infinite and finite samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from .._typing import Floats
from ..datasets import simulate_gaussian_mixture
from ..locations import hessian, objective
from ..plots import COLOURS, INK
from ..population import population_rows
from .base import Task, Verdict
from .statistics import mean, share

TAU = {"l": 0.0, "L": 1.0}
EXACT = 1e-9  # nats: solver and quadrature
BLOCK = 10  # samples of a task
CLEAR = 0.01  # gain of the smallest eigenvalue that samples must show
#: weights, means: truths at which the curvature is looked at
TRUTHS: dict[str, tuple[list[float], list[list[float]]]] = {
    "d 1, K 2": ([0.7, 0.3], [[1.0], [-1.0]]),
    "d 1, K 3": ([0.5, 0.3, 0.2], [[-2.0], [0.0], [2.0]]),
    "d 2, K 3, row": ([0.5, 0.3, 0.2], [[-2.0, 0.0], [0.0, 0.0], [2.0, 1.0]]),
    "d 2, K 3, triangle": ([0.5, 0.3, 0.2], [[0.0, 1.2], [-1.2, -0.8], [1.2, -0.8]]),
}
NODES = {1: 256, 2: 96}  # by dimension


def population(task: Task, rng: np.random.Generator) -> pd.DataFrame:
    """l, L and their curvature at a truth, by quadrature."""
    weights, means = TRUTHS[str(task["truth"])]
    X, masses = population_rows(weights, means, n_nodes=NODES[len(means[0])])
    losses = {name: objective(X, [means], weights, tau=tau, row_mass=masses)[0] for name, tau in TAU.items()}
    return _curvature(X, masses, weights, means).assign(**losses)


def sample(task: Task, rng: np.random.Generator) -> pd.DataFrame:
    """Curvature at a truth on samples of n rows."""
    weights, means = TRUTHS[str(task["truth"])]
    n = int(task["n"])
    data = (
        simulate_gaussian_mixture(n, weights, means, np.eye(len(means[0])), random_state=rng)[0] for _ in range(BLOCK)
    )
    return pd.concat([_curvature(X, None, weights, means) for X in data]).round(6)


def _curvature(X: Floats, masses: Floats | None, weights: list[float], means: list[list[float]]) -> pd.DataFrame:
    """Eigenvalues of both Hessians at the means, of their difference, and the factors of the errors."""
    H = {name: hessian(X, [means], weights, tau=tau, row_mass=masses)[0] for name, tau in TAU.items()}
    difference = np.linalg.eigvalsh(H["L"] - H["l"])
    root = np.repeat(np.sqrt(weights), len(means[0]))
    row: dict[str, float] = {"difference": difference[0], "difference_rank": int((np.abs(difference) > EXACT).sum())}
    for name, matrix in H.items():
        row[f"smallest_{name}"], row[f"largest_{name}"] = np.linalg.eigvalsh(matrix)[[0, -1]]
        row[f"factor_{name}"] = 1 - np.linalg.eigvalsh(matrix / np.outer(root, root))[0]
    return pd.DataFrame([row])


def population_verdicts(rows: pd.DataFrame) -> list[Verdict]:
    """Judged on the Hessians at the truth of an infinite sample."""
    table = rows.set_index("truth")
    most = [len(TRUTHS[truth][0]) - 1 for truth in table.index]
    factors = "; ".join(f"{truth}: {row['factor_l']:.4f} and {row['factor_L']:.4f}" for truth, row in table.iterrows())
    gains = "; ".join(
        f"{truth}: {row['smallest_l']:.4f} and {row['smallest_L']:.4f}" for truth, row in table.iterrows()
    )
    line = table[table.index.str.startswith("d 1")]
    return [
        Verdict(
            "infinite sample: Hess L - Hess l is positive semidefinite at the truth, of rank at most K - 1 (theory)",
            f"smallest eigenvalue {table['difference'].min():.2g}, ranks {[int(r) for r in table['difference_rank']]}",
            bool(table["difference"].min() > -EXACT and (table["difference_rank"] <= most).all()),
        ),
        Verdict(
            "infinite sample: so Sinkhorn-EM's asymptotic factor is not above EM's; on the line it is clearly below",
            f"EM and Sinkhorn-EM, {factors}",
            bool(
                (table["factor_L"] <= table["factor_l"] + EXACT).all()
                and (line["factor_L"] < line["factor_l"] - CLEAR).all()
            ),
        ),
        Verdict(
            "infinite sample: the smallest eigenvalue gains only where one of the K - 1 directions of the gain is the flattest",
            f"l and L, {gains}",
            None,
        ),
    ]


def sample_verdicts(samples: pd.DataFrame, exact: pd.DataFrame) -> list[Verdict]:
    """Judged on the Hessians at the truth of many samples."""
    table = exact.set_index("truth")
    clear = samples[samples["truth"].isin(table.index[table["smallest_L"] > table["smallest_l"] + CLEAR])]
    gains = {k: mean(rows["smallest_L"] - rows["smallest_l"]) for k, rows in clear.groupby(["truth", "n"], sort=False)}
    weakest = min(gains, key=lambda k: gains[k].low)
    sizes = samples["n"].astype(int).unique().tolist()
    definite = {n: share(samples["difference"][samples["n"] == n] > -EXACT) for n in sizes}
    size = {n: samples["difference"][samples["n"] == n].abs().mean() for n in sizes}
    return [
        Verdict(
            f"samples: where an infinite sample gains more than {CLEAR}, L's smallest eigenvalue is on average the larger one",
            f"{', '.join(clear['truth'].unique())}; smallest mean difference {gains[weakest]}, {weakest[0]}, n = {weakest[1]:g}",
            gains[weakest].low > 0,
        ),
        Verdict(
            "samples: Hess L - Hess l at the truth is semidefinite in the limit, not in every sample",
            "; ".join(
                f"n = {n}: in {definite[n]} of samples, |smallest eigenvalue| {size[n]:.2g} on average" for n in size
            ),
            None,
        ),
    ]


def draw_eigenvalues(ax: Any, samples: pd.DataFrame, exact: pd.DataFrame) -> None:
    """Smallest eigenvalues of L against those of l."""
    largest = samples[samples["n"] == samples["n"].max()]
    for j, (truth, rows) in enumerate(largest.groupby("truth", sort=False)):
        colour, at_truth = COLOURS[2 + j], exact[exact["truth"] == truth].iloc[0]
        ax.plot(
            rows["smallest_l"],
            rows["smallest_L"],
            ".",
            color=colour,
            alpha=0.5,
            label=f"{truth}, n = {int(rows['n'].iloc[0])}",
        )
        ax.plot(
            at_truth["smallest_l"],
            at_truth["smallest_L"],
            "*",
            color=INK,
            markersize=12,
            label="population" if j == 0 else None,
        )
    ends = np.array([0, 1.05 * largest["smallest_L"].max()])
    ax.plot(ends, ends, color=INK, linewidth=0.8)
    ax.set(xlabel="smallest eigenvalue, Hessian of l", ylabel="smallest eigenvalue, Hessian of L")
    ax.set(title="Curvature at the truth: above the line L curves more")
    ax.legend(frameon=False, fontsize="small")
