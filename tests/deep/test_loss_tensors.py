"""What the transport loss does to tensors: precision, autocast, memory, what it must leave alone, and bad input."""

import re

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sinkhorn_em.deep import transport_loss  # noqa: E402
from sinkhorn_em.ot import InfeasibleMarginalsError, VirtualColumn  # noqa: E402
from sinkhorn_em.ot.tensors import kernel  # noqa: E402

KINDS = [("entropic", "envelope"), ("sharp", "implicit"), ("entropic", "unrolled")]


@pytest.fixture
def cost():
    """Squared distances (40, 4), float64."""
    rng = np.random.default_rng(1)
    return torch.tensor(((rng.normal(size=(40, 1, 3)) - rng.normal(size=(4, 3))) ** 2).sum(2))


def with_slope(C, **options):
    C = C.detach().clone().requires_grad_()
    value = transport_loss(C, **options).value
    return value.detach(), torch.autograd.grad(value, C)[0]


@pytest.mark.parametrize("kind", KINDS, ids=" ".join)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_half_and_single_precision_are_worked_on_in_single_precision(cost, kind, dtype):
    options = {"value": kind[0], "gradient": kind[1]}
    C = cost.to(dtype)
    value, slope = with_slope(C, **options)
    exact, exact_slope = with_slope(C.double(), **options)
    assert value.dtype == torch.float32 and slope.dtype == dtype
    assert value.item() == pytest.approx(exact.item(), rel=1e-5)
    # the derivative comes back in the precision of the cost; entries are at most 1/40
    torch.testing.assert_close(slope.double(), exact_slope, rtol=2 * torch.finfo(dtype).eps, atol=1e-6)


def test_a_small_epsilon_is_worked_on_in_double_precision(cost):
    """float32 scores of size 1e4 have errors of 1e-3 nats; the derivative shows none of it."""
    for options in ({"epsilon": 1e-4}, {"epsilon": 1e-4 * float(cost.mean()), "epsilon_mode": "absolute"}):
        value, slope = with_slope(cost.float(), **options)
        exact, exact_slope = with_slope(cost.float().double(), **options)
        assert value.dtype == slope.dtype == torch.float32
        assert value.item() == pytest.approx(exact.item(), rel=1e-6)
        torch.testing.assert_close(slope.double(), exact_slope, rtol=1e-5, atol=1e-6 / 40)


@pytest.mark.parametrize("kind", KINDS, ids=" ".join)
def test_autocast_changes_nothing(cost, kind):
    options = {"value": kind[0], "gradient": kind[1]}
    expected = with_slope(cost.float(), **options)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = with_slope(cost.float(), **options)
        assert torch.is_autocast_enabled("cpu")
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize("enabled", [True, False])
def test_the_grad_mode_is_left_as_it_was(cost, enabled):
    with torch.set_grad_enabled(enabled):
        transport_loss(cost)
        assert torch.is_grad_enabled() == enabled
        cost[0, 0] = torch.nan
        with pytest.raises(ValueError, match="cost"):
            transport_loss(cost)
        with pytest.raises(ValueError, match="potentials"):
            transport_loss(cost[1:], potentials=torch.zeros(7))
        assert torch.is_grad_enabled() == enabled
        assert not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("kind", KINDS, ids=" ".join)
def test_inputs_are_not_written_to(cost, kind):
    w, mass, start = torch.full((4,), 0.25), torch.full((40,), 1 / 40), torch.ones(4, dtype=torch.float64)
    inputs = (cost.requires_grad_(), w, mass, start)
    before = [(x.detach().clone(), x._version) for x in inputs]
    transport_loss(cost, w, row_mass=mass, potentials=start, value=kind[0], gradient=kind[1]).value.backward()
    for x, (values, version) in zip(inputs, before, strict=True):
        assert torch.equal(x.detach(), values) and x._version == version


def test_strided_costs_are_taken_as_they_are(cost):
    wide = torch.randn(80, 8, dtype=torch.float64)
    wide[::2, ::2] = cost
    for C in (wide[::2, ::2], cost.T.contiguous().T):
        torch.testing.assert_close(with_slope(C), with_slope(cost))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_responsibilities_are_the_same_on_every_device(cost, dtype):
    """With a virtual column, a forbidden pair and a row without any; float32 rounds the exponentials of torch's kernel."""
    S = -cost.to(dtype).expand(2, 40, 4).clone()
    S[0, 3, 1], S[1, 7] = -torch.inf, -torch.inf
    for offset in (torch.randn(2, 4, dtype=torch.float64), torch.randn(2, 5, dtype=torch.float64)):
        one, two = kernel.compiled_responsibilities(S, offset), kernel.tiled_responsibilities(S, offset)
        torch.testing.assert_close(one, two, rtol=0, atol=4 * torch.finfo(dtype).eps)
        assert one[1, 7].sum() == offset.shape[1] - 4  # all of it to the virtual column


def saved_bytes(C, **options):
    """Bytes that the graph keeps for its backward pass, each storage once."""
    kept = {}

    def pack(x):
        kept[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        value = transport_loss(C, **options).value
    value.backward()
    return sum(kept.values())


def test_the_envelope_keeps_one_plan_and_unrolling_one_for_each_iteration():
    C = torch.rand(200, 20, requires_grad=True)
    plan = 200 * 20 * 4  # bytes, float32
    assert saved_bytes(C) < 1.2 * plan
    implicit = saved_bytes(C, gradient="implicit")
    assert implicit < 10 * plan  # float64, and independent of the passes
    assert saved_bytes(C, gradient="unrolled", iterations=50) > 50 * plan


def test_nothing_is_kept_where_nothing_is_differentiated():
    assert not transport_loss(torch.rand(5, 3)).value.requires_grad


BAD = [
    ({"epsilon": 0.0}, "epsilon is 0.0; it must be a positive finite number"),
    ({"epsilon": True}, "epsilon is True"),
    ({"epsilon": 1e-320}, "epsilon is 1e-320; it must be at least 2.23e-308"),
    ({"epsilon_mode": "percent"}, "epsilon_mode is 'percent'; it must be one of"),
    ({"value": "dull"}, "value is 'dull'; it must be one of"),
    ({"gradient": "none"}, "gradient is 'none'; it must be one of"),
    ({"value": "sharp"}, "gradient is 'envelope' and value is 'sharp'; .* use gradient='implicit'"),
    ({"max_passes": 0}, "max_passes is 0; it must be an integer of at least 1"),
    ({"iterations": 2.5}, "iterations is 2.5"),
    ({"tol": -1.0}, "tol is -1.0; it must be a positive finite number"),
    ({"rule": "loose"}, "rule is 'loose'; it must be one of"),
    ({"weights": torch.ones(4)}, r"weights is \[1.0, 1.0, 1.0, 1.0\], with sum 4; .* divide them by their sum"),
    ({"weights": [0.5, 0.7, -0.2, 0.0]}, "not negative"),
    ({"weights": [0.5, float("nan"), 0.5, 0.0]}, "must be finite"),
    ({"weights": [0.5, 0.5]}, r"weights has shape \(2,\); it must be \(4,\)"),
    ({"row_mass": torch.ones(3)}, r"row_mass has shape \(3,\)"),
    ({"potentials": torch.zeros(3)}, r"potentials has shape \(3,\)"),
    ({"potentials": torch.full((4,), torch.nan)}, "potentials must be finite"),
    ({"reduction": lambda x: x, "gradient": "unrolled"}, "use gradient='envelope' or 'implicit'"),
]


@pytest.mark.parametrize(("options", "message"), BAD, ids=[str(list(options)) for options, _ in BAD])
def test_bad_options_are_named(cost, options, message):
    with pytest.raises(ValueError, match=message):
        transport_loss(cost, **options)


def test_bad_costs_are_named(cost):
    for value, message in ((torch.nan, "is nan"), (-torch.inf, "is -inf")):
        C = cost.clone()
        C[7, 2] = value
        with pytest.raises(ValueError, match=rf"cost\[7, 2\] {message}; costs must be finite, or \+inf"):
            transport_loss(C)
    for C in (cost.numpy(), cost.long(), cost[:0], cost[0]):
        with pytest.raises(ValueError, match="it must be a floating-point tensor"):
            transport_loss(C)


@pytest.mark.parametrize(
    ("scale", "epsilon", "mode"),
    [(1e-307, 0.01, "relative"), (1e300, 1e-9, "absolute"), (1e10, 1e300, "relative"), (1.0, 1e-307, "absolute")],
)
def test_an_epsilon_that_leaves_the_range_of_double_precision_is_named(cost, scale, epsilon, mode):
    """Not the rows, which then have no finite score."""
    with pytest.raises(
        ValueError, match=rf"^epsilon is {re.escape(str(epsilon))}, {mode}, and the costs are .* on average"
    ):
        transport_loss(scale * cost, epsilon=epsilon, epsilon_mode=mode)


def test_an_epsilon_that_leaves_the_range_of_single_precision_is_worked_on_in_double(cost):
    """Costs that are subnormal in float32, whose 1/epsilon is not in it; an epsilon for which 0 times a forbidden pair is NaN."""
    C = (cost * 2.0**-135).float()
    value, slope = with_slope(C)
    torch.testing.assert_close(slope, with_slope(C.double() * 2.0**135)[1].float(), rtol=1e-5, atol=1e-7)
    assert value > 0
    cost[0, 0] = torch.inf
    _, slope = with_slope(cost.float(), epsilon=1e60)
    assert slope.isfinite().all() and slope.sum() == pytest.approx(1)


def test_a_relative_epsilon_needs_a_positive_mean(cost):
    for C in (cost - 100, torch.tensor([[1.0, -1.0], [-1.0, 1.0]])):
        with pytest.raises(ValueError, match=r"cost has mean .* use epsilon_mode='absolute'"):
            transport_loss(C)
        assert transport_loss(C, epsilon_mode="absolute").converged
    assert transport_loss(torch.zeros(4, 2)).value == 0


def test_forbidden_pairs_that_contradict_the_weights_are_an_error(cost):
    C = cost.clone()
    C[:, 3] = torch.inf
    with pytest.raises(InfeasibleMarginalsError) as error:
        transport_loss(C)
    assert error.value.columns == [3]
    C = cost.clone()
    C[5] = torch.inf
    with pytest.raises(InfeasibleMarginalsError, match=r"row 5 .* give it row_mass 0"):
        transport_loss(C)
    with pytest.raises(InfeasibleMarginalsError, match=r"row \[0, 5\] .* give it row_mass 0"):
        transport_loss(C, reduction=lambda of_this_process: of_this_process)
    assert transport_loss(C, row_mass=torch.arange(len(C)) != 5).converged
    assert transport_loss(C, rule=VirtualColumn(0.1)).converged  # it goes to the virtual column


def test_too_few_passes_are_reported(cost):
    result = transport_loss(cost, epsilon=1e-3, max_passes=2)
    assert not result.converged and result.n_passes == 2 and result.marginal_error > 1e-3


def test_the_residual_of_unrolled_iterations_is_their_own(cost):
    few = transport_loss(cost, gradient="unrolled", iterations=3)
    many = transport_loss(cost, gradient="unrolled", iterations=300)
    assert few.n_passes == 3 and few.marginal_error > 1e-3 and not few.converged
    assert many.marginal_error < 1e-6
    # the primal value of a plan whose columns are off is not the minimum
    assert abs(few.value - transport_loss(cost).value) > 100 * abs(many.value - transport_loss(cost).value)
