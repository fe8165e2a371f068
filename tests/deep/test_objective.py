"""The terms of the loss of one batch: what a cluster of prior 0 does to them."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from sinkhorn_em.deep import Options  # noqa: E402
from sinkhorn_em.deep.objective import clustering_loss, consistency_loss  # noqa: E402

KEPT = [0, 2]


def terms(columns, weights, **options):
    """Clustering and consistency loss of codes and of views of them, and their derivatives, with some of three centres."""
    rng = torch.Generator().manual_seed(0)
    z, view = (torch.randn(2, 12, 4, generator=rng).requires_grad_() for _ in range(2))
    centres = torch.randn(2, 3, 4, generator=rng)[:, columns].requires_grad_()
    given = {"epsilon": 0.5, "epsilon_mode": "absolute"} | options
    prior = torch.tensor([weights, weights[::-1]], dtype=torch.float64)
    state = SimpleNamespace(centres=centres, weights=prior, potentials=torch.zeros_like(prior), bank=None)
    chosen = Options(len(columns), **given)
    found = clustering_loss(z, state, chosen, 0)
    consistency = consistency_loss(z, view, found, state, chosen)
    total = (found.value + consistency).sum()
    return total, consistency, torch.autograd.grad(total, (z, view, centres))


@pytest.mark.parametrize("dual", ["batch", "global"])
def test_a_cluster_of_prior_0_has_no_part_in_the_loss(dual):
    with_it = terms([0, 1, 2], [0.3, 0.0, 0.7], dual=dual)
    without = terms(KEPT, [0.3, 0.7], dual=dual)
    assert with_it[0].isfinite() and (with_it[1] > 0).all()
    torch.testing.assert_close(with_it[:2], without[:2], rtol=1e-5, atol=1e-6)
    (of_z, of_view, of_centres), (z, view, centres) = with_it[2], without[2]
    assert of_centres.isfinite().all() and (of_centres[:, 1] == 0).all()
    torch.testing.assert_close(
        (of_z, of_view, of_centres[:, KEPT]), (z, view, centres), rtol=1e-4, atol=1e-6
    )  # float32
