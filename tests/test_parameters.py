"""Numbers that a caller gives may be torch tensors: on a device, in half precision, with a gradient."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sinkhorn_em import GaussianMixture, solve_plan  # noqa: E402
from sinkhorn_em._parameters import as_numbers, check_simplex, valid_means, valid_weights  # noqa: E402


class OnDevice(torch.Tensor):
    """A tensor whose numbers NumPy cannot reach, as those on a GPU."""

    def __array__(self, dtype=None, copy=None):
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu()")

    numpy = __float__ = __array__

    def cpu(self):
        return self.as_subclass(torch.Tensor)


KINDS = {
    "with a gradient": lambda x: torch.tensor(x, requires_grad=True),
    "double": lambda x: torch.tensor(x, dtype=torch.float64),
    "bfloat16": lambda x: torch.tensor(x, dtype=torch.bfloat16),
    "float16, with a gradient": lambda x: torch.tensor(x, dtype=torch.float16, requires_grad=True),
    "on a device": lambda x: torch.tensor(x).as_subclass(OnDevice),
    "on a device, with a gradient": lambda x: torch.tensor(x).as_subclass(OnDevice).requires_grad_(),
}
WEIGHTS, MEANS = [0.25, 0.25, 0.5], [[0.0, 1.5], [8.0, -2.0], [-8.0, 0.25]]  # exact in half precision


@pytest.mark.parametrize("kind", KINDS)
def test_tensors_of_every_kind_are_numbers(kind):
    as_tensor = KINDS[kind]
    assert as_numbers("tau", as_tensor(0.25)) == 0.25
    np.testing.assert_array_equal(as_numbers("means", as_tensor(MEANS)), MEANS, strict=True)
    for weights in (check_simplex("w", as_tensor(WEIGHTS), 3), valid_weights(as_tensor(WEIGHTS))):
        np.testing.assert_array_equal(weights, WEIGHTS, strict=True)
    np.testing.assert_array_equal(valid_means(as_tensor(MEANS), 3), MEANS, strict=True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_mixture_starts_from_tensors_as_from_arrays(kind):
    as_tensor = KINDS[kind]
    X = np.repeat(MEANS, 30, axis=0) + np.random.default_rng(0).normal(size=(90, 2))
    found = [
        GaussianMixture(3, weights_init=given(WEIGHTS), means_init=given(MEANS), max_iter=3, tol=10.0).fit(X).means_
        for given in (np.array, as_tensor)
    ]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("kind", KINDS)
def test_a_mixture_is_made_of_tensors_as_of_arrays(kind):
    as_tensor, unit = KINDS[kind], [[[1.0, 0.0], [0.0, 1.0]]] * 3
    one, other = (GaussianMixture.from_parameters(f(WEIGHTS), f(MEANS), f(unit)) for f in (np.array, as_tensor))
    assert one.score(np.array(MEANS)) == other.score(np.array(MEANS))


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_is_solved_for_masses_and_tau_in_tensors(kind):
    S, as_tensor = -np.abs(np.subtract.outer([0.0, 1.0, 4.0, 9.0], [1.0, 3.0, 8.0])), KINDS[kind]
    one, other = (
        solve_plan(S, given([1.0, 2.0, 1.0, 4.0]), given([2.0, 2.0, 4.0]), tau=given(0.5)).value
        for given in (np.array, as_tensor)
    )
    assert one == other


@pytest.mark.parametrize(
    "value", [torch.device("cpu"), torch.nn.ReLU(), torch.ones(2, device="meta"), "many", None, {}]
)
def test_what_is_no_number_is_named(value):
    with pytest.raises(ValueError, match=r"^tau is .*; it must be a number, or an array of numbers$"):
        as_numbers("tau", value)


def test_many_weights_are_summed_up_in_the_message():
    with pytest.raises(ValueError, match=r"weights is 1000 numbers from 1 to 1, with sum 1000; weights must be >= 0"):
        check_simplex("weights", np.ones(1000), 1000)
