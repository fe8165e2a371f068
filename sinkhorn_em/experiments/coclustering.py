"""Latent block models by variational Sinkhorn-EM (SVEM), by variational EM (VEM) from the same starts, and other methods."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ..plots import COLOURS, GREY, INK, panels
from .base import Experiment, Scale, Task, Verdict
from .coclustering_fits import (
    BALANCED,
    DEFAULT,
    FAMILIES,
    FROM_TRUTH,
    LARGEST,
    RIVALS,
    SIZES,
    SVEM,
    SVEM_TRUE,
    UNBALANCED,
    VEM,
    VEM_LEARNED,
    VEM_TRUE,
    draw_blocks,
    fit_all,
    measures,
)
from .coclustering_verdicts import DESIGN, SIDES, TRUTH, called, designs_of, judge
from .statistics import mean

LOOK = {VEM: COLOURS[1], VEM_LEARNED: COLOURS[1], VEM_TRUE: COLOURS[1], SVEM: COLOURS[0], SVEM_TRUE: COLOURS[0]}
MARKS = {"row_ari": ("o", "-", -0.14), "column_ari": ("s", "--", 0.14)}  # marker, line of the truth, place
LOOK |= {DEFAULT: COLOURS[2]} | dict.fromkeys(RIVALS, GREY)


class Coclustering(Experiment):
    name = "coclustering"
    question = "Who finds the row and column clusters of a block matrix, from one random start?"
    source = (
        "variational Sinkhorn-EM of latent block models as derived in `sinkhorn_em.coclustering.loop`; the numbers expected "
        "were computed independently for this project, from 15 seeds"
    )

    def tasks(self, scale: Scale) -> list[Task]:
        if scale.quick:
            many: Task = {"family": "Gaussian", "size": "120 x 120", "blocks": BALANCED}
            design = [{**many, "repetition": r, "methods": "models"} for r in range(scale.count(0, 13))]
            small = [("Gaussian", UNBALANCED), ("Poisson", BALANCED)]
            more: Task = {"size": "200 x 100", "repetition": 0, "methods": "all"}
            return [*design, *({"family": family, "blocks": blocks, **more} for family, blocks in small)]
        return [
            {"family": family, "size": size, "blocks": blocks, "repetition": r, "methods": "all"}
            for blocks in (BALANCED, UNBALANCED)
            for family in FAMILIES
            for size in ("200 x 100", "400 x 200")
            for r in range(scale.count(30, 0))
        ]

    def run(self, task: Task, rng: np.random.Generator) -> pd.DataFrame:
        blocks = draw_blocks(str(task["family"]), SIZES[str(task["size"])], str(task["blocks"]), rng)
        everything = task["methods"] == "all"
        fits = fit_all(blocks, everything, int(rng.integers(2**31)))
        scored = LOOK if everything else ()  # the consensus score is slow
        return pd.DataFrame([{"method": name, **measures(blocks, fit, name in scored)} for name, fit in fits])

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        return judge(table)

    def summary(self, table: pd.DataFrame) -> pd.DataFrame:
        columns = ["row_ari", "column_ari", "cari", "consensus", "loss", "sweeps", "passes_per_sweep", "empty"]
        rows = table.assign(passes_per_sweep=table["passes"] / table["sweeps"])
        means = rows.groupby([*DESIGN, "method"], sort=False)[columns].mean().reset_index()
        rounded = means.round(dict.fromkeys(columns[:4], 3) | {"sweeps": 1, "passes_per_sweep": 1, "empty": 2})
        return rounded.assign(loss=means["loss"].map("{:.5f}".format))

    def notes(self, scale: Scale) -> str:
        small, large = (SIZES[name] for name in ("200 x 100", "400 x 200"))
        return (
            f"200 x 100 matrices have {small.K} x {small.L} blocks, 400 x 200 ones {large.K} x {large.L}. Gaussian blocks: means "
            f"gap N(0, 1), gap {small.gap} and {large.gap}, variance 1 (fitted: one variance in common). Poisson blocks: rates "
            f"exp(g N(0, 1)), g = {small.log_gap} and {large.log_gap}. The numbers expected came without the laws of the blocks: "
            "the normal law of the means, and g at 200 x 100, were chosen by what is found from a start at the truth alone. "
            f"Unbalanced: geometric shares, the largest cluster {LARGEST:g} times the smallest. All models of one matrix start at "
            "the same labels: every row (column) goes to the nearest of K rows (L columns) drawn at random; with true weights, "
            "which differ, the labels of a fit from there that learns the weights follow, numbered by size. Default: learned "
            "weights, tau = 1, a burn-in with held, "
            "uniform weights and VEM after it, or VEM from the start, whichever has the higher bound. SpectralBiclustering and "
            "SpectralCoclustering are scikit-learn's with their default options (they shift a matrix with negative entries to "
            "least entry 0 themselves); the latter pairs row and column clusters and gets K of both. k-means: best of ten "
            "starts. Loss: negative bound per cell, nats; that of uniform weights held by SVEM includes what holding costs. "
            "CARI: adjusted Rand index of the cells; consensus: scikit-learn's consensus_score of the blocks; passes are over the "
            "scores of rows and columns, two a sweep by VEM; those of the default include the run that was not chosen; empty: "
            "clusters of rows and columns without labels. Lines of the figure: from the truth, by SVEM with uniform weights "
            "(balanced) or VEM with learned ones (unbalanced)."
        )

    def draw(self, table: pd.DataFrame) -> Any:
        designs = designs_of(table)
        n_columns = min(4, len(designs))
        n_rows = -(-len(designs) // n_columns)
        figure, axes = panels(n_rows, n_columns, (3.4 + 2.9 * n_columns, 0.9 + 4.1 * n_rows), sharex=True)
        last: list[str] = []
        for place, (ax, (name, part)) in enumerate(zip(axes.flat, designs.items(), strict=False)):
            methods = [method for method in LOOK if method in part["row_ari"]]
            _draw_design(ax, name, part, methods)
            if place % n_columns and methods == last:
                ax.set_yticklabels([])
            last = methods
        for ax in axes[-1]:
            ax.set_xlabel("adjusted Rand index")
        figure.legend(handles=_marks(axes[0, 0]), loc="outside lower center", ncols=4, frameon=False)
        figure.suptitle(
            "Balanced blocks: SVEM with uniform weights goes where the truth leads, from one random start.\n"
            "Unbalanced blocks: holding uniform sizes hurts; the default lets go of them"
        )
        return figure


def _draw_design(ax: Any, name: tuple[str, str, str], part: pd.DataFrame, methods: list[str]) -> None:
    truth = TRUTH if name[2] == BALANCED else FROM_TRUTH[VEM_LEARNED]
    for value, (marker, line, shift) in MARKS.items():
        ax.axvline(part[value][truth].mean(), color=INK, linewidth=1, linestyle=line)
        for place, method in enumerate(methods):
            interval, colour = mean(part[value][method]), LOOK[method]
            ax.plot(np.clip([interval.low, interval.high], 0, 1), [place + shift] * 2, color=colour, linewidth=1.8)
            face = colour if value == "row_ari" else "white"
            ax.plot(
                interval.estimate, place + shift, marker, color=colour, markersize=6, markerfacecolor=face, zorder=3
            )
    ax.set_yticks(range(len(methods)), methods)
    ax.set(xlim=(0, 1.02), ylim=(len(methods) - 0.5, -0.5), title=called(name))
    ax.grid(axis="x", linewidth=0.4)


def _marks(ax: Any) -> list[Any]:
    """What the legend shows."""
    points, lines = [], []
    for value, (marker, line, _) in MARKS.items():
        face = INK if value == "row_ari" else "white"
        points += ax.plot([], [], marker, color=INK, markerfacecolor=face, label=f"{SIDES[value]} (mean, 95 %)")
        lines += ax.plot([], [], line, color=INK, linewidth=1, label=f"{SIDES[value]}, started at the truth")
    return points + lines
