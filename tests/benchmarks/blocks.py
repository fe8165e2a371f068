"""Products of a co-clustering sweep against NumPy's, SciPy's and the floor: ``python tests/benchmarks/blocks.py [NAME ...]``.

Two threads for everybody. The floor of a product is the larger of the time to read the matrix once at the bandwidth measured here,
and of its multiply-adds at the speed of a large matrix product measured here.
"""

from __future__ import annotations

import argparse

import numpy as np
from run import interleaved, read_bandwidth, row, table
from scipy.sparse import csr_array, random_array
from threadpoolctl import threadpool_limits

from sinkhorn_em import set_num_threads
from sinkhorn_em.cells.products import times, transposed_times

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


BENCHMARKS = {"dense": bench_dense, "sparse": bench_sparse}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", choices=[*BENCHMARKS, []], help="default: all")
    set_num_threads(2)
    with threadpool_limits(2):
        for name in parser.parse_args().names or BENCHMARKS:
            BENCHMARKS[name]()
