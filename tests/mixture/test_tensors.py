"""Torch tensors, on the host and on a device: the fits and predictions of arrays, and tensors back.

No GPU is needed: where no memory counts as the host's, tensors are worked on by torch wherever they lie. A machine with a GPU runs
the same tests there.
"""

import warnings
from importlib import import_module

import numpy as np
import pytest

from sinkhorn_em import GaussianMixture, LocationScaleMixture, _kinds
from sinkhorn_em.engines import tensor_rows
from sinkhorn_em.families import GENERATORS, Elliptical, StudentT
from sinkhorn_em.families.covariances import STRUCTURES, Regularisation
from sinkhorn_em.ot import InfeasibleMarginalsError, RowsPlan, kernel

torch = pytest.importorskip("torch")

K, N = 3, 240
TIGHT = {"tol": 1e-10, "random_state": 0}  # two runs stop at the same point, not just within 1e-6 nats of it
EXACT = {"rtol": 1e-8, "atol": 1e-8}
NO_CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


@pytest.fixture(params=["host", "device", pytest.param("cuda", marks=NO_CUDA)])
def tensor(request, monkeypatch):
    """Arrays as tensors: for the compiled kernels, for torch's, on a GPU."""
    if request.param == "device":
        monkeypatch.setattr(_kinds, "HOST", ())
    place = "cuda" if request.param == "cuda" else "cpu"
    return lambda values, **options: torch.as_tensor(values, device=place, **options)


@pytest.fixture(autouse=True)
def one_thread():
    """Threads of torch that wait for a core make a small product cost milliseconds."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def device(monkeypatch):
    """Tensors in this memory count as those of a device."""
    monkeypatch.setattr(_kinds, "HOST", ())


def rows(seed=0, df=np.inf):
    rng = np.random.default_rng(seed)
    centres = np.array([[0.0, 0, 0], [5, 2, 0], [0, 3, 6]])
    noise = rng.normal(size=(N, 3)) if df == np.inf else rng.standard_t(df, size=(N, 3))
    return 100 + centres[rng.integers(0, K, N)] + noise * [1, 0.5, 1.5]  # far from the origin: nothing may cancel


def agree(ours, theirs, **tolerance):
    tolerance = tolerance or EXACT
    for name in ("weights_", "means_", "covariances_", "lower_bounds_", "potentials_", "transport_loss_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), **tolerance, err_msg=name)
    assert isinstance(ours.means_, np.ndarray)


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical", "tied_diag", "tied_spherical", "EVE"])
def test_a_tensor_gives_the_fit_of_the_array(tensor, covariance_type):
    X = rows()
    model = GaussianMixture(K, covariance_type=covariance_type, weights="uniform", **TIGHT)
    agree(model.fit(tensor(X)), GaussianMixture(**model.get_params()).fit(X))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"noise": 0.1},
        {"trim": 0.1},
        {"tau": 0.0, "init_params": "random_from_data"},
        {"size_bounds": (0.2, 0.5), "weights": "uniform"},
        {"weights": [0.6, 0.4, 0.0]},
        {"init_params": "random", "n_init": 2, "prior": "mclust", "weights": "uniform"},
    ],
    ids=str,
)
def test_every_option_of_the_mixture_takes_tensors(tensor, options):
    X = rows(1)
    model = GaussianMixture(K, covariance_type="tied", **TIGHT, **options)
    agree(model.fit(tensor(X)), GaussianMixture(**model.get_params()).fit(X))


@pytest.mark.parametrize("family", [StudentT(), "cauchy"], ids=str)
def test_elliptical_families_take_tensors(tensor, family):
    X = rows(2, df=3)
    options = {"covariance_type": "diag", "noise": 0.05, "tol": 1e-7, "random_state": 0}
    model = LocationScaleMixture(K, family=family, weights="uniform", **options)
    array = LocationScaleMixture(**model.get_params()).fit(X)
    agree(model.fit(tensor(X)), array)
    np.testing.assert_allclose(model.df_, array.df_, rtol=1e-6)  # the likelihood is flat in them
    np.testing.assert_allclose(model.predict_proba(tensor(X)).cpu(), array.predict_proba(X), **EXACT)


def test_what_is_known_of_the_rows_may_be_tensors(tensor):
    X, rng = rows(3), np.random.default_rng(0)
    frequency, labels = rng.integers(1, 4, N), np.full(N, -1)
    labels[:10] = 2
    forbidden = np.zeros((N, K), bool)
    forbidden[20:30, 0] = True
    model, array = (GaussianMixture(K, weights="uniform", **TIGHT) for _ in range(2))
    array.fit(X, sample_weight=frequency, labels=labels, forbidden=forbidden)
    known = {"labels": tensor(labels), "forbidden": tensor(forbidden)}
    agree(model.fit(tensor(X), sample_weight=tensor(frequency), **known), array)
    assert model.score(tensor(X), sample_weight=tensor(frequency)) == pytest.approx(array.score(X, None, frequency))
    assert model.bic(tensor(X), tensor(frequency)) == pytest.approx(array.bic(X, frequency))
    none = tensor(np.ones((N, K), bool)) & (torch.arange(K, device=tensor(0).device) == 0)
    with pytest.raises(InfeasibleMarginalsError, match="contradict the weights"):
        model.fit(tensor(X), forbidden=none)


def test_tensors_in_tensors_out(tensor):
    X = rows(4)
    T = tensor(X)
    model = GaussianMixture(K, noise=0.1, random_state=0).fit(X)
    sizes = [70, 80, 70, 20]
    for method, kind, extra in [
        ("predict", torch.int64, {}),
        ("predict_proba", torch.float64, {}),
        ("score_samples", torch.float64, {}),
        ("logpdf", torch.float64, {}),
        ("pdf", torch.float64, {}),
        ("balanced_predict", torch.int64, {"sizes": tensor(sizes)}),
    ]:
        ours = getattr(model, method)(T, **extra)
        theirs = getattr(model, method)(X, **dict.fromkeys(extra, sizes))
        assert isinstance(theirs, np.ndarray)
        assert (type(ours), ours.dtype, ours.device) == (torch.Tensor, kind, T.device), method
        np.testing.assert_allclose(ours.cpu(), theirs, **EXACT, err_msg=method)
    ours, theirs = model.transport_plan(T), model.transport_plan(X)
    assert type(ours).__name__ == "TensorPlan"
    assert ours.matrix.device == T.device
    np.testing.assert_allclose(ours.matrix.cpu(), theirs.matrix, **EXACT)
    for method in ("score", "bic", "aic", "classification_entropy"):
        ours = getattr(model, method)(T)
        assert isinstance(ours, float)
        assert ours == pytest.approx(getattr(model, method)(X), rel=1e-10)
    assert isinstance(model.sample(3)[0], np.ndarray)


def test_a_fit_to_a_tensor_predicts_arrays_and_continues_from_itself(tensor):
    X = rows(5)
    model = GaussianMixture(K, random_state=0, warm_start=True)
    labels = model.fit_predict(tensor(X))
    assert np.array_equal(model.predict(X), labels.cpu())
    again = model.fit(tensor(X))
    assert again.n_iter_ <= 3
    assert again.lower_bound_ == pytest.approx(model.score(X), abs=1e-6)


def test_single_precision_costs_single_precision(tensor):
    X = rows(6).astype(np.float32)
    ours, theirs = (GaussianMixture(K, weights="uniform", random_state=0).fit(x) for x in (tensor(X), X))
    # rows are rounded to 6e-8 of their spread in the coordinates of the fit, the bound stops within 1e-6
    assert ours.lower_bound_ == pytest.approx(theirs.lower_bound_, abs=1e-6)
    np.testing.assert_allclose(ours.means_, theirs.means_, atol=1e-4)
    np.testing.assert_allclose(theirs.score_samples(tensor(X)).cpu(), theirs.score_samples(X), **EXACT)
    assert tensor_rows(X, np.full(N, 1 / N), tensor(X)).X.dtype == torch.float32


@pytest.mark.parametrize("kind", [torch.int32, torch.float16, torch.bfloat16], ids=str)
def test_other_numbers_are_taken_as_floats(tensor, kind):
    X = np.round(10 * (rows(7) - 100))  # whole numbers below 256: exact in all of these
    ours, theirs = (GaussianMixture(K, weights="uniform", random_state=0).fit(x) for x in (tensor(X).to(kind), X))
    assert ours.lower_bound_ == pytest.approx(theirs.lower_bound_, abs=1e-6)
    np.testing.assert_allclose(theirs.score_samples(tensor(X).to(kind)).cpu(), theirs.score_samples(X), **EXACT)


def test_gradients_end_at_the_mixture(tensor):
    X = tensor(rows(8)).requires_grad_()
    model = GaussianMixture(K, random_state=0).fit(X)
    assert not model.score_samples(X).requires_grad
    assert not model.transport_plan(X).scores.requires_grad
    assert X.grad is None


def test_rows_that_every_component_gives_density_zero_keep_the_weights(tensor):
    X = rows(9)
    model = GaussianMixture(K, weights=[0.5, 0.3, 0.2], random_state=0).fit(X)
    far = np.vstack([X[:2], np.full((1, 3), 1e200)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # squares of 1e200 overflow
        proba = model.predict_proba(tensor(far)).cpu().numpy()
    np.testing.assert_allclose(proba[:2], model.predict_proba(X[:2]), **EXACT)
    np.testing.assert_allclose(proba[2], [0.5, 0.3, 0.2])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda X: np.where(np.arange(N)[:, None] == 7, np.nan, X), "NaN"),
        (lambda X: np.where(np.arange(N)[:, None] == 7, np.inf, X), "infinity"),
        (lambda X: X[:, 0], "Expected 2D array, got 1D array"),
        (lambda X: X[0, 0], "Expected 2D array, got scalar"),
        (lambda X: X[:0], "0 sample"),
        (lambda X: X[:, :2], "expecting 3 features"),
        (lambda X: X[None], "dim 3"),
    ],
)
def test_bad_tensors_get_the_errors_of_bad_arrays(tensor, spoil, message):
    X = rows(10)
    model, bad = GaussianMixture(K, random_state=0, max_iter=1, tol=10).fit(X), tensor(spoil(X))
    with pytest.raises(ValueError, match=message):
        model.predict(bad)
    if "features" not in message:
        with pytest.raises(ValueError, match=message):
            model.fit(bad)


def test_a_family_without_a_tensor_form_is_refused_on_a_device_only(device, monkeypatch):
    X = rows(11)
    model = LocationScaleMixture(K, family="laplace", random_state=0)
    with pytest.raises(ValueError, match=r"tensor on cpu, and the family Laplace.*pass X.cpu\(\)"):
        model.fit(torch.as_tensor(X))
    product = LocationScaleMixture(K, family="gaussian", form="product", covariance_type="diag", random_state=0)
    with pytest.raises(ValueError, match=r"pass X.cpu\(\)"):
        product.fit(torch.as_tensor(X))
    array = model.fit(X).predict(X)
    with pytest.raises(ValueError, match=r"pass X.cpu\(\)"):
        model.predict(torch.as_tensor(X))
    monkeypatch.undo()
    assert np.array_equal(model.fit(torch.as_tensor(X)).predict(torch.as_tensor(X)), array)


def test_a_device_without_float64_is_refused():
    class Elsewhere(torch.Tensor):
        device = torch.device("mps")

    model = GaussianMixture(K, random_state=0, max_iter=1, tol=10).fit(rows())
    with pytest.raises(ValueError, match=r"on mps, which has no float64 numbers: pass X.cpu\(\)"):
        model.predict(torch.as_tensor(rows()).as_subclass(Elsewhere))


def test_rows_of_a_device_are_not_seen_by_the_compiled_pass(device, monkeypatch):
    def refuse(*arguments):
        raise AssertionError("the compiled pass was called")

    monkeypatch.setattr(kernel, "fused_pass", refuse)
    GaussianMixture(2, random_state=0, max_iter=1, tol=10).fit(torch.as_tensor(rows()))
    with pytest.raises(AssertionError, match="was called"):
        GaussianMixture(2, random_state=0, max_iter=1, tol=10).fit(rows())


@pytest.mark.parametrize("structure", ["full", "diag"])
@pytest.mark.parametrize("generator", ["gaussian", "student_t"])
def test_pieces_of_rows_add_up(structure, generator, monkeypatch):
    passes = import_module("sinkhorn_em.ot.tensors.kernel")
    family = Elliptical(GENERATORS[generator](), STRUCTURES[structure](), Regularisation(0.0))
    parameters = family.start(K, 3)._replace(means=rows()[:K])
    engine, offset = tensor_rows(rows(), np.full(N, 1 / N)), np.log([0.2, 0.3, 0.4, 0.1])  # a virtual column
    results = []
    for entries in (1 << 20, 7 * K * 3 * 2):  # all rows at once, and pieces of about seven
        monkeypatch.setitem(passes.TILE_ENTRIES, "cpu", entries)
        (S,) = engine.map(lambda X, out: family.log_density(X, parameters, out))
        plan = RowsPlan(S, offset, engine.row_mass)
        numbers = [kernel.evaluate(S, engine.row_mass, offset, heat) for heat in (0.0, 1.0, 3.0)]
        sums = [turn.statistics(engine.X, plan, parameters) for turn in family.turns]
        tensors = [S, plan.responsibilities, kernel.log_normalisers(S, offset)]
        results.append([np.asarray(x) for part in (*numbers, *sums, tensors) for x in part if x is not None])
    for whole, pieces in zip(*results, strict=True):
        np.testing.assert_allclose(pieces, whole, rtol=1e-6 if whole.shape == (4, 4) else 1e-12)  # overlaps: float32


@pytest.mark.parametrize("generator", ["gaussian", "student_t"])
def test_the_host_waits_for_the_device_once_a_pass(generator, monkeypatch):
    transfers = []

    def waits(tensor):
        raise AssertionError("the host waits for one number")

    def cpu(tensor, original=torch.Tensor.cpu):
        transfers.append(tensor.numel())
        return original(tensor)

    for method in ("item", "__bool__", "__float__", "__int__", "tolist", "nonzero"):
        monkeypatch.setattr(torch.Tensor, method, waits)
    monkeypatch.setattr(torch.Tensor, "cpu", cpu)
    family = Elliptical(GENERATORS[generator](), STRUCTURES["full"](), Regularisation(0.0))
    parameters = family.start(K, 3)
    engine, offset = tensor_rows(rows() - 100, np.full(N, 1 / N)), np.log([0.2, 0.3, 0.5])
    (S,) = engine.map(lambda X, out: family.log_density(X, parameters, out))
    assert not transfers
    kernel.evaluate(S, engine.row_mass, offset)
    assert transfers == [1 + K + K * K]
    family.statistics(engine.X, RowsPlan(S, offset, engine.row_mass), parameters)
    assert len(transfers) == 2
    assert max(transfers) < N  # nothing of the rows
