"""The E-steps that `timing` compares: of EM, and of Sinkhorn-EM by Newton, by plain Sinkhorn and by POT, in whole iterations.

Seconds are those of the processor, and the caller allows one thread: other work on the machine then hardly shows.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.cluster import kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture as ScikitLearnMixture
from threadpoolctl import threadpool_limits

from .._compiled import get_num_threads, set_num_threads
from .._typing import Floats
from ..coordinates import identity
from ..em import Phase, State, e_step, m_step, score, start_state, tolerances_after
from ..engines import InMemory
from ..families import STRUCTURES, Elliptical, Gaussian, Regularisation
from ..initialisation import nearest
from ..ot import FixedMass, FreeMass
from ..ot.kernel import evaluate
from ..ot.newton import Solution, Tolerances
from ..ot.sinkhorn import solve_sinkhorn
from ..ot.solve import solve_masses

EM, FIT, NEWTON = "EM", "Newton, as in a fit", "Newton, warm"
WARM, COLD, POT, POT_LOG = "Sinkhorn, warm", "Sinkhorn, cold", "POT sinkhorn, cold", "POT sinkhorn_log, cold"
SCIKIT_LEARN = "EM of scikit-learn"
WORK = {WARM: 2e8, COLD: 2e8, POT: 1e8, POT_LOG: 2e6}  # entries times passes of one E-step; more is not waited for
MOST_PASSES = 1000
REPEATS, PATIENCE = 3, 0.02  # an iteration is measured again until it was so often, or took so many seconds
MISSING = "POT is not installed"
PHASE = Phase(Elliptical(Gaussian(), STRUCTURES["full"](), Regularisation(1e-9)), FixedMass(), False, 100, 0.0)


class Point(NamedTuple):
    """A state on the way of a fit, and how much the bound rose by coming here."""

    iteration: int
    state: State
    gain: float


class Outcome(NamedTuple):
    """What one E-step took."""

    potentials: Floats
    passes: int
    status: str = "converged"


Solver = Callable[[Floats, Floats, Point, float], Outcome]  # scores, row masses, point, tolerance


def way(X: Floats, K: int, first: int, last: int, seed: int) -> list[Point]:
    """States of Sinkhorn-EM, iterations ``first`` to ``last``, from k-means++ centres, weights uniform and held."""
    engine = _engine(X)
    labels = nearest(X, kmeans_plusplus(X, K, random_state=seed)[0])
    with np.errstate(divide="ignore"):
        hard = np.asfortranarray(np.log(np.eye(K)[labels]))
    state = start_state(engine, PHASE.family, [hard], PHASE.rule)._replace(weights=np.full(K, 1 / K))
    points, value, gain = [], -np.inf, np.inf
    for iteration in range(1, last + 1):
        points.append(Point(iteration, state, gain))
        scores = score(engine, PHASE.family, state.parameters)
        solution = e_step(engine, PHASE.rule, state, scores, tolerances_after(gain))
        gain, value = solution.minimum - value, solution.minimum
        state = m_step(engine, PHASE, state, scores, solution)
    return points[first - 1 :]


def measure(X: Floats, point: Point, tolerance: float, arm: str) -> dict[str, Any]:
    """Seconds of scores, E-step and M-step by ``arm`` at one state, those of its E-step, and what that did."""
    engine, b = _engine(X), point.state.weights
    mass, out = engine.row_mass, [np.empty((len(b), len(X))).T]
    seconds: list[tuple[float, float]] = []
    while not seconds or (len(seconds) < REPEATS and sum(whole for whole, _ in seconds) < PATIENCE):
        start = time.process_time()
        scores = score(engine, PHASE.family, point.state.parameters, out)
        scored = time.process_time()
        outcome = SOLVERS[arm](scores[0], mass, point, tolerance)
        solved = time.process_time()
        solution = Solution(outcome.potentials, b, 0.0, 0.0, 0.0, 0.0, outcome.passes, outcome.status)
        m_step(engine, PHASE, point.state, scores, solution)
        seconds.append((time.process_time() - start, solved - scored))
    found = evaluate(scores[0], mass, np.log(b) + outcome.potentials, 0.0).mass
    whole, part = np.median(seconds, axis=0) if outcome.status != MISSING else (np.nan, np.nan)
    error = float("nan") if arm == EM or outcome.status == MISSING else float(np.abs(found - b).sum())
    return {"seconds": whole, "e_step": part, "passes": outcome.passes, "error": error, "status": outcome.status}


def scikit_learn(X: Floats, point: Point) -> dict[str, Any]:
    """Seconds of an iteration of scikit-learn's EM from the same state: those of three less those of one, halved."""
    described = PHASE.family.describe(point.state.parameters, identity(X.shape[1]))
    start = {f"{name}_init": described[name] for name in ("means", "precisions")}
    seconds = []
    for iterations in (1, 3):
        mixture = ScikitLearnMixture(
            len(point.state.weights), max_iter=iterations, tol=0.0, weights_init=point.state.weights, **start
        )
        begin = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # it is stopped on purpose
            mixture.fit(X)
        seconds.append(time.process_time() - begin)
    iteration = max((seconds[1] - seconds[0]) / 2, 0.0)
    return {"seconds": iteration, "e_step": np.nan, "passes": 1, "error": np.nan, "status": "converged"}


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for our kernels and for linear algebra."""
    threads = get_num_threads()
    set_num_threads(1)
    try:
        with threadpool_limits(limits=1):
            yield
    finally:
        set_num_threads(threads)


def _engine(X: Floats) -> InMemory:
    return InMemory(np.asfortranarray(X), np.full(len(X), 1 / len(X)))


def _free(S: Floats, mass: Floats, point: Point, tolerance: float) -> Outcome:
    b = point.state.weights
    solution = e_step(InMemory(S, mass), FreeMass(), point.state, [S], tolerances_after(0.0))
    return Outcome(np.zeros(len(b)), solution.n_passes)


def _ours(S: Floats, mass: Floats, point: Point, tolerance: float, in_fit: bool) -> Outcome:
    tolerances = tolerances_after(point.gain) if in_fit else Tolerances(tolerance, np.inf, np.inf, MOST_PASSES)
    solution = e_step(InMemory(S, mass), FixedMass(), point.state, [S], tolerances)
    return Outcome(solution.potentials, solution.n_passes, solution.status)


def _sinkhorn(S: Floats, mass: Floats, point: Point, tolerance: float, arm: str) -> Outcome:
    b, g = point.state.weights, point.state.potentials
    limit = max(1, min(MOST_PASSES, int(WORK[arm] / S.size)))
    solution = solve_masses(
        lambda offset, temperature: evaluate(S, mass, offset, temperature),
        FixedMass(),
        b,
        g if arm == WARM else np.zeros(len(b)),
        Tolerances(tolerance, np.inf, np.inf, limit),
        solve_sinkhorn,
    )
    return Outcome(solution.potentials, solution.n_passes, solution.status)


def _pot(S: Floats, mass: Floats, point: Point, tolerance: float, arm: str) -> Outcome:
    """POT on costs of minimum 0 in every row; its L2 error is held below the tolerance over the root of K."""
    b = point.state.weights
    try:
        import ot
    except ImportError:
        return Outcome(np.zeros(len(b)), 0, MISSING)
    limit = max(1, min(MOST_PASSES, int(WORK[arm] / S.size)))
    stop = tolerance / np.sqrt(len(b))
    method = "sinkhorn" if arm == POT else "sinkhorn_log"
    cost = S.max(axis=1, keepdims=True) - S
    log = ot.sinkhorn(mass, b, cost, 1.0, method=method, numItermax=limit, stopThr=stop, warn=False, log=True)[1]
    v = np.log(log["v"]) if arm == POT else log["log_v"]
    status = "converged" if log["err"][-1] < stop else "max_passes"
    return Outcome(v - np.log(b), int(log["niter"]) + 1, status)


SOLVERS: dict[str, Solver] = {
    EM: _free,
    FIT: partial(_ours, in_fit=True),
    NEWTON: partial(_ours, in_fit=False),
    WARM: partial(_sinkhorn, arm=WARM),
    COLD: partial(_sinkhorn, arm=COLD),
    POT: partial(_pot, arm=POT),
    POT_LOG: partial(_pot, arm=POT_LOG),
}
