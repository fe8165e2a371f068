"""Rows spread over 1, 2 and 4 processes (gloo): the plan, the derivatives and the step of a single process."""

import os
import signal
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.multiprocessing as mp  # noqa: E402

from sinkhorn_em.deep import DeepTransportClustering, transport_loss  # noqa: E402
from sinkhorn_em.deep.distributed import row_share, sum_gradients, sum_over_processes  # noqa: E402
from sinkhorn_em.ot import BoundedMass, RelaxedMass, VirtualColumn  # noqa: E402

if not torch.distributed.is_available():
    pytest.skip("this torch was built without torch.distributed", allow_module_level=True)

N, K = 23, 4


class Rows(torch.utils.data.Dataset):
    """Rows by number."""

    def __init__(self, X):
        self.X = X

    def __len__(self):
        return len(self.X)

    def __getitem__(self, i):
        return self.X[i]


EDGES = {1: [0, 23], 2: [0, 21, 23], 4: [0, 5, 6, 20, 23]}  # uneven: some processes hold fewer rows than columns
CASES = {
    "fixed": {},
    "KL, weighted rows": {"rule": RelaxedMass(0.6), "row_mass": True},
    "bounds, absolute epsilon": {"rule": BoundedMass(0.2, 0.3), "epsilon": 0.4, "epsilon_mode": "absolute"},
    "virtual column, forbidden pairs": {"rule": VirtualColumn(0.2), "forbidden": True},
    "fixed, implicit": {"value": "sharp", "gradient": "implicit"},
    "KL, implicit": {"rule": RelaxedMass(0.6), "gradient": "implicit"},
}


def problem(name):
    """Costs, logits of the weights, row masses (or None) and options of a case."""
    rng, options = np.random.default_rng(5), dict(CASES[name])
    C = torch.tensor(rng.random((N, K)))
    mass = torch.tensor(rng.random(N)) if options.pop("row_mass", False) else None
    if options.pop("forbidden", False):
        C[:3, 1] = torch.inf
    return C.requires_grad_(), torch.tensor(rng.normal(size=K), requires_grad=True), mass, {**options, "tol": 1e-12}


def solved(name, rows, reduction=None):
    """Value, potentials, plan's derivatives and what is reported, for the ``rows`` of a case."""
    C, logits, mass, options = problem(name)
    mass = None if mass is None else mass[rows]
    result = transport_loss(C[rows], torch.softmax(logits, 0), row_mass=mass, reduction=reduction, **options)
    result.value.backward()
    reported = torch.stack([result.marginal_error, result.n_passes, result.plan_entropy, result.epsilon])
    return result.value.detach(), result.potentials, result.column_mass, C.grad, logits.grad, reported


def step(rows, reduction=None):
    """Gradients of one training step: a mean over rows, and a transport loss, of a linear encoder."""
    torch.manual_seed(0)
    net, unused = torch.nn.Linear(5, 2).double(), torch.nn.Linear(2, 2).double()
    x, centres = torch.randn(N, 5, dtype=torch.float64), torch.randn(K, 2, dtype=torch.float64)
    z = net(x[rows])
    loss = z.square().sum(1).mean() * (1 if reduction is None else row_share(len(z), reduction))
    (loss + transport_loss(torch.cdist(z, centres).square(), tol=1e-12, reduction=reduction).value).backward()
    if reduction is not None:
        sum_gradients(torch.nn.ModuleList([net, unused]))
    assert unused.weight.grad is None
    return net.weight.grad, net.bias.grad


def training(rows, distributed):
    """Centres, labels and history of an estimator that saw these rows: all of them are one batch."""
    X = np.random.default_rng(3).normal(size=(N, 5)) + 3 * np.eye(5)[np.arange(N) % 3]
    model = DeepTransportClustering(
        3, n_codes=2, pretrain_epochs=2, epochs=3, batch_size=N, weights=[0.5, 0.3, 0.2], random_state=0, device="cpu",
        distributed=distributed,
    )  # fmt: skip
    model.fit(X[rows])
    history = model.history_.select_dtypes("number").to_numpy()
    return tuple(torch.tensor(x) for x in (model.cluster_centers_, model.potentials_, model.labels_, history))


def uneven(rank, size, folder):
    """Epochs of several batches over uneven parts, stopped by a single process, gone on with; a share that is too small."""
    edges = {1: [0, N], 2: [0, N - 6, N], 4: [0, N - 9, N - 6, N - 3, N]}[size]
    X = np.random.default_rng(3).normal(size=(N, 5)) + 3 * np.eye(5)[np.arange(N) % 3]
    rows = Rows(X[slice(*edges[rank : rank + 2])])
    options = {"n_codes": 2, "pretrain_epochs": 2, "epochs": 3, "batch_size": 8, "random_state": 0, "distributed": True}
    stop = [lambda model, row: rank == size - 1 and row["phase"] == "cluster" and row["epoch"] == 2]
    halted = DeepTransportClustering(3, device="cpu", callbacks=stop, checkpoint_dir=f"{folder}/runs", **options).fit(
        rows
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that it was stopped
        again = DeepTransportClustering(3, device="cpu", checkpoint_dir=f"{folder}/runs", **options).fit(rows)
    try:
        DeepTransportClustering(3, device="cpu", **options).fit(X if rank else X[:1])
        message = ""
    except (ValueError, RuntimeError) as error:
        message = str(error)
    return halted.n_iter_, again.n_iter_, torch.tensor(halted.cluster_centers_), message


def refusals(rank, size, reduction):
    """Messages of the errors that every process gets when the rows of the last one are bad."""
    C = torch.ones(3, K)
    if rank == size - 1:
        C[0, 0] = torch.nan
    messages = []
    for options in ({}, {"gradient": "implicit"}):
        try:
            transport_loss(C, reduction=reduction, **options)
        except (ValueError, RuntimeError) as error:
            messages.append(str(error))
    return messages


def work(rank, size, folder):
    """One process: everything it finds is left in a file."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=size)
    reduction = sum_over_processes()
    rows = slice(*EDGES[size][rank : rank + 2])
    found = {name: solved(name, rows, reduction) for name in CASES}
    results = (
        found,
        step(rows, reduction),
        refusals(rank, size, reduction),
        training(rows, True),
        uneven(rank, size, folder),
    )
    torch.save(results, f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


def start(size, folder):
    """Processes forked from a server that has imported torch and this package once."""
    if size == 1:
        return work(0, 1, folder)
    mp.get_context("forkserver").set_forkserver_preload(["torch", "sinkhorn_em.deep"])
    mp.start_processes(work, (size, folder), nprocs=size, start_method="forkserver")


@pytest.fixture
def n_threads():
    """What processes of one thread leave behind is put back."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("size", EDGES)
@pytest.mark.usefixtures("n_threads")
def test_several_processes_do_what_one_does(size, tmp_path):
    start(size, str(tmp_path))
    parts = [torch.load(tmp_path / f"{rank}.pt") for rank in range(size)]
    for name in CASES:
        value, g, c, of_cost, of_logits, reported = solved(name, slice(None))
        found = [part[0][name] for part in parts]
        for _, potentials, mass, _, _, said in found:
            assert torch.equal(potentials, found[0][1])  # the same bits: all stop at the same pass
            assert torch.equal(said, found[0][5])
            torch.testing.assert_close(potentials, g, rtol=0, atol=1e-10)
            torch.testing.assert_close(mass, c, rtol=0, atol=1e-11)
            torch.testing.assert_close(said[2:], reported[2:], rtol=1e-9, atol=0)
        for i, expected in ((0, value), (3, of_cost), (4, of_logits)):
            torch.testing.assert_close(sum(part[i] for part in found), expected, rtol=1e-8, atol=1e-11)
    expected = step(slice(None))
    for _, gradients, messages, _, _ in parts:
        for one, two in zip(gradients, expected, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-8, atol=1e-10)
        assert len(messages) == 2
    trained, whole = [part[3] for part in parts], training(slice(None), False)
    for centres, g, _, history in trained:
        assert torch.equal(centres, trained[0][0])
        for one, two in zip((centres, g, history), (whole[0], whole[1], whole[3]), strict=True):
            torch.testing.assert_close(
                one, two, rtol=1e-3, atol=1e-4, equal_nan=True
            )  # single precision, sums in another order
    assert torch.equal(torch.cat([part[2] for part in trained]), whole[2])
    for n_halted, n_again, centres, message in (part[4] for part in parts):
        assert (n_halted, n_again) == (4, 4)  # all stop when one does, and the checkpoint of the first is that of all
        assert torch.equal(centres, parts[0][4][2])
        assert ("X has 1 rows" in message) or (size > 1 and "1 other processes refused" in message)
    assert "cost[0, 0] is nan" in parts[-1][2][0]
    if size > 1:
        assert "1 other processes refused their rows" in parts[0][2][0]


def killed(rank, folder):
    """A training whose process is killed in its fourth epoch."""
    torch.set_num_threads(1)

    def kill(model, row):
        if row["phase"] == "cluster" and row["epoch"] == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    whole(callbacks=[kill], checkpoint_dir=folder)


def whole(**options):
    X = np.random.default_rng(3).normal(size=(N, 5)) + 3 * np.eye(5)[np.arange(N) % 3]
    few = {"n_codes": 2, "pretrain_epochs": 2, "epochs": 4, "batch_size": 8, "final_epsilon": 0.01, "patience": 9}
    return DeepTransportClustering(3, device="cpu", random_state=0, **few, **options).fit(X)


def test_a_process_that_is_killed_loses_the_epoch_it_was_in_only(tmp_path):
    context = mp.start_processes(killed, (tmp_path,), nprocs=1, start_method="forkserver", join=False)
    with pytest.raises(mp.ProcessExitedException, match="SIGKILL"):
        context.join()
    after = []
    resumed = whole(checkpoint_dir=tmp_path, callbacks=[lambda model, row: after.append(row["epoch"])])
    assert after == [2, 3, 4]
    expected = whole()
    np.testing.assert_array_equal(resumed.cluster_centers_, expected.cluster_centers_)
    np.testing.assert_array_equal(resumed.labels_, expected.labels_)
    assert resumed.history_.equals(expected.history_)


def test_processes_must_have_met():
    for call in (sum_over_processes, lambda: sum_gradients(torch.nn.Linear(1, 1))):
        with pytest.raises(RuntimeError, match="init_process_group"):
            call()


def test_second_derivatives_do_not_cross_processes():
    C = torch.rand(5, 3, dtype=torch.float64, requires_grad=True)
    value = transport_loss(C, value="sharp", gradient="implicit", reduction=torch.clone).value
    with pytest.raises(RuntimeError, match="second derivatives do not cross processes"):
        torch.autograd.grad(value, C, create_graph=True)
