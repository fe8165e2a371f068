"""TransportLoss: warm potentials that travel with the module."""

import copy

import pytest

torch = pytest.importorskip("torch")

from sinkhorn_em.deep import TransportLoss, transport_loss  # noqa: E402
from sinkhorn_em.ot import VirtualColumn  # noqa: E402


@pytest.fixture
def cost():
    torch.manual_seed(0)
    return torch.cdist(torch.randn(60, 3), torch.randn(5, 3)).square()


def test_it_is_the_function_with_its_options(cost):
    w = torch.tensor([0.1, 0.2, 0.3, 0.2, 0.2])
    module = TransportLoss(5, w, epsilon=0.1, tau=0.5)
    expected = transport_loss(cost, w, epsilon=0.1, tau=0.5)
    torch.testing.assert_close(module(cost), expected.value)
    torch.testing.assert_close(module(cost, torch.full((5,), 0.2)), transport_loss(cost, epsilon=0.1, tau=0.5).value)


def test_a_warm_start_takes_fewer_passes_and_travels_in_the_state(cost):
    module = TransportLoss(5, epsilon=0.02)
    module(cost)
    cold = int(module.result.n_passes)
    nearby = cost * (1 + 1e-3 * torch.rand_like(cost))
    other = TransportLoss(5, epsilon=0.02)
    other.load_state_dict(module.state_dict())
    for warm in (module, other):
        warm(nearby)
        assert int(warm.result.n_passes) < cold
    assert torch.equal(module.potentials, other.potentials)


def test_it_is_copied_and_moved_after_a_call(cost):
    """The last result keeps no graph, and masses stay in double precision where the network does not."""
    module = TransportLoss(5)
    module(cost.requires_grad_())
    assert not module.result.value.requires_grad
    twin = copy.deepcopy(module).to(torch.bfloat16)
    assert twin.weights.dtype == twin.potentials.dtype == torch.float64
    assert torch.equal(twin.potentials, module.potentials)
    torch.testing.assert_close(twin(cost), module(cost))
    twin.to("meta")
    assert twin.weights.device.type == "meta"


def test_a_column_that_had_no_mass_may_get_some(cost):
    module = TransportLoss(5)
    module(cost, torch.tensor([0.5, 0.5, 0.0, 0.0, 0.0]))
    assert torch.isfinite(module.potentials).all()
    torch.testing.assert_close(module(cost), transport_loss(cost).value)


def test_several_problems_and_a_virtual_column(cost):
    module = TransportLoss(5, rule=VirtualColumn(0.2))
    assert module(torch.stack([cost, cost.flip(0)])).shape == (2,)
    assert module.potentials.shape == (6,)


def test_bad_options_are_refused_when_it_is_made():
    for options, message in (
        ({"epsilon": -1.0}, "epsilon is -1.0"),
        ({"value": "sharp"}, "use gradient='implicit'"),
        ({"blur": 0.1}, r"options \['blur'\] are not known"),
        ({"weights": [0.2, 0.3]}, "weights has shape"),
        ({"rule": "loose"}, "rule is 'loose'"),
    ):
        with pytest.raises(ValueError, match=message):
            TransportLoss(5, **options)
    with pytest.raises(ValueError, match="n_columns is 0"):
        TransportLoss(0)
    assert "epsilon=0.1" in repr(TransportLoss(5, epsilon=0.1))
