"""Speed and memory against scikit-learn and POT, side by side in one run: ``python tests/benchmarks/run.py [NAME ...]``.

Machines are noisy: every figure is the median of interleaved repetitions, and ratios are what counts. Nothing here is a test.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np

RUN = 8  # passes in a group
PAUSE = 0.2  # seconds: the threads of the last task's BLAS spin for a while after it
SHAPES = [(100_000, 16, 16), (200_000, 10, 10), (1_000_000, 8, 8)]


def interleaved(repetitions, **tasks):
    """Median seconds of each task, run in turn after one warm-up each."""
    for task in tasks.values():
        task()
    seconds = {name: [] for name in tasks}
    for _ in range(repetitions):
        for name, task in tasks.items():
            time.sleep(PAUSE)
            start = time.perf_counter()
            task()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def table(title, *head):
    print(f"\n### {title}\n")
    row(*head)
    row(*["---"] * len(head))


def read_bandwidth():
    """GB/s of summing an array with two threads."""
    a = np.ones(40_000_000)
    halves = np.array_split(a, 2)
    with ThreadPoolExecutor(2) as pool:
        seconds = interleaved(7, read=lambda: list(pool.map(np.sum, halves)))["read"]
    return a.nbytes / seconds / 1e9


def bench_pass():
    """One fused pass, n = 400 000: groups of back-to-back passes, as a solver makes them."""
    from sinkhorn_em.ot.kernel import evaluate

    bandwidth = read_bandwidth()
    table(
        f"One fused pass, n = 400 000, 2 threads (read bandwidth here: {bandwidth:.1f} GB/s)",
        "K", "value and masses, ns/entry", "with Gram, ns/entry", "GB/s", "share of bandwidth", "float32 scores, ns/entry",
        "NumPy + scipy.special.logsumexp, ns/entry",
    )  # fmt: skip
    from scipy.special import logsumexp

    for K in (10, 50):
        n = 400_000
        scores = (np.random.default_rng(0).normal(size=(K, n)) * 5).T
        single = np.asfortranarray(scores.astype(np.float32))
        mass, offset = np.full(n, 1 / n), np.zeros(K)

        def numpy_pass(scores=scores, offset=offset, mass=mass):
            Z = scores + offset
            lse = logsumexp(Z, axis=1)
            return mass @ lse, mass @ np.exp(Z - lse[:, None])

        t = interleaved(
            9,
            plain=lambda: [evaluate(scores, mass, offset, 0.0) for _ in range(RUN)],
            gram=lambda: [evaluate(scores, mass, offset, 1.0) for _ in range(RUN)],
            single=lambda: [evaluate(single, mass, offset, 0.0) for _ in range(RUN)],
            numpy=numpy_pass,
        )
        t = {name: s if name == "numpy" else s / RUN for name, s in t.items()}
        ns = {name: s / scores.size * 1e9 for name, s in t.items()}
        speed = scores.nbytes / t["plain"] / 1e9
        row(
            K, f"{ns['plain']:.2f}", f"{ns['gram']:.2f}", f"{speed:.1f}", f"{speed / bandwidth:.0%}",
            f"{ns['single']:.2f}", f"{ns['numpy']:.1f}",
        )  # fmt: skip


def bench_estep():
    """E-step to 1e-9 at n = 200 000, K = 10, against POT."""
    import ot

    from sinkhorn_em import solve_plan

    table(
        "E-step to an L1 marginal error of 1e-9, n = 200 000, K = 10",
        "separation", "ours, s", "passes", "ot.sinkhorn, s", "ratio", "sinkhorn_log, s", "ratio", "sinkhorn_stabilized, s", "ratio",
    )  # fmt: skip
    for separation in (2.0, 3.0, 4.0):
        rng = np.random.default_rng(0)
        K, n = 10, 200_000
        centres = rng.normal(size=(K, 2)) * separation
        X = centres[rng.choice(K, n, p=rng.dirichlet(np.full(K, 5.0)))] + rng.normal(size=(n, 2))
        cost = 0.5 * ((X[:, None] - centres) ** 2).sum(-1)
        scores = np.asfortranarray(-cost)
        a, b = np.full(n, 1 / n), np.full(K, 1 / K)
        ours = interleaved(3, ours=lambda: solve_plan(scores, a, b))["ours"]
        plan = solve_plan(scores, a, b)
        cells = []
        for method in ("sinkhorn", "sinkhorn_log", "sinkhorn_stabilized"):
            P, seconds = _pot(ot, method, a, b, cost)
            error = np.abs(P.sum(axis=0) - b).sum() + np.abs(P.sum(axis=1) - a).sum()
            note = "" if error < 1e-8 else f" (stopped at error {error:.0e})"
            cells += [f"{seconds:.2f}{note}", f"{seconds / ours:.0f}"]
        row(separation, f"{ours:.4f}", plan.n_passes, *cells)


def _pot(ot, method, a, b, cost):
    """POT checks the L2 error of one marginal: 1e-10 there is about 1e-9 in L1."""
    limit = {"sinkhorn": 20_000, "sinkhorn_log": 400, "sinkhorn_stabilized": 20_000}[method]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        P = ot.sinkhorn(a, b, cost, 1.0, method=method, stopThr=3e-10, numItermax=limit)
        return P, time.perf_counter() - start


def mixture_data(n, d, K, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(K, d)) * 1.5
    return centres[rng.integers(0, K, n)] + rng.normal(size=(n, d)), centres


def bench_iteration():
    """One EM iteration: ours at tau 0 and 1, scikit-learn's."""
    from sklearn.mixture import GaussianMixture

    from sinkhorn_em.em import Phase, State, run_phase
    from sinkhorn_em.engines import InMemory
    from sinkhorn_em.families import Elliptical, Gaussian
    from sinkhorn_em.families.covariances import STRUCTURES, Regularisation
    from sinkhorn_em.ot import FixedMass, FreeMass

    table(
        "One EM iteration (median over 10 after 5 of warm-up), milliseconds",
        "n, d, K", "covariance", "tau 0", "tau 1, warm", "tau 1 / tau 0", "passes per E-step", "scikit-learn",
        "scikit-learn / tau 1", "floor, ms", "tau 1 / floor",
    )  # fmt: skip
    for n, d, K in SHAPES:
        X, centres = mixture_data(n, d, K)
        Z = np.ascontiguousarray(X.T).T
        rng = np.random.default_rng(1)
        for covariance in ("full", "diag"):
            family = Elliptical(Gaussian(), STRUCTURES[covariance](), Regularisation(1e-9))
            engine = InMemory(Z, np.full(n, 1 / n))
            start = family.start(K, d)._replace(means=centres + 0.3 * rng.normal(size=(K, d)))
            stamps: dict[str, list[float]] = {"free": [], "fixed": []}
            passes = 0
            for name, rule in (("free", FreeMass()), ("fixed", FixedMass())):
                warm = run_phase(
                    engine, Phase(family, rule, False, 5, 0.0), State(start, np.full(K, 1 / K), np.zeros(K))
                )
                fit = run_phase(
                    engine,
                    Phase(family, rule, False, 10, 0.0),
                    warm.state,
                    lambda i, bound, name=name: stamps[name].append(time.perf_counter()),
                )
                passes = fit.n_passes / (fit.n_iter + 1)
            ms = {name: statistics.median(np.diff(s)) * 1e3 for name, s in stamps.items()}
            theirs = GaussianMixture(K, covariance_type=covariance)
            theirs._initialize(X, np.full((n, K), 1 / K))
            seconds = []
            for _ in range(3):
                time.sleep(PAUSE)
                begin = time.perf_counter()
                theirs._m_step(X, theirs._e_step(X)[1])
                seconds.append(time.perf_counter() - begin)
            sk = statistics.median(seconds) * 1e3
            floor = _floor_ms(n, d, K, covariance)
            row(
                f"{n}, {d}, {K}", covariance, f"{ms['free']:.1f}", f"{ms['fixed']:.1f}", f"{ms['fixed'] / ms['free']:.2f}",
                f"{passes:.1f}", f"{sk:.0f}", f"{sk / ms['fixed']:.1f}", f"{floor:.1f}", f"{ms['fixed'] / floor:.1f}",
            )  # fmt: skip


def _floor_ms(n, d, K, covariance, gfma=40.0, ns_exp=0.9):
    """Fused multiply-adds of densities and moments at the peak of two AVX2 cores (40 G/s), plus three exponentials per entry."""
    per_entry = d * (d + 1) + 2 * d if covariance == "full" else 5 * d
    return (n * K * per_entry / gfma + n * K * 3 * ns_exp) * 1e-6


_PEAK = """
import sys, numpy as np
sys.path.insert(0, {root!r})
from {module} import GaussianMixture
import warnings; warnings.simplefilter("ignore")
n, d, K = {shape}
rng = np.random.default_rng(0)
X = rng.normal(size=(n, d)); X += rng.integers(0, K, size=(n, 1))
small = X[:2000].copy(); GaussianMixture(K, random_state=0, max_iter=2).fit(small)
def peak():  # of this process image; ru_maxrss would start at the parent's
    return int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
before = peak()
GaussianMixture(K, random_state=0, max_iter=2, **{options}).fit(X)
print((peak() - before) / 1024)
"""


def bench_memory():
    """Peak memory of a fit above its input, in fresh processes."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    table(
        "Peak memory of a fit above its input, MiB", "n, d, K", "input", "ours", "scikit-learn", "ours / scikit-learn"
    )
    for shape in SHAPES:
        peak = {}
        for module, options in (("sinkhorn_em", {}), ("sklearn.mixture", {"init_params": "random_from_data"})):
            code = _PEAK.format(
                root=root, module=module, shape=shape, options={"init_params": "random_from_data", **options}
            )
            out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
            peak[module] = float(out)
        ours, theirs = peak["sinkhorn_em"], peak["sklearn.mixture"]
        row(
            ", ".join(map(str, shape)),
            f"{shape[0] * shape[1] * 8 / 2**20:.0f}",
            f"{ours:.0f}",
            f"{theirs:.0f}",
            f"{ours / theirs:.2f}",
        )


def bench_small():
    """Whole fits of iris, K = 3."""
    import sklearn.mixture
    from sklearn.datasets import load_iris

    from sinkhorn_em import GaussianMixture

    X = load_iris().data
    table(
        "Fit of iris (150 x 4), K = 3, milliseconds, medians over 15 seeds",
        "covariance", "default", "scikit-learn, default", "ratio", "median gain, nats", "tau 0, tol 1e-3", "ratio",
    )  # fmt: skip
    for covariance in ("full", "tied", "diag"):
        counters = dict.fromkeys(("ours", "em", "theirs"), 0)

        def fit(name, make, covariance=covariance, counters=counters):
            counters[name] += 1
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return make(3, covariance_type=covariance, random_state=counters[name])

        t = interleaved(
            15,
            ours=lambda: fit("ours", GaussianMixture).fit(X),
            em=lambda: fit("em", lambda *a, **k: GaussianMixture(*a, tau=0, tol=1e-3, **k)).fit(X),
            theirs=lambda: fit("theirs", sklearn.mixture.GaussianMixture).fit(X),
        )
        gains = [
            150 * (GaussianMixture(3, covariance_type=covariance, random_state=s).fit(X).score(X)
            - sklearn.mixture.GaussianMixture(3, covariance_type=covariance, random_state=s).fit(X).score(X))
            for s in range(15)
        ]  # fmt: skip
        row(
            covariance, f"{t['ours'] * 1e3:.1f}", f"{t['theirs'] * 1e3:.1f}", f"{t['ours'] / t['theirs']:.2f}",
            f"{statistics.median(gains):.2f}", f"{t['em'] * 1e3:.1f}", f"{t['em'] / t['theirs']:.2f}",
        )  # fmt: skip


def bench_start():
    """Import, first fit with a warm and a cold kernel cache."""

    def seconds(code, **environment):
        out = subprocess.run(
            [sys.executable, "-c", "import time; t = time.perf_counter()\n" + code],
            capture_output=True, text=True, check=True, env={**os.environ, **environment},
        )  # fmt: skip
        return [float(x) for x in out.stdout.split()]

    stop = "\nprint(time.perf_counter() - t)"
    t = {"ours": [], "theirs": []}
    for _ in range(6):
        t["ours"] += seconds("import sinkhorn_em" + stop)
        t["theirs"] += seconds("import sklearn.mixture" + stop)
    ours, theirs = (statistics.median(t[name][1:]) for name in ("ours", "theirs"))
    table("Start-up, seconds", "what", "seconds")
    row("import sinkhorn_em", f"{ours:.2f}")
    row("import sklearn.mixture", f"{theirs:.2f} (ratio {ours / theirs:.2f})")
    fits = (
        "from sinkhorn_em import GaussianMixture\nfrom sklearn.datasets import load_iris\nX = load_iris().data\n"
        "for _ in range(2):\n    t = time.perf_counter()\n    GaussianMixture(3, random_state=0).fit(X)\n"
        "    print(time.perf_counter() - t)"
    )
    with tempfile.TemporaryDirectory() as cache:
        cold = seconds(fits, NUMBA_CACHE_DIR=cache)
        warm = seconds(fits, NUMBA_CACHE_DIR=cache)
    row("first fit, cold kernel cache (compiles, once per installation)", f"{cold[0]:.2f}")
    row("first fit in a fresh process, warm cache", f"{warm[0]:.2f}")
    row("second fit", f"{warm[1]:.2f}")
    code = "import sinkhorn_em, sys\nprint(sum(m in sys.modules for m in ('torch', 'dask', 'matplotlib', 'ot')))"
    row("torch, dask, matplotlib or POT imported", int(seconds(code)[0]))


def bench_large_k():
    """Above K = 64 the Gram matrix dominates: Newton against L-BFGS in K numbers, which needs none."""
    from scipy.optimize import minimize

    from sinkhorn_em import solve_plan
    from sinkhorn_em.ot.kernel import evaluate

    table(
        "Many columns, n = 100 000: solve to 1e-8",
        "K",
        "Newton, s",
        "passes",
        "L-BFGS, s",
        "passes",
        "error",
        "L-BFGS / Newton",
    )
    for K in (64, 128, 256, 512, 1000):
        rng = np.random.default_rng(0)
        n = 100_000
        centres = rng.normal(size=(K, 8)) * 1.5
        X = centres[rng.integers(0, K, n)] + rng.normal(size=(n, 8))
        scores = np.asfortranarray(X @ centres.T - 0.5 * (centres**2).sum(axis=1))
        b, mass = np.full(K, 1 / K), np.full(n, 1 / n)
        start = time.perf_counter()
        plan = solve_plan(scores, tol=1e-8)
        newton = time.perf_counter() - start
        last = {}

        def semidual(g, scores=scores, b=b, mass=mass, last=last):
            e = evaluate(scores, mass, np.log(b) + g, 0.0)
            last["error"] = np.abs(e.mass - b).sum()
            return K * (e.value - b @ g), K * (e.mass - b)

        start = time.perf_counter()
        options = {"ftol": 0, "gtol": 1e-8, "maxfun": 500, "maxiter": 500, "maxcor": 20}
        result = minimize(semidual, np.zeros(K), jac=True, method="L-BFGS-B", options=options)
        lbfgs = time.perf_counter() - start
        row(
            K,
            f"{newton:.2f}",
            plan.n_passes,
            f"{lbfgs:.2f}",
            result.nfev,
            f"{last['error']:.0e}",
            f"{lbfgs / newton:.1f}",
        )


BENCHMARKS = {
    "pass": bench_pass,
    "estep": bench_estep,
    "iteration": bench_iteration,
    "memory": bench_memory,
    "small": bench_small,
    "start": bench_start,
    "large_k": bench_large_k,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", choices=[*BENCHMARKS, []], help="default: all")
    for name in parser.parse_args().names or BENCHMARKS:
        BENCHMARKS[name]()
