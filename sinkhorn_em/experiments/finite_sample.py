"""What a sample costs: errors of the empirical plan and of the iterates of Sinkhorn-EM against n, d, K, radius and noise."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..plots import COLOURS, INK, panels
from .base import Experiment, Scale, Task, Value, Verdict
from .finite_sample_draws import ITERATE_SIZES, PATH_STEPS, iterates_task, path_task, plan_task
from .statistics import Interval, mean, slope_of_means

CELL = ("d", "K", "R", "sigma")
BY_D = [(d, 2, 1.0, 1.0) for d in (1, 2, 5, 10, 20)]
BY_R = [(2, 2, R, 0.5) for R in (0.01, 0.1, 1.0, 10.0)]
BY_SIGMA = [(2, 2, 1.0, sigma) for sigma in (0.05, 0.5, 1.0, 2.0)]
BY_K = [(2, K, 1.0, 1.0) for K in (2, 20, 200, 2000)]
FULL = list(dict.fromkeys(BY_D + BY_R + BY_SIGMA + BY_K))
QUICK = [*BY_D[:3], BY_R[1], BY_K[1]]
QUANTITIES = {
    "potential": "potentials, max |g_n - g|²",
    "coupling": "density of the coupling, squared",
    "backward": "backward projection E[X | y], squared",
    "forward": "forward projection E[Y | x], squared",
}
ITERATES: dict[str, Value] = {"K": 2, "R": 1.0, "sigma": 0.5}
FAR = 3.0  # standard deviations between atoms; small samples have few rows, or none, between them
SLACK = 0.1  # of a slope
PATH_D = 5
WIDE = 0.99  # confidence of intervals that are few


class Rate(NamedTuple):
    """The slope on log n of one error in one population."""

    cell: tuple[float, ...]  # d, K, R, sigma
    quantity: str
    interval: Interval
    inside: bool  # -1 is in the simultaneous interval

    @property
    def far(self) -> bool:
        return 2 * self.cell[2] / self.cell[3] > FAR

    @property
    def population(self) -> str:
        return ", ".join(f"{name} {value:g}" for name, value in zip(("d", "K", "R", "σ"), self.cell, strict=True))


class FiniteSample(Experiment):
    name = "finite-sample"
    question = "How fast do the plan and the iterates of a sample approach those of the population?"
    source = (
        "Gonzalez & Mena 2026: rates of potentials, coupling, projections and iterates; their grid of d, n, R, sigma, K"
    )

    def tasks(self, scale: Scale) -> list[Task]:
        repetitions = range(scale.count(40, 30))
        dimensions = (1, 5) if scale.quick else (1, 2, 5, 10, 20)
        tasks: list[Task] = [
            {"part": "plan", **dict(zip(CELL, cell, strict=True)), "repetition": r}
            for cell in (QUICK if scale.quick else FULL)
            for r in repetitions
        ]
        tasks += [{"part": "iterates", **ITERATES, "d": d, "repetition": r} for d in dimensions for r in repetitions]
        return [*tasks, {"part": "path", **ITERATES, "d": PATH_D, "draws": len(repetitions)}]

    def run(self, task: Task, rng: np.random.Generator) -> pd.DataFrame:
        frame = {"plan": plan_task, "iterates": iterates_task, "path": path_task}[str(task["part"])](task, rng)
        return frame.map(lambda value: float(f"{value:.4g}") if isinstance(value, float) else value)

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        rates = _rates(table)
        near, far = [rate for rate in rates if not rate.far], [rate for rate in rates if rate.far]
        verdicts = [_near(name, [rate for rate in near if rate.quantity == q]) for q, name in QUANTITIES.items()]
        return [*verdicts, *([_far(far)] if far else []), *_dimension(table), *_iterates(table)]

    def summary(self, table: pd.DataFrame) -> pd.DataFrame:
        records = [(*rate.cell, rate.quantity, str(rate.interval)) for rate in _rates(table)]
        long = pd.DataFrame(records, columns=[*CELL, "error", "slope"])
        return long.pivot(index=list(CELL), columns="error", values="slope")[list(QUANTITIES)].reset_index()

    def notes(self, scale: Scale) -> str:
        return (
            "P is uniform on K atoms: +-R on an axis for K = 2, else uniform in the ball of radius R, anew in every repetition. "
            "Q = P * N(0, sigma² I), X ~ P, Y ~ Q, epsilon = sigma², cost |x - y|²/2: the plan of the population is the posterior, "
            "its column potentials are 0. The empirical plan couples n rows from Q with P; potentials in units of epsilon, with "
            "mean 0, the other errors are expectations under P, Q or both, with fresh rows for Q. Slopes: log of the mean over "
            "repetitions on log n, n from 10 to 1000, jackknife intervals (table: 95 %; verdicts: 95 % for all at once, by "
            f"Bonferroni, and {SLACK} more). Atoms 40 sigma apart do not overlap in such samples: counts, off by sqrt(n), move the "
            "potentials by hundreds whatever n is, and the coupling by the excess count, of order n^-1/2. At 4 sigma the rate "
            "begins at n = 300 or so: with 400 repetitions the slope of the potentials from n = 10 is -.75, but n times the "
            "error does not grow from 316 to 1000. The bound C/n holds with a large C. Iterates: K = 2, R = 1, "
            "sigma = .5, n from 100 to 10 000, starts one sigma from the truth; error: mean squared distance of the fitted means "
            "from the atoms. Such slopes do not tell a factor log n from a constant."
        )

    def draw(self, table: pd.DataFrame) -> Any:
        figure, axes = panels(2, 3, (15, 9))
        for ax, quantity in zip(axes[0], ("potential", "coupling", "forward"), strict=True):
            _draw_errors(ax, _by_d(table), quantity)
            ax.set(title=QUANTITIES[quantity])
        _draw_rates(axes[1, 0], _rates(table))
        _draw_errors(axes[1, 1], table[table["part"] == "iterates"], "error")
        axes[1, 1].set(title="fitted means at convergence, squared error")
        for colour, (n, path) in zip(COLOURS, table[table["part"] == "path"].groupby("n"), strict=False):
            axes[1, 2].plot(path["iteration"], path["error"], "o-", color=colour, markersize=4)
            axes[1, 2].annotate(f" n = {n:g}", path[["iteration", "error"]].to_numpy()[-1], va="center", color=colour)
        axes[1, 2].set(yscale="log", xlabel="iteration", xlim=(-0.2, PATH_STEPS + 1.5))
        axes[1, 2].set(title=f"fitted means on the way, squared error, d = {PATH_D}")
        figure.suptitle(
            "Plan and iterates approach the population at the rate 1/n (dotted), unless atoms are far apart"
        )
        return figure


def _by_d(table: pd.DataFrame) -> pd.DataFrame:
    """The populations that differ in d alone."""
    return table[(table["part"] == "plan") & (table["K"] == 2) & (table["R"] == 1) & (table["sigma"] == 1)]


def _slope(rows: pd.DataFrame, quantity: str, confidence: float, column: str = "n") -> Interval:
    """Slope of the log of the mean quantity on the log of a column."""
    wide = rows.pivot(index="repetition", columns=column, values=quantity)
    return slope_of_means(wide.columns.to_numpy(float), wide.to_numpy(float), confidence)


def _growth(rows: pd.DataFrame, quantity: str) -> Interval:
    """Slope on log d of n times the error, averaged over all n: of the constant of the rate."""
    constants = rows.assign(constant=rows["n"] * rows[quantity])
    return _slope(constants.groupby(["repetition", "d"], as_index=False)[["constant"]].mean(), "constant", WIDE, "d")


def _rates(table: pd.DataFrame) -> list[Rate]:
    cells: list[Any] = list(table[table["part"] == "plan"].groupby(list(CELL), sort=False))
    together = 1 - 0.05 / (len(cells) * len(QUANTITIES))
    return [
        Rate(cell, name, _slope(rows, name, 0.95), _contains(_slope(rows, name, together), -1.0))
        for cell, rows in cells
        for name in QUANTITIES
    ]


def _contains(interval: Interval, value: float) -> bool:
    return interval.low - SLACK <= value <= interval.high + SLACK


def _near(name: str, rates: list[Rate]) -> Verdict:
    estimates = [rate.interval.estimate for rate in rates]
    alone = "; ".join(f"{rate.population}: {rate.interval}" for rate in rates if not _contains(rate.interval, -1.0))
    return Verdict(
        f"{name}: rate 1/n, slope -1, whatever d, K, R and sigma (atoms at most 2 sigma apart)",
        f"{len(rates)} slopes from {min(estimates):.2f} to {max(estimates):.2f}; simultaneous intervals that exclude -1: "
        f"{sum(not rate.inside for rate in rates)}; 95 % intervals that do: {alone or 'none'}",
        all(rate.inside for rate in rates),
    )


def _far(rates: list[Rate]) -> Verdict:
    slopes = {rate.population: [r for r in rates if r.cell == rate.cell] for rate in rates}
    found = [f"{name}: {', '.join(f'{r.quantity} {r.interval}' for r in own)}" for name, own in slopes.items()]
    return Verdict(
        "slope -1 for n from 10 to 1000 also where atoms are 4 sigma apart, or 40",
        "; ".join(found),
        all(rate.inside for rate in rates),
    )


def _linear(claim: str, growth: Interval) -> Verdict:
    return Verdict(claim, f"slope {growth} on log d (99 %)", bool(0 < growth.low <= 1 + SLACK))


def _dimension(table: pd.DataFrame) -> list[Verdict]:
    """How the constants of the rates grow with d."""
    growths = {name: _growth(_by_d(table), name) for name in QUANTITIES}
    forward = growths.pop("forward")
    return [
        Verdict(
            "potentials, coupling and backward projection: the constant C does not depend on d (slope 0 on log d)",
            ", ".join(f"{name} {growth}" for name, growth in growths.items()) + " (99 %)",
            all(_contains(growth, 0.0) for growth in growths.values()),
        ),
        _linear("forward projection: the constant is C d: it grows with d, and at most linearly", forward),
    ]


def _iterates(table: pd.DataFrame) -> list[Verdict]:
    rows = table[table["part"] == "iterates"]
    slopes = {d: _slope(rows[rows["d"] == d], "error", WIDE) for d in sorted(set(rows["d"]))}
    small, large = (mean(rows.loc[rows["n"] == ITERATE_SIZES[i], "contraction"], WIDE) for i in (0, -1))
    return [
        Verdict(
            "iterates come within sqrt(d log n / n) of the truth: squared error of slope -1 on log n",
            ", ".join(f"d = {d:g}: {slope}" for d, slope in slopes.items()) + " (99 %)",
            all(_contains(slope, -1.0) for slope in slopes.values()),
        ),
        _linear("squared error of the iterates: grows with d, and at most linearly", _growth(rows, "error")),
        Verdict(
            "from one sigma away an iteration contracts, by a factor that n hardly changes (.05)",
            f"n = {ITERATE_SIZES[0]}: {small}, n = {ITERATE_SIZES[-1]}: {large} (99 %)",
            bool(max(small.high, large.high) < 1 and abs(small.estimate - large.estimate) < 0.05),
        ),
    ]


def _draw_errors(ax: Any, rows: pd.DataFrame, quantity: str) -> None:
    means = rows.groupby(["n", "d"])[quantity].mean().unstack()
    for colour, d in zip(COLOURS, means, strict=False):
        ax.plot(means.index, means[d], "o-", color=colour, markersize=4, label=f"d = {d}".removesuffix(".0"))
    sizes = means.index.to_numpy(float)
    ax.plot(sizes, means.to_numpy()[2, 0] * sizes[2] / sizes, color=INK, linewidth=1, linestyle=":", zorder=0)
    ax.set(xscale="log", yscale="log", xlabel="n")
    ax.legend(frameon=False)


def _draw_rates(ax: Any, rates: list[Rate]) -> None:
    populations = list(dict.fromkeys(rate.population for rate in rates))
    for j, (quantity, colour) in enumerate(zip(QUANTITIES, COLOURS, strict=False)):
        own = [rate.interval for rate in rates if rate.quantity == quantity]
        places = np.arange(len(own)) + 0.18 * (j - 1.5)
        ax.hlines(places, [i.low for i in own], [i.high for i in own], color=colour, linewidth=1)
        ax.plot([i.estimate for i in own], places, "o", color=colour, markersize=3, label=quantity)
    ax.axvline(-1, color=INK, linewidth=0.8, linestyle=":")
    ax.set_yticks(range(len(populations)), populations, fontsize="small")
    ax.set(title="slopes on log n, 95 % (dotted: rate 1/n)", ylim=(len(populations) - 0.4, -0.6))
    ax.legend(loc="upper center", bbox_to_anchor=(0.4, -0.06), ncols=4, frameon=False, columnspacing=1.0)
