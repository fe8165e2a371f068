"""One Sinkhorn-EM iteration of every location-scale family against the Gaussian's: ``python tests/benchmarks/families.py``.

Wall-clock time of two threads, processor time of one; interleaved repetitions: ratios within one run are what counts.
"""

from __future__ import annotations

import time

import numpy as np
from run import interleaved, row, table

from sinkhorn_em import set_num_threads
from sinkhorn_em.em import Phase, State, e_step, m_step, score
from sinkhorn_em.engines import InMemory
from sinkhorn_em.families import (
    Cauchy,
    ContaminatedGaussian,
    Elliptical,
    Gaussian,
    GeneralisedGaussian,
    HyperbolicSecant,
    Laplace,
    Logistic,
    Product,
    StudentT,
)
from sinkhorn_em.families.covariances import Regularisation, structure_named
from sinkhorn_em.ot import FixedMass
from sinkhorn_em.ot.newton import Tolerances

N, D, K = 100_000, 16, 16
GENERATORS = {
    "gaussian": Gaussian(),
    "student_t, df 5": StudentT(df=5.0),
    "student_t, df estimated": StudentT(),
    "cauchy": Cauchy(),
    "laplace": Laplace(),
    "logistic": Logistic(),
    "hyperbolic_secant": HyperbolicSecant(),
    "generalised_gaussian, power 1.5": GeneralisedGaussian(power=1.5),
    "contaminated_gaussian, given": ContaminatedGaussian(contamination=0.05, inflation=20.0),
}
STRUCTURES = ["full", "diag", "EEE", "VEE", "EVE", "VVE", "EEV", "VEV", "EVV", "VEI", "EVI"]


def iteration(family, engine, centres):
    """A function that does one warm E-step and M-step."""
    start = family.start(K, D)
    state = State(start._replace(means=centres.copy()), np.full(K, 1 / K), np.zeros(K))
    phase, memory = Phase(family, FixedMass(), False, 1, 0.0), [None]
    tolerances = Tolerances(1e-4, 1e-1, 1e-8)

    def step():
        nonlocal state
        memory[0] = score(engine, family, state.parameters, memory[0])
        solution = e_step(engine, phase.rule, state, memory[0], tolerances)
        state = m_step(engine, phase, state, memory[0], solution)

    for _ in range(3):
        step()
    return step


def processor_seconds(repetitions, tasks):
    """Least processor time of each task on one thread, interleaved."""
    set_num_threads(1)
    least = dict.fromkeys(tasks, np.inf)
    for _ in range(repetitions):
        for name, task in tasks.items():
            start = time.process_time()
            task()
            least[name] = min(least[name], time.process_time() - start)
    set_num_threads(None)
    return least


def compare(title, families, engine, centres, reference):
    table(title, "family", "wall, ms", "ratio", "processor, ms", "ratio")
    tasks = {name: iteration(family, engine, centres) for name, family in families.items()}
    wall, processor = interleaved(7, **tasks), processor_seconds(5, tasks)
    for name in tasks:
        row(
            name,
            f"{1e3 * wall[name]:.0f}",
            f"{wall[name] / wall[reference]:.2f}",
            f"{1e3 * processor[name]:.0f}",
            f"{processor[name] / processor[reference]:.2f}",
        )


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    centres = 2 * rng.normal(size=(K, D))
    X = np.asfortranarray(centres[rng.integers(K, size=N)] + rng.standard_t(5, size=(N, D)))
    engine = InMemory(X, np.full(N, 1 / N))
    floor = Regularisation(1e-9)
    for name in ("full", "diag"):
        families = {label: Elliptical(g, structure_named(name), floor) for label, g in GENERATORS.items()}
        compare(f"n {N}, d {D}, K {K}, {name}", families, engine, centres, "gaussian")
    families = {
        label: Product(g, structure_named("diag"), floor) for label, g in GENERATORS.items() if label != "gaussian"
    }
    families = {"gaussian": Elliptical(Gaussian(), structure_named("diag"), floor), **families}
    compare(f"n {N}, d {D}, K {K}, diag, product form", families, engine, centres, "gaussian")
    families = {name: Elliptical(Gaussian(), structure_named(name), floor) for name in STRUCTURES}
    compare(f"Gaussian, n {N}, d {D}, K {K}, structures", families, engine, centres, "full")
