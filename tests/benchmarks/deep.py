"""The transport loss against a training step, unrolling and others: ``python tests/benchmarks/deep.py [NAME ...]``.

As many threads for everybody. What is compared is timed in turns, so that a busy machine is busy for all; the spread is that of the
ratio over the turns. On a machine that others use, one thread: threads that wait for each other at every layer slow the network
down more than the loss.
"""

from __future__ import annotations

import argparse
import time
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from run import read_bandwidth, row, table
from torch import nn

from sinkhorn_em import set_num_threads
from sinkhorn_em.deep import DeepTransportClustering, Options, TransportLoss, transport_loss
from sinkhorn_em.deep.networks import build as build_network
from sinkhorn_em.deep.objective import clustering_loss
from sinkhorn_em.deep.state import new_state
from sinkhorn_em.metrics import clustering_accuracy
from sinkhorn_em.ot.kernel import evaluate

SHAPES = [(300, 10), (4096, 1000)]  # rows of a batch, columns
N_CODES, N_BATCHES = 10, 4
EPSILON = 0.05  # of the mean cost
WIDTHS = (784, 500, 250, N_CODES, 250, 500, 784)


def autoencoder():
    """784-500-250-10 and back, and Adam."""
    layers = []
    for i, (one, two) in enumerate(pairwise(WIDTHS)):
        layers += [nn.Linear(one, two)] + ([nn.ReLU()] if i not in (2, 5) else [])
    network = nn.Sequential(*layers)
    return network, torch.optim.Adam(network.parameters(), 1e-3)


def codes(m, K):
    """Codes (m, 10) about K centres, and the centres, as batches of one training: no batch comes twice in a row."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(K, N_CODES, generator=generator)
    for _ in range(N_BATCHES):
        labels = torch.randint(K, (m,), generator=generator)
        yield centres[labels] + 0.5 * torch.randn(m, N_CODES, generator=generator), centres


def batches(m, K, dtype=torch.float32):
    """Their squared distances."""
    for z, centres in codes(m, K):
        yield torch.cdist(z.to(dtype), centres.to(dtype)).square().requires_grad_()


def turns(repetitions, **functions):
    """Seconds of each function in each turn, {name: (repetitions,)}; the first turn does not count."""
    seconds = {name: [] for name in functions}
    for turn in range(repetitions + 1):
        for name, function in functions.items():
            start = time.perf_counter()
            function(turn)
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return {name: np.array(values) for name, values in seconds.items()}


def spread(values, digits=2):
    """Median and quartiles."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return f"{middle:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def saved_bytes(call):
    """Bytes that the graph of a loss keeps for its backward pass, each storage once."""
    kept = {}

    def pack(x):
        kept[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        value = call()
    value.backward()
    return sum(kept.values())


def speeds():
    """(exponentials a second in a pass, multiply-adds a second in float32) of this machine."""
    S, A = np.zeros((4096, 1000), np.float32), torch.rand(2000, 2000)
    a, offset = np.full(4096, 1 / 4096), np.zeros(1000)
    best = turns(5, one_pass=lambda _: evaluate(S, a, offset, 0.0), product=lambda _: A @ A)
    return S.size / best["one_pass"].min(), 2000**3 / best["product"].min()


def bench_step():
    """Loss, forward and backward, as a share of a plain autoencoder step."""
    exponentials, products = speeds()
    table(
        f"Transport loss in a training step (one pass: {exponentials / 1e6:.0f} M exponentials/s, {products / 1e9:.0f} G "
        f"multiply-adds/s, read {read_bandwidth():.1f} GB/s)",
        "m x K", "tol", "autoencoder step, ms", "loss, ms", "loss / step", "passes", "floor of the passes, ms",
        "floor of the step, ms",
    )  # fmt: skip
    for m, K in SHAPES:
        network, adam = autoencoder()
        x, costs = torch.rand(m, 784), list(batches(m, K))
        weights = sum(one * two for one, two in pairwise(WIDTHS))
        for tol in (1e-6, 1e-3):
            loss, passes = TransportLoss(K, tol=tol), []

            def step(_, x=x, network=network, adam=adam):
                adam.zero_grad()
                (network(x) - x).square().sum(1).mean().backward()
                adam.step()

            def transport(turn, loss=loss, costs=costs, passes=passes):
                loss(costs[turn % N_BATCHES]).backward()
                passes.append(int(loss.result.n_passes))

            seconds = turns(40 if m < 1000 else 6, step=step, transport=transport)
            mean = np.mean(passes[1:])
            row(
                f"{m} x {K}", tol, spread(seconds["step"] * 1e3, 1), spread(seconds["transport"] * 1e3, 1),
                spread(seconds["transport"] / seconds["step"]), f"{mean:.1f}",
                f"{(mean + 1) * m * K / exponentials * 1e3:.2f}", f"{3 * weights * m / products * 1e3:.0f}",
            )  # fmt: skip


def iterations_for(C, residual, most):
    """Scaling iterations after which the residual is as small, doubled until it is; None if it never is."""
    T = 4
    while most >= T:
        with torch.no_grad():
            if transport_loss(C, epsilon=EPSILON, gradient="unrolled", iterations=T).marginal_error <= residual:
                return T
        T *= 2
    return None


def high_water():
    """The most memory that this process has had, MB (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e3


def peak(options, m, K, queue):
    """By how much the memory of a new process grows, at its largest, in forward and backward, MB."""
    torch.set_num_threads(1)
    C = next(batches(m, K, torch.float64))
    transport_loss(C[:50], epsilon=EPSILON).value.backward()  # what the first call loads
    before = high_water()
    transport_loss(C, epsilon=EPSILON, **options).value.backward()
    queue.put(high_water() - before)


def peaks(m, K, kinds):
    """Of each kind, in a process of its own."""
    context, found = torch.multiprocessing.get_context("spawn"), []
    for options in kinds.values():
        queue = context.SimpleQueue()
        process = context.Process(target=peak, args=(options, m, K, queue))
        process.start()
        found.append(queue.get())
        process.join()
    return found


def bench_unrolled():
    """Envelope against unrolled scaling iterations at the same residual, float64."""
    table(
        f"Envelope against unrolling, epsilon {EPSILON} of the mean cost, float64, residual as asked for",
        "m x K", "residual", "iterations", "envelope, ms", "unrolled, ms", "unrolled / envelope", "envelope keeps, MB",
        "unrolled keeps, MB", "ratio", "peak, envelope, MB", "peak, unrolled, MB",
    )  # fmt: skip
    for (m, K), residual in (
        (SHAPES[0], 1e-4),
        (SHAPES[0], 1e-8),
        ((1024, 100), 1e-4),
        (SHAPES[1], 1e-3),
        (SHAPES[1], 1e-4),
    ):
        C = next(batches(m, K, torch.float64))
        T = iterations_for(C, residual, 2048)
        if T is None:
            row(f"{m} x {K}", residual, "> 2048", *["-"] * 8)
            continue
        kinds = {"envelope": {"tol": residual}, "unrolled": {"gradient": "unrolled", "iterations": T}}

        def call(options, C=C):
            return transport_loss(C, epsilon=EPSILON, **options).value

        seconds = turns(3, **{kind: lambda _, o=options: call(o).backward() for kind, options in kinds.items()})
        kept = [saved_bytes(lambda o=options: call(o)) / 1e6 for options in kinds.values()]
        row(
            f"{m} x {K}", residual, T, *(spread(seconds[kind] * 1e3, 1) for kind in kinds),
            spread(seconds["unrolled"] / seconds["envelope"], 1), *(f"{x:.2f}" for x in kept), f"{kept[1] / kept[0]:.0f}",
            *(f"{x:.0f}" for x in peaks(m, K, kinds)),
        )  # fmt: skip


def others(C, epsilon, most):
    """{name: function of nothing that gives (value, residual)} of POT and GeomLoss on the same problem, cold, float64."""
    import geomloss
    import ot

    m, K = C.shape
    a, b = torch.full((m,), 1 / m, dtype=C.dtype), torch.full((K,), 1 / K, dtype=C.dtype)

    def pot(method, differentiated):
        def call():
            M = C if differentiated else C.detach()
            P = ot.sinkhorn(a, b, M, epsilon, method=method, numItermax=most, stopThr=1e-9)
            value = (P * M).sum()
            if differentiated:
                value.backward()
            return (P.detach().sum(0) - b).abs().sum()

        return call

    def geom(scaling):
        z, centres = (x.to(C.dtype) for x in next(codes(m, K)))
        loss = geomloss.SamplesLoss(
            p=2, blur=epsilon**0.5, debias=False, potentials=True, backend="tensorized", scaling=scaling
        )
        f, g = loss(a, 2**0.5 * z, b, 2**0.5 * centres)  # its cost is half the squared distance, epsilon is blur^2
        P = a[:, None] * b * torch.exp((f.view(-1, 1) + g.view(1, -1) - C.detach()) / epsilon)
        return (P.sum(0) - b).abs().sum()

    return {
        "POT sinkhorn, plan only": pot("sinkhorn", False),
        "POT sinkhorn, differentiated": pot("sinkhorn", True),
        "POT sinkhorn_log, plan only": pot("sinkhorn_log", False),
        "GeomLoss, scaling 0.9": lambda: geom(0.9),
        "GeomLoss, scaling 0.99": lambda: geom(0.99),
    }


def bench_others():
    """POT and GeomLoss on the same problem, float64, and the residuals that they reach."""
    table(
        f"Against POT and GeomLoss, 300 x 10, epsilon {EPSILON} of the mean cost, float64, cold starts",
        "what", "ms", "times ours", "residual of the column masses",
    )  # fmt: skip
    C = next(batches(*SHAPES[0], torch.float64))
    ours = transport_loss(C, epsilon=EPSILON)
    epsilon = ours.epsilon.item()

    def own(_):
        transport_loss(C, epsilon=EPSILON).value.backward()

    row("ours, forward and backward", spread(turns(20, own=own)["own"] * 1e3), "1", f"{ours.marginal_error:.1e}")
    for name, call in others(C, epsilon, 1000).items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                residual = float(call())
                seconds = turns(5, own=own, other=lambda _, call=call: call())
        except Exception as error:  # another package's limits are reported, too
            row(name, "-", "-", f"{type(error).__name__}: {error}"[:80])
            continue
        row(name, spread(seconds["other"] * 1e3, 1), spread(seconds["other"] / seconds["own"], 1), f"{residual:.1e}")


def bench_shared():
    """The clustering term of a training with potentials of every batch, and with shared ones: one pass, and no solve."""
    table("Clustering term with shared potentials", "m x K", "autoencoder step, ms", "batch / step", "global / step")
    for m, K in SHAPES:
        network, adam = autoencoder()
        x, given = torch.rand(m, 784), list(codes(m, K))
        states = {
            dual: (
                options := Options(K, dual=dual),
                new_state([build_network("identity", (N_CODES,), N_CODES)], (N_CODES,), options, torch.device("cpu")),
            )
            for dual in ("batch", "global")
        }

        def step(_, x=x, network=network, adam=adam):
            adam.zero_grad()
            (network(x) - x).square().sum(1).mean().backward()
            adam.step()

        def term(dual, turn, given=given, states=states):
            options, state = states[dual]
            z, centres = given[turn % N_BATCHES]
            state.centres.data[0] = centres
            terms = clustering_loss(z[None].clone().requires_grad_(), state, options, 0)
            terms.value.sum().backward()
            state.potentials = terms.potentials

        arms = {"batch": lambda turn: term("batch", turn), "global": lambda turn: term("global", turn)}
        seconds = turns(40 if m < 1000 else 6, step=step, **arms)
        ratios = (spread(seconds[dual] / seconds["step"]) for dual in states)
        row(f"{m} x {K}", spread(seconds["step"] * 1e3, 1), *ratios)


def bench_embeddings():
    """Rows a second of the estimator on precomputed embeddings."""
    table("Embeddings, 20 000 x 64, 20 clusters", "encoder", "training, rows/s", "predict, rows/s", "accuracy")
    rng = np.random.default_rng(0)
    y = rng.integers(20, size=20_000)
    X = (2 * rng.normal(size=(20, 64))[y] + rng.normal(size=(len(y), 64))).astype(np.float32)
    for encoder in ("identity", "linear", "cosine"):
        options = {
            "encoder": encoder,
            "n_codes": 32,
            "pretrain_epochs": 0,
            "epochs": 3,
            "device": "cpu",
            "random_state": 0,
        }
        model = DeepTransportClustering(20, **options)
        start = time.perf_counter()
        model.fit(X)
        middle = time.perf_counter()
        labels = model.predict(X)
        end = time.perf_counter()
        row(
            encoder,
            f"{3 * len(X) / (middle - start):.0f}",
            f"{len(X) / (end - middle):.0f}",
            f"{clustering_accuracy(y, labels):.3f}",
        )


BENCHMARKS = {
    "step": bench_step,
    "shared": bench_shared,
    "unrolled": bench_unrolled,
    "others": bench_others,
    "embeddings": bench_embeddings,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", choices=[*BENCHMARKS, []], help="default: all")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    set_num_threads(arguments.threads)
    torch.set_num_threads(arguments.threads)
    for name in arguments.names or BENCHMARKS:
        BENCHMARKS[name]()
