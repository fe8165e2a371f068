"""The objectives of EM and Sinkhorn-EM on the population: along a line, and in the plane with the paths of both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from .._typing import Floats
from ..locations import fit_locations, objective
from ..plots import INK, panels
from ..population import population_rows
from .base import COLOUR, METHODS, Experiment, Scale, Task, Verdict

OBJECTIVES = {"EM": "l", "Sinkhorn-EM": "L"}
WEIGHT, TRUTH = 0.7, 1.0  # of the picture; between the thresholds of both methods, .677 and .761
SPAN, NODES = 2.2, 72  # the picture reaches from -SPAN to SPAN; nodes of the quadrature in each of its dimensions
WEIGHTS, PLANE = np.array([WEIGHT, 1 - WEIGHT]), np.array([[TRUTH, 0.0]])
EXACT = 1e-9  # what the quadrature leaves of an identity, nats
NEAR = 0.05  # a path has arrived


class Landscape(Experiment):
    name = "landscape"
    question = "Which traps of the likelihood does the Sinkhorn-EM objective not have?"
    source = "Mena et al. 2020 (same global optimum, fewer spurious ones); weights and variance known, population"

    def tasks(self, scale: Scale) -> list[Task]:
        alphas, truths = ([0.6, 0.7], [1.0]) if scale.quick else ([0.5, 0.6, 0.65, 0.7, 0.8, 0.9], [0.5, 1.0, 2.0])
        lines: list[Task] = [{"part": "line", "theta_star": t, "alpha": a} for t in truths for a in alphas]
        points, starts = (31, 6) if scale.quick else (101, 12)
        paths: list[Task] = [{"part": part, "starts": starts} for part in ("path", "free path")]
        return [*lines, {"part": "surface", "points": points}, *paths]

    def run(self, task: Task, rng: np.random.Generator) -> pd.DataFrame:
        parts = {"line": _line, "surface": _surface, "path": _paths, "free path": _free_paths}
        return parts[str(task["part"])](task)

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        line = table[table["part"] == "line"]
        return [*_identities(line), *_minima(line), *_paths_found(table)]

    def summary(self, table: pd.DataFrame) -> pd.DataFrame:
        traps = _traps(table[table["part"] == "line"])
        words = {True: "spurious minimum", False: "none"}
        return traps[["theta_star", "alpha"]].assign(**{name: traps[name].map(words) for name in ("l", "L")})

    def notes(self, scale: Scale) -> str:
        return (
            "Population values by quadrature, no sampling error. Lines: means theta and -theta, weights alpha and 1 - alpha. "
            f"Picture: the same in the plane, theta* = (1, 0), alpha = {WEIGHT}; starts on a circle."
        )

    def draw(self, table: pd.DataFrame) -> Any:
        figure, axes = panels(1, 3, (13.5, 4.4))
        line = table[(table["part"] == "line") & (table["theta_star"] == TRUTH) & (table["alpha"] == WEIGHT)]
        for method, name in OBJECTIVES.items():
            axes[0, 0].plot(line["theta"], line[name], color=COLOUR[method], label=f"{name} ({method})")
        axes[0, 0].set(title=f"On a line: α = {WEIGHT}, θ* = 1", xlabel="θ", ylabel="nats")
        axes[0, 0].axvline(TRUTH, color=INK, linewidth=0.8, linestyle=":")
        axes[0, 0].legend(frameon=False)
        for ax, method in zip(axes[0, 1:], METHODS, strict=True):
            _draw_surface(ax, table, method)
        figure.suptitle("Where the likelihood has a trap, the Sinkhorn-EM objective has none", fontsize="large")
        return figure


def _identities(line: pd.DataFrame) -> list[Verdict]:
    gap = (line["L"] - line["l"]).to_numpy()
    at_truth = np.abs(gap[np.isclose(line["theta"], line["theta_star"])])
    return [
        Verdict("L >= l at every parameter", f"smallest L - l on the grid: {gap.min():.2g} nats", gap.min() > -EXACT),
        Verdict(
            "L = l at the truth",
            f"largest |L - l| at {len(at_truth)} truths: {at_truth.max():.2g} nats",
            len(at_truth) == len(_traps(line)) and at_truth.max() < EXACT,
        ),
    ]


def _minima(line: pd.DataFrame) -> list[Verdict]:
    traps = _traps(line)
    unequal = traps[traps["alpha"] > 0.5]
    between = traps[(traps["alpha"] == WEIGHT) & (traps["theta_star"] == TRUTH)].iloc[0]
    return [
        Verdict(
            "both have their global minimum at the truth (alpha > .5)",
            f"farthest grid minimum: {unequal['off'].max():.2g} from theta*, grid step {unequal['step'].max():.2g}",
            bool((unequal["off"] < unequal["step"]).all()),
        ),
        Verdict(
            "L has a spurious minimum only where l has one",
            f"l: {int(traps['l'].sum())} of {len(traps)} pairs (alpha, theta*), L: {int(traps['L'].sum())}, L alone: "
            f"{int((traps['L'] & ~traps['l']).sum())}",
            bool((traps["l"] | ~traps["L"]).all()),
        ),
        Verdict(
            f"at alpha = {WEIGHT}, theta* = {TRUTH:g}, l has a spurious minimum and L has none",
            f"l: {bool(between['l'])}, L: {bool(between['L'])}",
            bool(between["l"] and not between["L"]),
        ),
    ]


def _paths_found(table: pd.DataFrame) -> list[Verdict]:
    ends = _arrived(table, "path")
    return [
        Verdict(
            f"in the plane (theta* = (1, 0), alpha = {WEIGHT}) Sinkhorn-EM reaches the truth from every start, EM does not",
            _counts(ends),
            bool(ends["Sinkhorn-EM"].all() and not ends["EM"].all()),
        ),
        Verdict(
            "two free means in place of theta and -theta: the swapped minimum stays under both (no claim of the paper)",
            _counts(_arrived(table, "free path")),
            None,
        ),
    ]


def _line(task: Task) -> pd.DataFrame:
    alpha, theta_star = float(task["alpha"]), float(task["theta_star"])
    weights = np.array([alpha, 1 - alpha])
    X, masses = population_rows(weights, [[theta_star], [-theta_star]])
    theta = np.linspace(-2 * theta_star, 2 * theta_star, 201)
    means = np.stack([theta, -theta], axis=1)[:, :, None]
    values = {OBJECTIVES[name]: objective(X, means, weights, tau=tau, row_mass=masses) for name, tau in METHODS.items()}
    return pd.DataFrame({"theta": theta, **values}).round(10)


def _surface(task: Task) -> pd.DataFrame:
    X, masses = population_rows(WEIGHTS, PLANE * np.array([[1.0], [-1.0]]), n_nodes=NODES)
    axis = np.linspace(-SPAN, SPAN, int(task["points"]))
    theta = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    means = np.stack([theta, -theta], axis=1)
    values = {OBJECTIVES[name]: objective(X, means, WEIGHTS, tau=tau, row_mass=masses) for name, tau in METHODS.items()}
    return pd.DataFrame({"theta_1": theta[:, 0], "theta_2": theta[:, 1], **values}).round(6)


def _circle(task: Task) -> Floats:
    angles = 2 * np.pi * (np.arange(int(task["starts"])) + 0.5) / int(task["starts"])
    return 0.9 * SPAN * np.stack([np.cos(angles), np.sin(angles)], axis=1)


def _paths(task: Task) -> pd.DataFrame:
    """theta in the plane, means theta and -theta."""
    X, masses = population_rows(WEIGHTS, PLANE * np.array([[1.0], [-1.0]]), n_nodes=NODES)
    starts = _circle(task)
    return _run(X, masses, np.stack([starts, -starts], axis=1), symmetric=True, coordinates=lambda path: path[:, 0])


def _free_paths(task: Task) -> pd.DataFrame:
    """Two free means on the line."""
    X, masses = population_rows(WEIGHTS, [[TRUTH], [-TRUTH]])
    return _run(X, masses, _circle(task)[:, :, None], symmetric=False, coordinates=lambda path: path[:, :, 0])


def _run(
    X: Floats, masses: Floats, starts: Floats, symmetric: bool, coordinates: Callable[[Floats], Floats]
) -> pd.DataFrame:
    """The paths of both methods from the same starts, in two ``coordinates`` of the means (T, K, d)."""
    parts = []
    for name, tau in METHODS.items():
        fits = fit_locations(
            X, starts, WEIGHTS, tau=tau, row_mass=masses, symmetric=symmetric, max_iter=300, tol=1e-12, record=True
        )
        assert fits.path is not None
        for start, path in enumerate(fits.path):
            theta = coordinates(path[: fits.n_iter[start] + 1])
            columns = {"method": name, "start": start, "iteration": np.arange(len(theta))}
            parts.append(pd.DataFrame({**columns, "theta_1": theta[:, 0], "theta_2": theta[:, 1]}))
    return pd.concat(parts, ignore_index=True).round(6)


def _traps(line: pd.DataFrame) -> pd.DataFrame:
    """Of every pair (theta*, alpha): does a minimum lie at theta < 0, and how far from theta* is the lowest point?"""
    records = []
    for (theta_star, alpha), part in line.groupby(["theta_star", "alpha"], sort=False):
        theta = part["theta"].to_numpy()
        record = {"theta_star": theta_star, "alpha": alpha, "step": theta[1] - theta[0]}
        record["off"] = max(abs(theta[part[name].to_numpy().argmin()] - theta_star) for name in OBJECTIVES.values())
        for name in OBJECTIVES.values():
            slopes = np.sign(np.diff(part[name].to_numpy()))
            turns = theta[1:-1][(slopes[:-1] < 0) & (slopes[1:] > 0)]
            record[name] = bool((turns < 0).any())
        records.append(record)
    return pd.DataFrame(records)


def _arrived(table: pd.DataFrame, part: str) -> dict[str, Any]:
    """By method, whether the path from every start ends at the truth: (theta*, 0) in the plane, (theta*, -theta*) of free means."""
    path = table[table["part"] == part]
    last = path.sort_values("iteration").groupby(["method", "start"], as_index=False).last()
    aim = np.array([TRUTH, 0.0 if part == "path" else -TRUTH])
    hits = np.linalg.norm(last[["theta_1", "theta_2"]].to_numpy() - aim, axis=1) < NEAR
    return {method: hits[last["method"] == method] for method in METHODS}


def _counts(ends: dict[str, Any]) -> str:
    return ", ".join(f"{method} {int(hits.sum())} of {len(hits)} starts" for method, hits in ends.items())


def _draw_surface(ax: Any, table: pd.DataFrame, method: str) -> None:
    surface = table[table["part"] == "surface"]
    side = int(np.sqrt(len(surface)))
    x, y, z = (surface[name].to_numpy().reshape(side, side) for name in ("theta_1", "theta_2", OBJECTIVES[method]))
    ax.contourf(x, y, np.log(z - z.min() + 1e-2), 24, cmap="Greys_r", alpha=0.7)
    paths = table[(table["part"] == "path") & (table["method"] == method)]
    for _, path in paths.groupby("start"):
        ax.plot(path["theta_1"], path["theta_2"], ".-", color=COLOUR[method], markersize=3, linewidth=1)
        ax.plot(*path[["theta_1", "theta_2"]].to_numpy()[-1], "o", color=COLOUR[method], markersize=6)
    ax.plot(TRUTH, 0, "*", color=INK, markersize=15, markeredgecolor="white", zorder=5)
    ends = _arrived(table, "path")[method]
    ax.set(title=f"{method}: {int(ends.sum())} of {len(ends)} reach the truth", aspect="equal")
    ax.set(xlabel="θ1", ylabel="θ2", xlim=(-SPAN, SPAN), ylim=(-SPAN, SPAN))
