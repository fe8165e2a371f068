"""The transport loss L beside the negative log-likelihood l: order, equality, growth and curvature."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.special import rel_entr

from .. import GaussianMixture, LocationScaleMixture
from ..datasets import simulate_gaussian_mixture
from ..locations import objective
from ..plots import COLOURS, INK, LINES, MARKERS, panels
from . import bounds_curvature
from .base import Experiment, Scale, Task, Verdict
from .bounds_curvature import EXACT, TAU

COLOUR = {"l": COLOURS[1], "L": COLOURS[0]}  # EM, Sinkhorn-EM
FAMILIES = ("gaussian", "student_t", "laplace", "logistic", "cauchy", "poisson")
MODELS, ROWS = 8, 200  # of a task of random parameters
SHIFTS = (0.0, 1.0, 10.0, 100.0, 1000.0)
VARIANCES = tuple(10.0**-e for e in range(0, 13))
SMALL = 0.01  # variance from which on the limits show
MEAN_ROWS = 500
N_WEIGHTS = (60.0, 1.5, 0.5)  # weight of the component whose variance shrinks, times n; the point has 1
ATOM_ROWS = 200  # of the data on one of whose points a variance shrinks


class Bounds(Experiment):
    name = "bounds"
    question = "Does the Sinkhorn-EM objective bound the likelihood, share its optimum and curve no less?"
    source = "Mena et al. 2020 (L >= l, equality and curvature at the truth); coercivity follows from the theory"

    def tasks(self, scale: Scale) -> list[Task]:
        sizes = [500, 2000] if scale.quick else [500, 1000, 2000, 5000]
        models, data, samples = (range(scale.count(*pair)) for pair in ((15, 2), (10, 3), (10, 3)))
        tasks: list[Task] = [{"part": "gap", "family": f, "repetition": r} for f in FAMILIES for r in models]
        tasks += [{"part": "mean", "repetition": r} for r in data]
        tasks += [{"part": "variance", "n_weight": w, "repetition": r} for w in N_WEIGHTS for r in data]
        tasks += [{"part": "population", "truth": t} for t in bounds_curvature.TRUTHS]
        tasks += [
            {"part": "sample", "truth": t, "n": n, "repetition": r}
            for t in bounds_curvature.TRUTHS
            for n in sizes
            for r in samples
        ]
        return tasks

    def run(self, task: Task, rng: np.random.Generator) -> pd.DataFrame:
        parts = {"gap": _gap, "mean": _shift_mean, "variance": _shrink_variance}
        return {**parts, "population": bounds_curvature.population, "sample": bounds_curvature.sample}[
            str(task["part"])
        ](task, rng)

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        part = dict(list(table.groupby("part")))
        return [
            *_gap_verdicts(part["gap"]),
            _equality(part["population"]),
            _mean_verdict(part["mean"]),
            *_variance_verdicts(part["variance"]),
            *bounds_curvature.population_verdicts(part["population"]),
            *bounds_curvature.sample_verdicts(part["sample"], part["population"]),
        ]

    def summary(self, table: pd.DataFrame) -> pd.DataFrame:
        rows = table[table["part"] == "population"]
        return rows[["truth", "smallest_l", "smallest_L", "factor_l", "factor_L", "difference_rank"]]

    def notes(self, scale: Scale) -> str:
        return (
            f"Random parameters: K 2 to 8, d 1 to 5, {ROWS} rows from one mixture, l and L of others of the same family, weights "
            "given. Mean: three Gaussians in the plane, 500 rows, the first mean is moved. Variance: two Gaussians in the plane, "
            f"{ATOM_ROWS} rows, the mean of the first is a row and its variance shrinks; its weight is .3, 1.5/n or .5/n. "
            "Curvature: Hessians in the means at the truth, covariance I and weights known; population by quadrature. Factor: "
            "largest eigenvalue of I - A^-1 H, A the weights, by which an iteration multiplies a small error."
        )

    def draw(self, table: pd.DataFrame) -> Any:
        figure, axes = panels(2, 2, (11.5, 8.5))
        part = dict(list(table.groupby("part")))
        _draw_gap(axes[0, 0], part["gap"])
        _draw_mean(axes[0, 1], part["mean"])
        _draw_variance(axes[1, 0], part["variance"])
        bounds_curvature.draw_eigenvalues(axes[1, 1], part["sample"], part["population"])
        figure.suptitle("L is never below l, grows where l levels off or falls, and curves no less at the truth")
        return figure


def _random_mixture(
    family: str, K: int, d: int, rng: np.random.Generator
) -> tuple[LocationScaleMixture, dict[str, Any]]:
    """A mixture of random parameters, and what it is made of but the weights."""
    means = 2 * rng.normal(size=(K, d))
    options: dict[str, Any] = {"random_state": int(rng.integers(2**31))}
    if family == "poisson":
        options |= {"means": np.exp(means / 2), "family": family}
    else:
        scales = rng.gamma(2.0, 0.5, size=(K, d)) + 0.1
        options |= {"means": means, "covariances": scales, "family": family, "covariance_type": "diag"}
        options |= {"df": float(rng.uniform(2, 10))} if family == "student_t" else {}
    return LocationScaleMixture.from_parameters(rng.dirichlet(np.full(K, 2.0)), **options), options


def _gap(task: Task, rng: np.random.Generator) -> pd.DataFrame:
    family, records = str(task["family"]), []
    for _ in range(MODELS):
        K, d = int(rng.integers(2, 9)), int(rng.integers(1, 6))
        X, _ = _random_mixture(family, K, d, rng)[0].sample(ROWS)
        model, options = _random_mixture(family, K, d, rng)
        plan, w = model.transport_plan(X), model.weights_
        tilted = w * np.exp(plan.potentials - plan.potentials.max())
        tilted /= tilted.sum()
        others = [rng.dirichlet(np.full(K, 2.0)) for _ in range(5)]
        l, at_tilted, *elsewhere = (
            -LocationScaleMixture.from_parameters(a, **options).score(X) - rel_entr(w, a).sum()
            for a in (w, tilted, *others)
        )
        records.append((K, d, l, -plan.value, at_tilted, max(elsewhere)))
    return pd.DataFrame(records, columns=["K", "d", "l", "L", "at_tilted", "elsewhere"])


def _shift_mean(task: Task, rng: np.random.Generator) -> pd.DataFrame:
    weights, means = bounds_curvature.TRUTHS["d 2, K 3, triangle"]
    X, _ = simulate_gaussian_mixture(MEAN_ROWS, weights, means, np.eye(2), random_state=rng)
    moved = np.repeat(np.array(means)[None], len(SHIFTS), axis=0)
    moved[:, 0, 1] += SHIFTS
    losses = {name: objective(X, moved, weights, tau=tau) for name, tau in TAU.items()}
    return pd.DataFrame({"shift": SHIFTS, **losses, "rate": weights[0] * np.square(SHIFTS) / 2})


def _shrink_variance(task: Task, rng: np.random.Generator) -> pd.DataFrame:
    """l and L, and the limit of v L: the cost of the rows nearest to the one at the mean, with what it leaves of the weight."""
    n_weight = float(task["n_weight"])
    weights = [n_weight / ATOM_ROWS, 1 - n_weight / ATOM_ROWS]
    X, _ = simulate_gaussian_mixture(ATOM_ROWS, [0.3, 0.7], [[0.0, 0.0], [3.0, 0.0]], np.eye(2), random_state=rng)
    records = []
    for v in VARIANCES:
        means, variances = [X[0], [3.0, 0.0]], [v, 1.0]
        model = GaussianMixture.from_parameters(weights, means, variances, covariance_type="spherical")
        records.append((v, -model.score(X), -model.transport_plan(X).value))
    squares = np.sort(((X - X[0]) ** 2).sum(axis=1))
    masses = np.clip(n_weight - np.arange(ATOM_ROWS), 0, 1) / ATOM_ROWS
    return pd.DataFrame(records, columns=["variance", "l", "L"]).assign(limit=masses @ squares / 2)


def _gap_verdicts(gap: pd.DataFrame) -> list[Verdict]:
    scale = np.maximum(1, gap["L"].abs())
    smallest, off = (
        float(((gap["L"] - gap["l"]) / scale).min()),
        float(((gap["L"] - gap["at_tilted"]).abs() / scale).max()),
    )
    over = ((gap["elsewhere"] - gap["L"]) / scale).max()
    words = f"{len(gap)} random parameters, families {', '.join(gap['family'].unique())}"
    return [
        Verdict(
            f"L >= l (theory); {words}",
            f"smallest L - l {smallest:.2g}, median {(gap['L'] - gap['l']).median():.2g} nats",
            bool(smallest > -EXACT),
        ),
        Verdict(
            "L = max over weights a of l(a) - KL(alpha | a), reached at the tilted weights (theory)",
            f"largest difference at the tilted weights {off:.2g}; excess over L at random weights at most {over:.2g}",
            bool(off < EXACT and over < EXACT),
        ),
    ]


def _equality(population: pd.DataFrame) -> Verdict:
    gap = (population["L"] - population["l"]).abs().max()
    return Verdict(
        "L = l at the truth, infinite sample (Mena et al. 2020)", f"largest |L - l| {gap:.2g} nats", bool(gap < EXACT)
    )


def _mean_verdict(part: pd.DataFrame) -> Verdict:
    far = part[part["shift"] == SHIFTS[-1]].set_index("repetition")
    before = part[part["shift"] == SHIFTS[-2]].set_index("repetition")
    rate, change = far["L"] / far["rate"], (far["l"] - before["l"]).abs().max()
    return Verdict(
        "a mean moved away by s: L grows as alpha s^2/2, l levels off (theory)",
        f"at s = 1000 L over alpha s^2/2: {rate.min():.4f} to {rate.max():.4f}; l changes by {change:.1g} from s = 100 on",
        bool((abs(rate - 1) < 0.01).all() and change < EXACT),
    )


def _variance_verdicts(part: pd.DataFrame) -> list[Verdict]:
    last, before = (part[part["variance"] == v].set_index(["n_weight", "repetition"]) for v in VARIANCES[:-3:-1])
    per_log = (last[["l", "L"]] - before[["l", "L"]]) / np.log(VARIANCES[-1] / VARIANCES[-2])  # slopes on log v
    heavy = last.index.get_level_values("n_weight") > 1
    limit, light = (last["L"] * VARIANCES[-1] / last["limit"])[heavy], per_log["L"][~heavy]
    falls, expected = 1 / ATOM_ROWS, N_WEIGHTS[-1] / ATOM_ROWS  # d/2n and alpha d/2 for d = 2
    return [
        Verdict(
            "variance v -> 0 at a data point: L -> infinity, as (transport cost)/v, while n alpha > 1 (theory)",
            f"n alpha = 60 and 1.5: v L over the cost at v = 1e-12 {limit.min():.6f} to {limit.max():.6f}",
            bool(np.allclose(limit, 1, rtol=1e-3)),
        ),
        Verdict(
            f"there l -> -infinity, as (d/2n) log v = {falls:g} log v (theory)",
            f"slope {per_log['l'].min():.6f} to {per_log['l'].max():.6f}",
            bool(np.allclose(per_log["l"], falls, rtol=0.01)),
        ),
        Verdict(
            f"limit of coercivity: at n alpha = .5 < 1 row L collapses too, as (alpha d/2) log v = {expected:g} log v (theory)",
            f"slope {light.min():.6f} to {light.max():.6f}",
            bool(np.allclose(light, expected, rtol=0.01)),
        ),
    ]


def _draw_gap(ax: Any, gap: pd.DataFrame) -> None:
    for j, (family, rows) in enumerate(gap.groupby("family", sort=False)):
        ax.plot(
            rows["l"],
            rows["L"] - rows["l"],
            MARKERS[j % 7],
            color=COLOURS[j % 7],
            markersize=4,
            alpha=0.6,
            label=family,
        )
    ax.set(
        xscale="symlog",
        yscale="log",
        xlabel="l, nats",
        ylabel="L - l, nats",
        title="Random parameters: L - l is positive",
    )
    ax.legend(frameon=False, fontsize="small")


def _draw_mean(ax: Any, part: pd.DataFrame) -> None:
    lines = part.groupby("shift")[["l", "L", "rate"]].mean()
    for name in TAU:
        ax.plot(lines.index, lines[name], "o-", color=COLOUR[name], label=name)
    ax.plot(lines.index[1:], lines["rate"].iloc[1:], ":", color=INK, label="α s²/2")
    ax.set(
        xscale="symlog", yscale="log", xlabel="s, standard deviations", ylabel="nats", title="One mean moves away by s"
    )
    ax.legend(frameon=False)


def _draw_variance(ax: Any, part: pd.DataFrame) -> None:
    small = part[part["variance"] <= SMALL]
    for n_weight, style in zip(N_WEIGHTS, LINES[:3], strict=True):
        lines = small[small["n_weight"] == n_weight].groupby("variance")[["l", "L"]].mean()
        for name in TAU:
            rise = lines[name] - lines[name].iloc[-1]
            ax.plot(rise.index, rise, style, color=COLOUR[name], label=f"{name}, nα = {n_weight:g}")
    ax.set(xscale="log", xlabel="variance v at a data point", ylabel=f"nats above the value at v = {SMALL}")
    ax.set_yscale("symlog", linthresh=0.2, linscale=2)
    ax.set_ylim(-0.25, 1e12)
    ax.set_yticks([-0.2, -0.1, 0, 0.1, 1, 1e3, 1e6, 1e9, 1e12])
    ax.set(title="One variance shrinks: L explodes, unless nα < 1; l falls")
    ax.invert_xaxis()
    ax.legend(frameon=False, fontsize="small")
