"""Co-clustering against the floor and others, products, sweeps, fits, memory: ``python tests/benchmarks/blocks.py [NAME ...]``.

Two threads for everybody. The floor of a product is the larger of the time to read the matrix once at the bandwidth measured here,
and of its multiply-adds at the speed of a large matrix product measured here.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

import numpy as np
from run import interleaved, read_bandwidth, row, table
from scipy.sparse import csr_array, random_array
from threadpoolctl import threadpool_limits

from sinkhorn_em import LatentBlockModel, set_num_threads
from sinkhorn_em.block_families import Gaussian, Poisson
from sinkhorn_em.cells.products import times, transposed_times
from sinkhorn_em.coclustering.loop import BlockPhase, SideRule, run_phase, start_states
from sinkhorn_em.datasets import simulate_latent_blocks
from sinkhorn_em.ot import FixedMass, FreeMass

DENSE = [(4600, 500, 7), (4600, 500, 8), (4600, 500, 64), (50_000, 2000, 8)]
SPARSE = [(5000, 2000, 0.1, 8), (5000, 20_000, 0.05, 8), (10_000, 20_000, 0.05, 8), (10_000, 20_000, 0.05, 64)]
COLUMNS = (
    "product",
    "powers",
    "NumPy or SciPy, power 1, ms",
    "ours, ms",
    "NumPy or SciPy / ours",
    "floor, ms",
    "ours / floor",
)


def speed():
    """(GB/s read, multiply-adds a second) of this machine with two threads."""
    A = np.random.default_rng(0).random((1500, 1500))
    return read_bandwidth(), 1500**3 / interleaved(5, product=lambda: A @ A)["product"]


def compare(name, M, q, n_bytes, entries, machine, repetitions=7):
    """Both products of M, power 1 and both powers."""
    rng = np.random.default_rng(1)
    N, T = rng.random((M.shape[1], q)), rng.random((M.shape[0], q))
    for side, ours, theirs, R in (("X N", times, lambda: M @ N, N), ("X' T", transposed_times, lambda: M.T @ T, T)):
        seconds = interleaved(
            repetitions,
            theirs=theirs,
            one=lambda ours=ours, R=R: ours(M, (1,), R),
            both=lambda ours=ours, R=R: ours(M, (1, 2), R),
        )
        for what, powers in (("one", (1,)), ("both", (1, 2))):
            floor = max(n_bytes / machine[0] / 1e9, len(powers) * entries * q / machine[1])
            row(
                f"{name}: {side}", powers, f"{seconds['theirs'] * 1e3:.1f}", f"{seconds[what] * 1e3:.1f}",
                f"{seconds['theirs'] / seconds[what]:.2f}", f"{floor * 1e3:.1f}", f"{seconds[what] / floor:.1f}",
            )  # fmt: skip


def bench_dense():
    """Dense products, float64; of the largest shape float32 too."""
    machine = speed()
    table(f"Dense products (read {machine[0]:.1f} GB/s, {machine[1] / 1e9:.0f} G multiply-adds/s)", *COLUMNS)
    for n, m, q in DENSE:
        X = np.random.default_rng(0).random((n, m))
        compare(f"{n} x {m}, q = {q}", X, q, X.nbytes, X.size, machine)
    X = X.astype(np.float32)
    compare(f"{n} x {m}, q = {q}, float32", X, q, X.nbytes, X.size, machine, 3)


def bench_sparse():
    """CSR products, float32 values and int32 indices."""
    machine = speed()
    table(f"CSR products (read {machine[0]:.1f} GB/s, {machine[1] / 1e9:.0f} G multiply-adds/s)", *COLUMNS)
    for n, m, density, q in SPARSE:
        X = csr_array(random_array((n, m), density=density, format="csr", dtype=np.float32, rng=0))
        n_bytes = X.data.nbytes + X.indices.nbytes
        compare(f"{n} x {m}, {X.nnz / 1e6:.0f} M nonzeros, q = {q}", X, q, n_bytes, X.nnz, machine, 5)


SWEEPS = 20
SHAPE, CLUSTERS = (4600, 500), (7, 8)


def blocks(family="gaussian", shape=SHAPE):
    """A draw with overlapping blocks, so that fits take their time, and starting labels drawn at random."""
    rng = np.random.default_rng(0)
    effects = rng.normal(size=CLUSTERS)
    parameters = 0.15 * effects if family == "gaussian" else np.exp(0.3 * effects)
    X = simulate_latent_blocks(*shape, parameters, family=family, random_state=1).data.astype(float)
    return X, tuple(rng.integers(0, size, n) for size, n in zip(CLUSTERS, shape, strict=True))


def sweeps_of(family, cells, labels, rule):
    """A function that runs SWEEPS sweeps from the labels, and the Newton passes of one step."""
    side = SideRule(rule, learned=False)
    phase = BlockPhase(family, side, side, SWEEPS, tol=-np.inf)
    weights = tuple(np.full(size, 1 / size) for size in CLUSTERS)
    states = start_states(cells, phase, [labels], weights)
    passes = run_phase(cells, phase, states)[0].n_passes / (2 * SWEEPS)
    return lambda: run_phase(cells, phase, states), passes


def bench_sweep():
    """A sweep of SVEM against one of VEM, 4600 x 500 cells in 7 x 8 blocks, and the floor of its products."""
    machine = speed()
    table(
        f"One sweep, {SHAPE[0]} x {SHAPE[1]}, {CLUSTERS[0]} x {CLUSTERS[1]} (mean of {SWEEPS} from a random start)",
        "family", "VEM, ms", "SVEM, ms", "SVEM / VEM", "passes of a SVEM step", "floor of the products, ms", "VEM / floor",
    )  # fmt: skip
    members = {
        "Gaussian, common variance": ("gaussian", Gaussian("common"), 2),
        "Gaussian, variance of a block": ("gaussian", Gaussian("block"), 2),
        "Poisson, both margins": ("poisson", Poisson("both"), 1),
    }
    for name, (law, family, channels) in members.items():
        X, labels = blocks(law)
        cells = family.cells(X, None, family.measure(X, None))
        (vem, _), (svem, passes) = (sweeps_of(family, cells, labels, rule) for rule in (FreeMass(), FixedMass()))
        seconds = interleaved(9, vem=vem, svem=svem)
        ms = {what: value / SWEEPS * 1e3 for what, value in seconds.items()}
        work = channels * X.size * sum(CLUSTERS)
        floor = max(2 * X.nbytes / machine[0] / 1e9, work / machine[1]) * 1e3
        row(
            name, f"{ms['vem']:.1f}", f"{ms['svem']:.1f}", f"{ms['svem'] / ms['vem']:.2f}", f"{passes:.1f}", f"{floor:.1f}",
            f"{ms['vem'] / floor:.1f}",
        )  # fmt: skip


def bench_fit():
    """Full fits of one start, and ten starts side by side."""
    table(
        f"A full fit, {SHAPE[0]} x {SHAPE[1]}, {CLUSTERS[0]} x {CLUSTERS[1]}, start included",
        "family", "fit", "seconds", "sweeps of the best start", "10 starts, seconds", "10 starts / (10 times one)",
    )  # fmt: skip
    held = {"row_weights": "uniform", "column_weights": "uniform"}
    kinds = {"VEM": {"tau": 0.0}, "SVEM, weights held": held, "default (SVEM, then released, and VEM)": {}}
    for law, family in (
        ("gaussian", Gaussian("common")),
        ("gaussian", Gaussian("block")),
        ("poisson", Poisson("both")),
    ):
        X, _ = blocks(law)
        for kind, options in kinds.items():
            models = {
                n: LatentBlockModel(*CLUSTERS, family=family, n_init=n, random_state=0, **options) for n in (1, 10)
            }
            seconds = interleaved(3, one=lambda m=models, X=X: m[1].fit(X), ten=lambda m=models, X=X: m[10].fit(X))
            row(
                family, kind, f"{seconds['one']:.2f}", models[1].n_iter_, f"{seconds['ten']:.2f}",
                f"{seconds['ten'] / (10 * seconds['one']):.2f}",
            )  # fmt: skip


LARGE = """
import resource, sys, time, warnings
import numpy as np
from scipy.sparse import csr_array
from sinkhorn_em import LatentBlockModel, set_num_threads
from sinkhorn_em.block_families import BLOCK_FAMILIES
set_num_threads(2)
name, n, m, density = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
rng = np.random.default_rng(0)
row_labels, column_labels = rng.integers(0, 8, n), np.sort(rng.integers(0, 8, m))
edges = np.searchsorted(column_labels, np.arange(9))
share = np.exp(0.7 * rng.normal(size=(8, 8))) * np.diff(edges)
share /= share.sum(axis=1, keepdims=True)
size = rng.poisson(density * m, n)
indptr = np.concatenate([[0], np.cumsum(size)])
indices = np.empty(indptr[-1], np.int32)
for i in range(n):
    group = rng.choice(8, size[i], p=share[row_labels[i]])
    indices[indptr[i]:indptr[i + 1]] = np.sort((edges[group] + rng.random(size[i]) * np.diff(edges)[group]).astype(np.int32))
X = csr_array((np.ones(len(indices)), indices, indptr), shape=(n, m))
X.sum_duplicates()
if name == "bernoulli":
    X.data[:] = 1
del indices, indptr
def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) / 2**20
warnings.simplefilter("ignore")
small = X[:2000]
LatentBlockModel(8, 8, family=name, max_iter=2).fit(small)  # compiled
open("/proc/self/clear_refs", "w").write("5")  # the peak starts anew
before, start = peak(), time.perf_counter()
model = LatentBlockModel(8, 8, family=name, random_state=0, max_iter=20, tol=1e-6).fit(X)
seconds = time.perf_counter() - start
size = (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / 2**30
print(X.nnz, size, peak() - before, seconds, model.n_iter_, np.isfinite(model.bound_))
"""


def bench_large():
    """Sparse counts, 5 % of the cells, in fresh processes: peak memory above the input, and seconds for each nonzero."""
    table(
        "Sparse counts, 20 000 columns, 5 % nonzero, 8 x 8 blocks, start included",
        "family", "rows", "nonzeros, M", "input, GiB", "peak above it, GiB", "above it / input", "seconds", "ns a nonzero",
    )  # fmt: skip
    for name in ("poisson", "bernoulli", "negative_binomial"):
        for n in (12_500, 25_000, 50_000):
            call = [sys.executable, "-c", LARGE, name, str(n), "20000", "0.05"]
            out = subprocess.run(call, capture_output=True, text=True, check=True).stdout.split()
            nonzeros, size, above, seconds = (float(value) for value in out[:4])
            row(
                name, n, f"{nonzeros / 1e6:.1f}", f"{size:.2f}", f"{above:.2f}", f"{above / size:.1f}", f"{seconds:.0f}",
                f"{seconds / nonzeros * 1e9:.0f}",
            )  # fmt: skip


BENCHMARKS = {
    "dense": bench_dense,
    "sparse": bench_sparse,
    "sweep": bench_sweep,
    "fit": bench_fit,
    "large": bench_large,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", choices=[*BENCHMARKS, []], help="default: all")
    set_num_threads(2)
    with threadpool_limits(2):
        for name in parser.parse_args().names or BENCHMARKS:
            BENCHMARKS[name]()
