"""How fast EM and Sinkhorn-EM come near the truth: symmetric mixture, infinite and finite samples, with the exponential bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from .._typing import Floats
from ..datasets import simulate_gaussian_mixture
from ..locations import fit_locations
from ..plots import INK, panels
from ..population import asymptotic_factor, population_map
from .base import COLOUR, METHODS, Experiment, Scale, Task, Verdict
from .statistics import mean

FACTORS = {0.7: (0.25, 0.24), 0.9: (0.18, 0.14)}  # at theta* = 1: EM, Sinkhorn-EM; computed independently, two digits
HALF, QUARTER = 0.5, 0.25  # of theta*: above the one never worse, below the other perhaps
ITERATIONS = 60  # of the map
EXACT = 1e-12  # rounding of an iteration
RESOLVED = 1e-9  # errors from here on have digits enough to be divided by a bound
FAR_START, NEAR_START = 2.0, 0.1  # in theta*
N, SAMPLE_ALPHA, SHOWN = 1000, 0.9, 6  # finite samples: rows, weight, iterations shown
SURE = 0.9999  # confidence of an interval that must hold the expected number


class Rates(Experiment):
    name = "rates"
    question = "Is Sinkhorn-EM ever further from the truth than EM after as many iterations?"
    source = (
        "Mena et al. 2020 (comparison of the iterates); Daskalakis, Tzamos & Zampetakis 2017 in one "
        "dimension (the bound, equal weights); factors and the half-way rule were computed independently for this project"
    )

    def tasks(self, scale: Scale) -> list[Task]:
        alphas = [0.5, 0.55, 0.7, 0.9] if scale.quick else [*np.linspace(0.5, 0.975, 20).round(3).tolist(), 0.99]
        truths = [1.0, 2.0] if scale.quick else [0.5, 1.0, 2.0, 3.0]
        starts = 31 if scale.quick else 46
        tasks: list[Task] = [
            {"part": "region", "theta_star": t, "alpha": a, "starts": starts} for t in truths for a in alphas
        ]
        tasks += [{"part": "factor", "theta_star": t} for t in truths]
        tasks += [{"part": "path", "theta_star": 1.0, "alpha": SAMPLE_ALPHA}]
        tasks += [{"part": "sample", "repetition": r} for r in range(scale.count(200, 60))]
        return tasks

    def run(self, task: Task, rng: np.random.Generator) -> pd.DataFrame:
        if task["part"] == "sample":
            return _sample(rng)
        return {"region": _region, "factor": _factors, "path": _paths}[str(task["part"])](task)

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        region = table[table["part"] == "region"]
        return [
            _never_worse(region),
            _sometimes_worse(region),
            *_factor_verdicts(table[table["part"] == "factor"]),
            _bound_verdict(region[region["alpha"] == 0.5], "alpha = .5, theorem of Daskalakis et al."),
            _bound_verdict(region[region["alpha"] > 0.5], "alpha > .5, no theorem"),
            *_floor_verdicts(table[table["part"] == "sample"]),
        ]

    def notes(self, scale: Scale) -> str:
        return (
            "Truth alpha N(theta*, 1) + (1 - alpha) N(-theta*, 1), weights and variance known; error |theta_t - theta*|. Infinite "
            f"sample: expectations by quadrature, {ITERATIONS} iterations. Bound: |theta_t - theta*| <= kappa^t |theta_0 - "
            "theta*|, kappa = exp(-min(theta_0, theta*)^2 / 2), theta_0 > 0; a theorem for equal weights, where both methods are "
            "the same. For EM it carries over to other weights if theta_0 <= theta*: there the derivative of the EM map is no "
            "larger than with equal weights. For Sinkhorn-EM, and from theta_0 > theta*, it is checked here, not proved. "
            f"Finite samples: n = {N}, alpha = {SAMPLE_ALPHA}, theta* = 1, multinomial counts, from theta_0 = 2."
        )

    def draw(self, table: pd.DataFrame) -> Any:
        figure, axes = panels(2, 2, (11.5, 8))
        drawings = {"path": _draw_paths, "region": _draw_region, "factor": _draw_factors, "sample": _draw_sample}
        for ax, (part, draw) in zip(axes.flat, drawings.items(), strict=True):
            draw(ax, table[table["part"] == part])
        figure.suptitle("From half the true mean on, Sinkhorn-EM is at every iteration at least as near as EM")
        return figure


def _errors(theta_0: Floats, task: Task) -> dict[str, Floats]:
    """By method, |theta_t - theta*| (t, start) with an infinite sample."""
    alpha, theta_star = float(task["alpha"]), float(task["theta_star"])
    errors = {}
    for name, tau in METHODS.items():
        theta, path = theta_0, [np.abs(theta_0 - theta_star)]
        for _ in range(ITERATIONS):
            theta = population_map(theta, alpha, theta_star, tau=tau)
            path.append(np.abs(theta - theta_star))
        errors[name] = np.stack(path)
    return errors


def _bound(theta_0: Floats, theta_star: float) -> Floats:
    """kappa^t |theta_0 - theta*| (t, start)."""
    kappa = np.exp(-(np.minimum(theta_0, theta_star) ** 2) / 2)
    return np.asarray(kappa ** np.arange(ITERATIONS + 1)[:, None] * np.abs(theta_0 - theta_star))


def _region(task: Task) -> pd.DataFrame:
    """By start: the last iteration that is further away than EM's, by how much at most, and the largest part of the bound used."""
    theta_star = float(task["theta_star"])
    ratio = np.linspace(-2.0, 2.5, int(task["starts"])) + 1e-3  # no start at the truth itself
    errors = _errors(ratio * theta_star, task)
    excess = errors["Sinkhorn-EM"] - errors["EM"]
    worse = excess > EXACT
    last = np.where(worse.any(axis=0), ITERATIONS - np.argmax(worse[::-1], axis=0), 0)
    table = pd.DataFrame({"start": ratio.round(6), "last_worse": last, "excess": excess.max(axis=0).round(9)})
    bound = _bound(ratio * theta_star, theta_star)
    for name, error in errors.items():
        part = np.divide(error, bound, out=np.zeros_like(bound), where=(error > RESOLVED) & (ratio > 0))[1:].max(axis=0)
        table[f"bound_used_{name}"] = np.where(ratio > 0, part.round(6), np.nan)
    return table


def _factors(task: Task) -> pd.DataFrame:
    theta_star, alphas = float(task["theta_star"]), np.linspace(0.5, 0.99, 50).round(2).tolist()
    rows = [
        (a, name, round(asymptotic_factor(a, theta_star, tau=tau), 8)) for a in alphas for name, tau in METHODS.items()
    ]
    return pd.DataFrame(rows, columns=["alpha", "method", "factor"])


def _paths(task: Task) -> pd.DataFrame:
    starts = np.array([NEAR_START, FAR_START])
    lines = {**_errors(starts, task), "bound": _bound(starts, 1.0)}
    t, j = np.indices(lines["bound"].shape)
    columns = {"start": starts[j.ravel()], "iteration": t.ravel()}
    return pd.concat([pd.DataFrame({**columns, "method": name, "error": e.ravel()}) for name, e in lines.items()])


def _sample(rng: np.random.Generator) -> pd.DataFrame:
    weights, truth = [SAMPLE_ALPHA, 1 - SAMPLE_ALPHA], 1.0
    X, _ = simulate_gaussian_mixture(N, weights, [[truth], [-truth]], [[1.0]], random_state=rng)
    start, parts = [[[FAR_START], [-FAR_START]]], []
    for name, tau in METHODS.items():
        fit = fit_locations(X, start, weights, tau=tau, symmetric=True, tol=0.0, max_iter=100, record=True)
        assert fit.path is not None
        error = np.append(fit.path[0, : SHOWN + 1, 0, 0], fit.means[0, 0, 0]) - truth
        iteration = [*range(SHOWN + 1), -1]  # -1: the limit
        parts.append(pd.DataFrame({"method": name, "iteration": iteration, "error": error.round(6)}))
    return pd.concat(parts, ignore_index=True)


def _never_worse(region: pd.DataFrame) -> Verdict:
    rows = region[region["start"] >= HALF]
    return Verdict(
        "from theta_0 >= theta*/2 Sinkhorn-EM's error is at no iteration above EM's (computed for us at alpha .55, .7, .9 and "
        "theta* 1, 2; here on the whole map)",
        f"{int((rows['last_worse'] > 0).sum())} of {len(rows)} starts worse, {len(region.groupby(['alpha', 'theta_star']))} pairs "
        "of alpha and theta*",
        bool((rows["last_worse"] == 0).all()),
    )


def _sometimes_worse(region: pd.DataFrame) -> Verdict:
    rows = region[region["alpha"] > 0.5]
    worse = rows[rows["last_worse"] > 0]
    words = [
        f"theta* {t:g}: theta_0/theta* {part['start'].min():.2f} to {part['start'].max():.2f}, last at iteration "
        f"{int(part['last_worse'].max())}, by at most {part['excess'].max():.2g}"
        for t, part in worse.groupby("theta_star")
    ]
    near = worse["start"].between(0, QUARTER)
    return Verdict(
        "it may fail in the first iterations from theta_0 < theta*/4 (computed for us); alpha > .5",
        "; ".join(words),
        bool(near.any() and (worse["last_worse"] < ITERATIONS).all()),
    )


def _factor_verdicts(factor: pd.DataFrame) -> list[Verdict]:
    wide = factor.pivot(index=["theta_star", "alpha"], columns="method", values="factor")
    found = {alpha: wide.loc[(1.0, alpha), list(METHODS)].to_numpy() for alpha in FACTORS}
    gain = (wide["EM"] - wide["Sinkhorn-EM"])[wide.index.get_level_values("alpha") > 0.5]
    expected = ", ".join(f"alpha {alpha}: {em}/{sem}" for alpha, (em, sem) in FACTORS.items())
    return [
        Verdict(
            f"asymptotic factors at theta* = 1, EM/Sinkhorn-EM: {expected} (computed for us)",
            ", ".join(f"{em:.4f}/{sem:.4f}" for em, sem in found.values()),
            all(np.allclose(found[alpha], pair, rtol=0, atol=0.005) for alpha, pair in FACTORS.items()),
        ),
        Verdict(
            "the asymptotic factor of Sinkhorn-EM is the smaller one for every alpha > .5 (theory)",
            f"smallest difference {gain.min():.2g}, largest {gain.max():.2g}",
            bool(gain.min() > EXACT),
        ),
    ]


def _bound_verdict(rows: pd.DataFrame, words: str) -> Verdict:
    used = {name: rows[f"bound_used_{name}"].max() for name in METHODS}
    return Verdict(
        f"|theta_t - theta*| <= kappa^t |theta_0 - theta*| from every theta_0 > 0 ({words})",
        "largest part of the bound that is used: " + ", ".join(f"{name} {value:.4f}" for name, value in used.items()),
        all(value <= 1 for value in used.values()),
    )


def _floor_verdicts(sample: pd.DataFrame) -> list[Verdict]:
    wide = sample.pivot(index=["repetition", "iteration"], columns="method", values="error").abs()
    first, limit = wide.xs(1, level="iteration"), wide.xs(-1, level="iteration") ** 2
    information = N * (1 - asymptotic_factor(SAMPLE_ALPHA, 1.0, tau=0.0))  # N l''(theta*)
    relative, gain = mean(limit["EM"] * information, SURE), mean(first["EM"] - first["Sinkhorn-EM"])
    price = mean(limit["Sinkhorn-EM"] - limit["EM"])
    return [
        Verdict(
            f"n = {N}: after one iteration from theta_0 = {FAR_START:g} Sinkhorn-EM is nearer to the truth than EM",
            f"difference of mean errors {gain}",
            gain.low > 0,
        ),
        Verdict(
            f"n = {N}: EM's mean squared error stops at 1 / (n l''(theta*)) (theory: Cramer-Rao), Sinkhorn-EM's near it",
            f"over it: EM {relative} ({SURE:.2%}), Sinkhorn-EM {(limit['Sinkhorn-EM'] * information).mean():.3f}; difference of "
            f"mean squares {price}",
            relative.low <= 1 <= relative.high,
        ),
    ]


def _draw_paths(ax: Any, path: pd.DataFrame) -> None:
    for start, style in ((FAR_START, "-"), (NEAR_START, "--")):
        rows = path[path["start"] == start].pivot(index="iteration", columns="method", values="error").loc[:12]
        for name in METHODS:
            line = rows[name][rows[name] > 1e-11]
            label = f"{name}, θ0 = {start:g}"
            ax.plot(line.index, line, style, marker="o", markersize=3.5, color=COLOUR[name], label=label)
        ax.plot(rows.index, rows["bound"], style, color=INK, linewidth=0.9, label=f"bound, θ0 = {start:g}")
    ax.set(yscale="log", ylim=(1e-11, 30), xlabel="iteration", ylabel="|θ - θ*|")
    ax.set(title=f"Infinite sample, α = {SAMPLE_ALPHA}, θ* = 1")
    ax.legend(frameon=False, fontsize="small", ncols=2, loc="lower left")


def _draw_region(ax: Any, region: pd.DataFrame) -> None:
    rows = region[region["theta_star"] == 1.0].pivot(index="alpha", columns="start", values="last_worse")
    picture = ax.pcolormesh(
        rows.columns, rows.index, np.minimum(rows, 6), cmap="Blues", vmin=0, vmax=6, shading="nearest"
    )
    ax.axvline(HALF, color=INK, linestyle=":")
    ax.set(xlabel="start θ0 / θ*", ylabel="α", title="Last iteration at which Sinkhorn-EM is further away, θ* = 1")
    ax.annotate("never worse", (1.5, 0.75), ha="center")
    ax.annotate("never worse", (-1.0, 0.75), ha="center")
    ax.annotate("θ*/2", (HALF, 0.97), xytext=(4, 0), textcoords="offset points", va="top")
    bar = ax.figure.colorbar(picture, ax=ax)
    bar.set_ticks(range(7), labels=["never", *map(str, range(1, 6)), "6 or later"])


def _draw_factors(ax: Any, factor: pd.DataFrame) -> None:
    wide = factor.pivot(index=["theta_star", "alpha"], columns="method", values="factor")
    for theta_star, rows in wide[:2.0].groupby("theta_star"):  # factors further on are below 1e-3
        line = rows.droplevel("theta_star")
        for name in METHODS:
            ax.plot(line.index, line[name], color=COLOUR[name], label=name if theta_star == 1 else None)
        ax.annotate(f"θ* = {theta_star:g}", (0.5, line["EM"].iloc[0]), xytext=(0, 4), textcoords="offset points")
    points = [(alpha, value) for alpha, pair in FACTORS.items() for value in pair]
    ax.plot(*zip(*points, strict=True), "o", color=INK, fillstyle="none", label="computed independently")
    ax.set(xlabel="α", ylabel="factor per iteration", title="Asymptotic factor of the error, infinite sample")
    ax.set_ylim(0, None)
    ax.legend(frameon=False, loc="upper right")


def _draw_sample(ax: Any, sample: pd.DataFrame) -> None:
    errors = sample.assign(error=sample["error"] ** 2).groupby(["iteration", "method"])["error"].mean().unstack() ** 0.5
    shown = errors.loc[0:]
    for name in METHODS:
        ax.plot(shown.index, shown[name], "o-", markersize=4, color=COLOUR[name], label=name)
        ax.axhline(errors.loc[-1, name], color=COLOUR[name], linewidth=0.8, linestyle=":")
    ax.set(yscale="log", xlabel="iteration", ylabel="root mean squared error")
    ax.set(title=f"Samples of n = {N}, α = {SAMPLE_ALPHA}, θ* = 1 (dotted: floor)")
    ax.legend(frameon=False)
