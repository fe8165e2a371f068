"""The simulation study: who finds all centres of a Gaussian mixture? One factor is varied at a time; all methods, same starts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ..plots import COLOURS, GREY, INK, panels
from . import statistics
from .base import Experiment, Scale, Task, Verdict
from .gmm_grid_fits import (
    CELLS,
    EM,
    EXPECTED,
    EXPECTED_SETS,
    FREE,
    FROM_TRUTH,
    KMEANS,
    LEARNED,
    NOTES,
    RESTARTS,
    SEM,
    THEN,
    THEN_LEARNED,
    TRUTH,
    draw_problem,
    fit_all,
    fit_free_covariances,
    measures,
)

STARTS = (1, 10, 50)
#: colour and marker
LOOK = {
    KMEANS: (GREY, "X"),
    EM: (COLOURS[1], "s"),
    LEARNED: (COLOURS[4], "D"),
    SEM: (COLOURS[0], "o"),
    THEN: (COLOURS[5], "^"),
    THEN_LEARNED: (COLOURS[2], "v"),
    FROM_TRUTH: (INK, "_"),
}
ROUNDED = 2e-5  # nats, what five digits leave of a difference
CONFIDENCE = 0.99  # of the comparisons with earlier shares: there are many

#: title, and the cells with their labels
PANELS = {
    "number of components K": {"K = 3": "3", "K = 5": "5", "centre": "10", "K = 20": "20", "K = 50": "50"},
    "dimension d": {"centre": "2", "d = 5": "5", "d = 10": "10"},
    "standard deviation": {"sigma = 0.5": "0.5", "sigma = 0.7": "0.7", "centre": "1", "sigma = 1.4": "1.4"},
    "weights": {"centre": "equal", **{name: name for name in ("near-equal", "unequal", "mis-specified")}},
    "one thing changed": {
        **{"centre": "nothing", "multinomial": "multinomial\ncounts"},
        **{"random start": "random\nstart", "plain k-means++": "plain\nk-means++"},
        **{"kept apart": "centres\nkept apart"},
    },
}


class GmmGrid(Experiment):
    name = "gmm-grid"
    question = "Where does Sinkhorn-EM find all clusters, and where does EM do as well?"
    source = (
        "no paper prints these numbers; they were computed independently for this project. Method: Mena et al. 2020"
    )

    def tasks(self, scale: Scale) -> list[Task]:
        if scale.quick:
            return [{"cell": "centre", "repetition": r, "starts": 1} for r in range(scale.count(40, 24))]
        tasks: list[Task] = [
            {"cell": name, "repetition": r, "starts": cell.starts}
            for name, cell in CELLS.items()
            for r in range(scale.count(cell.reps, 1))
        ]
        return tasks + [{"cell": FREE, "repetition": r, "starts": 1} for r in range(scale.count(10, 1))]

    def run(self, task: Task, rng: np.random.Generator) -> pd.DataFrame:
        if task["cell"] == FREE:
            return fit_free_covariances(rng)
        problem = draw_problem(CELLS[str(task["cell"])], int(task["starts"]), rng)
        rows = []
        for method, fits in fit_all(problem).items():
            for n_starts in [n for n in STARTS if n <= len(fits.means)]:
                rows.append({"method": method, "n_starts": n_starts, **measures(problem, fits, n_starts)})
        return pd.DataFrame(rows)

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        hits = _hits(table)
        verdicts = [
            _gain(hits, "centre", SEM, EM, "Sinkhorn-EM finds all centres more often than EM from the same start")
        ]
        grid = table[table["cell"] != FREE]
        gap = (grid["L"] - grid["l"]).min()
        verdicts.append(Verdict("L >= l at every fit", f"smallest L - l: {gap:.2g} nats", bool(gap > -ROUNDED)))
        if set(table["cell"]) != {*CELLS, FREE}:
            return verdicts
        better = "EM after Sinkhorn-EM finds all centres more often than EM"
        verdicts += [
            _gain(hits, "multinomial", THEN, EM, better),
            _gain(hits, "multinomial", THEN, SEM, "counts differ from the weights: an EM polish of Sinkhorn-EM gains"),
            _gain(hits, "near-equal", THEN_LEARNED, LEARNED, f"{better}, learned weights"),
            _gain(hits, "kept apart", SEM, EM, "centres kept apart: Sinkhorn-EM finds all more often than EM"),
            _gain(
                hits,
                "mis-specified",
                LEARNED,
                SEM,
                "wrong weights: EM that learns them beats Sinkhorn-EM held at them",
                judged=False,
            ),
            _gain(hits, "unequal", THEN_LEARNED, LEARNED, "unequal weights: no gain over EM", judged=False),
            _restarts(table),
            *(_pooled(table, method) for method in (EM, LEARNED, SEM)),
            *(_expected(table, cell, method) for cell, methods in EXPECTED.items() for method in methods),
        ]
        return verdicts

    def summary(self, table: pd.DataFrame) -> pd.DataFrame:
        rows = table[(table["n_starts"] == 1) | (table["method"] == RESTARTS)]
        success, ari = (
            rows.pivot_table("success", "cell", "method", "mean"),
            rows.pivot_table("ari", "cell", "method", "mean"),
        )
        order = [m for m in (*LOOK, RESTARTS) if m in success]
        shown = success[order].astype(float).round(2).astype(str) + " / " + ari[order].round(3).astype(str)
        if TRUTH in ari:
            shown["truth"] = ari[TRUTH].round(3)
        return shown.reindex(table["cell"].unique()).reset_index()

    def notes(self, scale: Scale) -> str:
        return NOTES

    def draw(self, table: pd.DataFrame) -> Any:
        figure, axes = panels(2, 3, (14, 8), sharey=True)
        for ax, (title, cells) in zip(axes.flat, PANELS.items(), strict=False):
            parts = {cell: table[(table["cell"] == cell) & (table["n_starts"] == 1)] for cell in cells}
            _draw_panel(ax, {cells[cell]: part for cell, part in parts.items() if len(part)})
            ax.set(title=title)
        centre = table[table["cell"] == "centre"]
        _draw_panel(axes[1, 2], {str(n): part for n, part in centre.groupby("n_starts")})
        axes[1, 2].set(title="number of starts, the best objective kept")
        for ax in axes[:, 0]:
            ax.set(ylabel="share of data sets, all centres found", ylim=(-0.03, 1.03))
        handles = axes[0, 0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=len(LOOK), frameon=False)
        figure.suptitle(
            "Equal weights: Sinkhorn-EM finds all clusters from one start. Unequal weights: no better than EM "
            "(one start, but for the last panel; 95 % intervals)"
        )
        return figure


def _hits(table: pd.DataFrame) -> pd.DataFrame:
    """(cell, repetition) x (method): all centres found, from one start."""
    one = table[(table["n_starts"] == 1) | (table["method"] == RESTARTS)]
    return one.pivot(index=["cell", "repetition"], columns="method", values="success")


def _gain(hits: pd.DataFrame, cell: str, a: str, b: str, claim: str, judged: bool = True) -> Verdict:
    rows = hits.loc[cell]
    difference = statistics.share_difference(rows[a], rows[b])
    shares = f"{a} {statistics.share(rows[a])}, {b} {statistics.share(rows[b])}"
    return Verdict(
        f"{claim} ({cell})", f"{shares}; paired difference {difference}", bool(difference.low > 0) if judged else None
    )


def _restarts(table: pd.DataFrame) -> Verdict:
    centre = table[table["cell"] == "centre"].set_index("repetition")
    rows = {(m, n): part for (m, n), part in centre.groupby(["method", "n_starts"])}
    difference = statistics.share_difference(rows[SEM, 1]["success"], rows[EM, STARTS[-1]]["success"])
    work = rows[EM, STARTS[-1]]["passes"].mean() / rows[SEM, 1]["passes"].mean()
    shares = ", ".join(f"{n}: {statistics.share(rows[EM, n]['success'])}" for n in STARTS)
    return Verdict(
        "how many starts of EM replace one of Sinkhorn-EM? (centre)",
        f"EM from {shares}; one start of SEM less {STARTS[-1]} of EM {difference}, which take {work:.0f} times the passes",
        None,
    )


def _expected(table: pd.DataFrame, cell: str, method: str) -> Verdict:
    share, ari = EXPECTED[cell][method]
    rows = table[(table["cell"] == cell) & (table["method"] == method)]
    rows = rows[rows["n_starts"] == rows["n_starts"].min()]
    theirs = np.arange(EXPECTED_SETS) < round(share * EXPECTED_SETS)
    difference = statistics.unpaired_share_difference(rows["success"], theirs, CONFIDENCE)
    what = "best log-likelihood reached" if cell == FREE else "all centres found"
    holds, claim = difference.low <= 0 <= difference.high, f"{cell}, {method}: {what} in {share:.2f}"
    measured = f"{statistics.share(rows['success'])}"
    if ari is not None:
        found = statistics.mean(rows["ari"], CONFIDENCE)
        reach = (found.high - found.estimate) * np.sqrt(1 + len(rows) / EXPECTED_SETS)  # theirs has an error too
        holds = holds and abs(found.estimate - ari) <= reach
        claim, measured = f"{claim}, ARI {ari:.3f}", f"{measured}, ARI {found}"
    return Verdict(claim, measured, bool(holds))


def _pooled(table: pd.DataFrame, method: str) -> Verdict:
    """Single comparisons have little power; all designs with equal weights together have more."""
    cells = ["K = 5", "centre", "d = 5", "multinomial"]
    rows = table[table["cell"].isin(cells) & (table["method"] == method) & (table["n_starts"] == 1)]
    expected = np.array([EXPECTED[cell][method][0] for cell in cells])
    theirs = np.arange(EXPECTED_SETS) < np.round(expected * EXPECTED_SETS)[:, None]
    difference = statistics.unpaired_share_difference(rows["success"], theirs)
    return Verdict(
        f"{method}: all centres found in {expected.mean():.2f} of the four designs {', '.join(cells)} together",
        f"{statistics.share(rows['success'])}, difference {difference}",
        bool(difference.low <= 0 <= difference.high),
    )


def _draw_panel(ax: Any, parts: dict[str, pd.DataFrame]) -> None:
    """Shares of every method with their intervals, one group of marks for every part."""
    width = 0.8 / len(LOOK)
    for place, (method, (colour, marker)) in enumerate(LOOK.items()):
        found = {i: part[part["method"] == method]["success"] for i, part in enumerate(parts.values())}
        shares = {i: statistics.share(hits) for i, hits in found.items() if len(hits)}
        if shares:
            x = np.array(list(shares)) + width * (place - (len(LOOK) - 1) / 2)
            estimate, low, high = np.array(list(shares.values())).T
            bars = [estimate - low, high - estimate]
            ax.errorbar(x, estimate, bars, color=colour, marker=marker, label=method, linestyle="none", elinewidth=1)
    for i in range(1, len(parts)):
        ax.axvline(i - 0.5, color=GREY, linewidth=0.4)
    ax.set_xticks(range(len(parts)), list(parts))
    ax.set_xlim(-0.5, len(parts) - 0.5)
