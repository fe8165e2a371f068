"""The draws, plans and fits of `finite_sample`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from .._typing import Floats
from ..locations import fit_locations
from ..population import plan_errors
from .base import Task

SIZES = (10, 32, 100, 316, 1000)  # n
ITERATE_SIZES = (100, 316, 1000, 3162, 10_000)
PATH_STEPS = 5
EVALUATED, MOST = 1_000_000, 2000  # posteriors of fresh rows, and fresh rows
MANY = 100  # atoms from which on plain scaling is the faster way: they overlap


def _population(task: Task, rng: np.random.Generator) -> tuple[Floats, float]:
    """Atoms (K, d) and sigma."""
    K, d, R = int(task["K"]), int(task["d"]), float(task["R"])
    if K == 2:
        return R * np.outer([-1.0, 1.0], np.eye(d)[0]), float(task["sigma"])
    directions = rng.standard_normal((K, d))
    radii = R * rng.random((K, 1)) ** (1 / d)
    return radii * directions / np.linalg.norm(directions, axis=1, keepdims=True), float(task["sigma"])


def _rows(n: int, atoms: Floats, sigma: float, rng: np.random.Generator) -> Floats:
    return atoms[rng.integers(len(atoms), size=n)] + sigma * rng.standard_normal((n, atoms.shape[1]))


def plan_task(task: Task, rng: np.random.Generator) -> pd.DataFrame:
    """Errors of the empirical plan for every n, independent samples of one population."""
    atoms, sigma = _population(task, rng)
    fresh = _rows(min(MOST, EVALUATED // len(atoms)), atoms, sigma, rng)
    method: Any = "sinkhorn" if len(atoms) > MANY else "newton"
    errors = [plan_errors(_rows(n, atoms, sigma, rng), atoms, sigma, fresh, method=method) for n in SIZES]
    return pd.DataFrame({"n": SIZES, **pd.DataFrame(errors)})


def _fit(n: int, task: Task, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """The path of Sinkhorn-EM from one sigma away (T + 1, K, d), and its squared errors (T + 1,)."""
    atoms, sigma = _population(task, rng)
    away = rng.standard_normal(atoms.shape)
    start = atoms + sigma * away / np.linalg.norm(away, axis=1, keepdims=True)
    Y = _rows(n, atoms, sigma, rng)
    path = fit_locations(Y, start[None], covariance=sigma**2, max_iter=100, tol=1e-14, record=True).path
    assert path is not None
    return path[0], np.mean(np.sum((path[0] - atoms) ** 2, axis=2), axis=1)


def iterates_task(task: Task, rng: np.random.Generator) -> pd.DataFrame:
    """Error at convergence, and by how much the first iteration brings the iterate nearer to its limit, for every n."""
    records = []
    for n in ITERATE_SIZES:
        path, errors = _fit(n, task, rng)
        before, after = np.linalg.norm(path[:2] - path[-1], axis=(1, 2))
        records.append({"n": n, "error": errors[-1], "contraction": after / before})
    return pd.DataFrame(records)


def path_task(task: Task, rng: np.random.Generator) -> pd.DataFrame:
    """Mean error at the first iterations, for every n."""
    fits = ([_fit(n, task, rng)[1][: PATH_STEPS + 1] for _ in range(int(task["draws"]))] for n in ITERATE_SIZES)
    steps, errors = np.arange(PATH_STEPS + 1), np.ravel([np.mean(errors, axis=0) for errors in fits])
    sizes, iterations = np.repeat(ITERATE_SIZES, len(steps)), np.tile(steps, len(ITERATE_SIZES))
    return pd.DataFrame({"n": sizes, "iteration": iterations, "error": errors})
