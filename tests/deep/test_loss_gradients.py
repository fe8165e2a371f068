"""Derivatives of the transport loss: by finite differences, in closed form, and against each other."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sinkhorn_em.deep import transport_loss  # noqa: E402
from sinkhorn_em.ot import BoundedMass, FixedMass, FreeMass, RelaxedMass, VirtualColumn  # noqa: E402

INACTIVE, ACTIVE = BoundedMass(0.01, 0.98), BoundedMass(np.array([0.5, 0.05, 0.1]), np.array([0.9, 0.15, 0.9]))
RULES = {
    "fixed": FixedMass(),
    "KL": RelaxedMass(0.6),
    "KL per column": RelaxedMass(np.array([0.3, 0.8, 0.5])),
    "free, KL and fixed columns": RelaxedMass(np.array([0.0, 0.5, 1.0])),
    "bounds that do not bind": INACTIVE,
    "bounds that bind": ACTIVE,
    "virtual column over fixed ones": VirtualColumn(0.2, FixedMass()),
    "virtual column over KL ones": VirtualColumn(0.2, RelaxedMass(0.6)),
    "virtual column over bounds": VirtualColumn(0.2, BoundedMass(np.array([0.4, 0.0, 0.1]), 0.5)),
    "virtual column over free ones": VirtualColumn(0.2, FreeMass()),
    "free": FreeMass(),
}
KINDS = [("entropic", "envelope"), ("entropic", "implicit"), ("sharp", "implicit")]
EPSILON = 0.5  # absolute: large enough for scaling iterations to converge within a test
TOL = 1e-14  # finite differences divide the error of the sharp value by their step, 1e-6


@pytest.fixture
def inputs():
    """Costs (5, 3) and logits of weights."""
    rng = np.random.default_rng(3)
    return tuple(torch.tensor(x, requires_grad=True) for x in (2 * rng.random((5, 3)), np.array([0.3, -0.2, 0.1])))


def loss(C, logits, rule, value="entropic", gradient="envelope", **options):
    options = {"epsilon": EPSILON, "epsilon_mode": "absolute", "tol": TOL, **options}
    return transport_loss(C, torch.softmax(logits, -1), rule=rule, value=value, gradient=gradient, **options).value


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("kind", KINDS, ids=" ".join)
def test_derivatives_are_those_of_finite_differences(inputs, name, kind):
    assert torch.autograd.gradcheck(
        lambda C, w: loss(C, w, RULES[name], *kind), inputs, atol=1e-6, rtol=1e-5, fast_mode=True
    )


@pytest.mark.parametrize("value", ["entropic", "sharp"])
@pytest.mark.parametrize(
    "name", ["fixed", "free, KL and fixed columns", "bounds that bind", "virtual column over KL ones"]
)
def test_many_iterations_have_the_implicit_derivatives(inputs, name, value, derivatives):
    exact = loss(*inputs, RULES[name], value, "implicit")
    unrolled = loss(*inputs, RULES[name], value, "unrolled", iterations=60)
    torch.testing.assert_close(unrolled, exact, rtol=1e-5, atol=1e-5)
    for one, two in zip(derivatives(unrolled, inputs), derivatives(exact, inputs), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", RULES)
def test_envelope_and_implicit_derivatives_agree(inputs, name, derivatives):
    envelope = derivatives(loss(*inputs, RULES[name]), inputs)
    for one, two in zip(envelope, derivatives(loss(*inputs, RULES[name], "entropic", "implicit"), inputs), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-10)


def test_few_iterations_are_differentiated_as_they_are(inputs):
    for value in ("entropic", "sharp"):
        f = lambda C, w, value=value: loss(C, w, FixedMass(), value, "unrolled", iterations=2)  # noqa: E731
        assert torch.autograd.gradcheck(f, inputs, atol=1e-6, fast_mode=True)


@pytest.mark.parametrize("name", ["fixed", "KL per column", "bounds that bind", "virtual column over KL ones"])
@pytest.mark.parametrize("value", ["entropic", "sharp"])
def test_implicit_derivatives_may_be_differentiated_again(inputs, name, value):
    C, logits = inputs
    small = C[:3].detach().requires_grad_()
    f = lambda C, w: loss(C, w, RULES[name], value, "implicit")  # noqa: E731
    assert torch.autograd.gradgradcheck(f, (small, logits), atol=1e-5, rtol=1e-4, fast_mode=True)


def test_envelope_derivatives_refuse_to_be_differentiated_again(inputs):
    with pytest.raises(RuntimeError, match="gradient='implicit'"):
        torch.autograd.grad(loss(*inputs, FixedMass()), inputs[0], create_graph=True)


def plan_of(C, b, tau):
    """P and its column masses by plain scaling iterations in NumPy, t = b^tau-damped: a second implementation."""
    m, _ = C.shape
    K = np.exp(-C / EPSILON) * b
    v = np.ones(C.shape[1])
    for _ in range(2000):
        u = 1 / m / (K @ v)
        v = (b / (K.T @ u)) ** tau if tau < 1 else b / (K.T @ u)
    P = u[:, None] * K * v
    return P, P.sum(0)


@pytest.mark.parametrize("tau", [1.0, 0.6])
def test_the_sharp_derivative_has_its_closed_form(inputs, tau):
    """P (1 - (C - alpha' - beta')/eps), [diag(c)(1 + eps/lambda) - P' diag(1/a) P] beta' = (P C)' 1 - P' diag(1/a) (P C) 1."""
    C, logits = inputs
    c_np, b = C.detach().numpy(), torch.softmax(logits, 0).detach().numpy()
    P, c = plan_of(c_np, b, tau)
    a = P.sum(1)
    H = np.diag(c * (1 + (1 - tau) / tau)) - P.T @ (P / a[:, None])  # eps/lambda = 1/rho
    right = (P * c_np).sum(0) - P.T @ ((P * c_np).sum(1) / a)
    beta = np.linalg.lstsq(H, right, rcond=None)[0]
    alpha = ((P * c_np).sum(1) - P @ beta) / a
    expected = P * (1 - (c_np - alpha[:, None] - beta) / EPSILON)
    found = torch.autograd.grad(loss(C, logits, RelaxedMass(tau), "sharp", "implicit"), C)[0]
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_free_columns_give_soft_k_means_and_deep_k_means():
    """Entropic: the row softmax. Sharp: P (1 - (C - mean of C under P)/eps), the gradient through the softmax."""
    C = torch.rand(6, 4, dtype=torch.float64, requires_grad=True)
    P = torch.softmax(-C.detach() / 0.3, 1) / 6
    options = {"rule": "free", "epsilon": 0.3, "epsilon_mode": "absolute"}
    (soft,) = torch.autograd.grad(transport_loss(C, **options).value, C)
    torch.testing.assert_close(soft, P, rtol=1e-12, atol=1e-14)
    (deep,) = torch.autograd.grad(transport_loss(C, value="sharp", gradient="implicit", **options).value, C)
    mean = 6 * (P * C).sum(1, keepdim=True).detach()
    torch.testing.assert_close(deep, P * (1 - (C.detach() - mean) / 0.3), rtol=1e-12, atol=1e-14)


def test_the_envelope_derivative_of_an_unconverged_plan_is_biased():
    """At epsilon 0.01 of the mean cost, few scaling iterations are far from the derivative of the value; Newton is at it."""
    rng = np.random.default_rng(2)
    z, mu = rng.normal(size=(60, 2)), rng.normal(size=(6, 2))
    C = torch.tensor(((z[:, None] - mu) ** 2).sum(2), requires_grad=True)
    options = {"epsilon": 0.01, "rule": "fixed"}
    (exact,) = torch.autograd.grad(transport_loss(C, tol=1e-12, **options).value, C)

    def bias(iterations):
        with torch.no_grad():
            g = transport_loss(C, value="sharp", gradient="unrolled", iterations=iterations, **options).potentials
        P = torch.softmax(-C.detach() / (0.01 * C.detach().mean()) + g, 1) / 60  # what an envelope rule would take
        return float((P - exact).norm() / exact.norm())

    errors = [bias(T) for T in (3, 50, 200)]
    assert errors[0] > 0.7 > errors[1] > 0.3 > 0.1 > errors[2]
    found = transport_loss(C, **options)
    assert found.n_passes < 30
    assert (torch.autograd.grad(found.value, C)[0] - exact).norm() < 1e-6 * exact.norm()


def test_well_separated_clusters_have_finite_derivatives():
    """No row is shared, the K x K system is 0: the plan is hard, and its cost has derivative P."""
    z = torch.tensor([[0.0], [0.1], [50.0], [50.1], [90.0], [90.1]], dtype=torch.float64)
    C = ((z - torch.tensor([0.0, 50.0, 90.0], dtype=torch.float64)) ** 2).requires_grad_()
    value = transport_loss(C, epsilon=0.01, value="sharp", gradient="implicit").value
    (slope,) = torch.autograd.grad(value, C)
    torch.testing.assert_close(slope, torch.eye(3, dtype=torch.float64).repeat_interleave(2, 0) / 6)


def test_relative_epsilon_is_a_constant_of_the_derivative():
    C = torch.rand(7, 3, dtype=torch.float64, requires_grad=True)
    relative = transport_loss(C, epsilon=0.1)
    absolute = transport_loss(C, epsilon=float(0.1 * C.detach().mean()), epsilon_mode="absolute")
    torch.testing.assert_close(relative.epsilon, absolute.epsilon)
    for value in (relative.value, absolute.value):
        torch.testing.assert_close(
            torch.autograd.grad(value, C)[0],
            1 / 7 * torch.softmax(-C.detach() / relative.epsilon + relative.potentials, 1),
        )
