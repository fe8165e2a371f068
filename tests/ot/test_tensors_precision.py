"""Distances, their derivatives and overlaps are multiplied in float32 proper, whatever torch is told of other products."""

import threading

import pytest

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from sinkhorn_em.deep.objective import squared_distances  # noqa: E402
from sinkhorn_em.ot.tensors import kernel, precision  # noqa: E402
from sinkhorn_em.ot.tensors.precision import full_precision, precision_on, product  # noqa: E402

CUDA, CPU = torch.device("cuda"), torch.device("cpu")  # neither is used: settings are there without a device, too
MATMUL, ONEDNN = torch.backends.cuda.matmul, torch.backends.mkldnn.matmul
PRODUCTS = ("aten.mm", "aten.bmm", "aten.addmm", "aten.baddbmm")
new_settings = pytest.mark.skipif(not hasattr(MATMUL, "fp32_precision"), reason="settings for each device: torch 2.9")


@pytest.fixture(autouse=True)
def settings_are_put_back():
    yield
    torch.set_float32_matmul_precision("highest")
    if hasattr(MATMUL, "fp32_precision"):
        torch.backends.fp32_precision = MATMUL.fp32_precision = ONEDNN.fp32_precision = "none"


def everything():
    """All that a program can read of the settings."""
    return MATMUL.fp32_precision, ONEDNN.fp32_precision, torch.backends.fp32_precision


WAYS = {
    "for all products": lambda: torch.set_float32_matmul_precision("high"),
    "bfloat16": lambda: torch.set_float32_matmul_precision("medium"),
    "the older one for CUDA": lambda: setattr(MATMUL, "allow_tf32", True),
    "the newer one for CUDA": lambda: setattr(MATMUL, "fp32_precision", "tf32"),
    "all that follows the general one": lambda: setattr(torch.backends, "fp32_precision", "tf32"),
}


@new_settings
@pytest.mark.parametrize("way", WAYS)
def test_tf32_is_off_inside_and_as_it_was_outside(way):
    WAYS[way]()
    before = everything()
    assert precision_on(CUDA) == "tf32"
    with full_precision(CUDA):
        with full_precision(CUDA):  # of a product in a derivative
            assert precision_on(CUDA) == "ieee"
        assert precision_on(CUDA) == "ieee"
        assert everything()[1:] == before[1:]
    assert everything() == before
    with pytest.raises(ZeroDivisionError), full_precision(CUDA):
        raise ZeroDivisionError
    assert everything() == before


@new_settings
def test_what_followed_a_general_setting_follows_it_again():
    torch.backends.fp32_precision = "tf32"
    with full_precision(CUDA):
        pass
    torch.backends.fp32_precision = "ieee"
    assert precision_on(CUDA) == "ieee"


@new_settings
@pytest.mark.parametrize("device", [CUDA, CPU])
def test_nothing_is_set_where_nothing_is_shortened(device, monkeypatch):
    monkeypatch.setattr(precision, "_set", lambda *given: pytest.fail("a setting was written"))
    with full_precision(device):
        assert precision_on(device) in ("none", "ieee")


@pytest.mark.parametrize("name", ["high", "medium"])
def test_before_torch_2_9_the_one_setting_there_was_is_used(name, monkeypatch):
    monkeypatch.setattr(precision, "_settings", lambda device: None)
    torch.set_float32_matmul_precision(name)
    with full_precision(CUDA):
        assert torch.get_float32_matmul_precision() == "highest"
    assert torch.get_float32_matmul_precision() == name


class Watch(TorchDispatchMode):
    """The setting at every product of float32 matrices, those of derivatives too."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if str(function).startswith(PRODUCTS) and args[0].dtype == torch.float32:
            self.seen.append(precision_on(CPU))
        return function(*args, **(kwargs or {}))


@new_settings
def test_distances_and_their_derivatives_are_not_shortened():
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"  # the processor's TF32
    z, mu = torch.randn(2, 6, 3, requires_grad=True), torch.randn(2, 4, 3, requires_grad=True)
    with Watch() as watch:
        slopes = torch.autograd.grad(squared_distances(z, mu).square().sum(), (z, mu), create_graph=True)
        torch.autograd.grad(slopes[0].square().sum() + slopes[1].square().sum(), (z, mu))
    assert len(watch.seen) > 5 and set(watch.seen) == {"ieee"}
    assert precision_on(CPU) == "bf16"


@new_settings
def test_overlaps_are_not_shortened():
    ONEDNN.fp32_precision = "bf16"
    S, a = -torch.rand(1, 50, 4), torch.full((1, 50), 0.02, dtype=torch.float64)
    with Watch() as watch:
        kernel.evaluate(S, a, torch.zeros(1, 4, dtype=torch.float64))
    assert watch.seen == ["ieee"]


@new_settings
def test_the_guarded_product_is_the_product_with_its_derivatives():
    ONEDNN.fp32_precision = "bf16"
    x, y = (torch.randn(shape, requires_grad=True) for shape in ((2, 5, 3), (4, 3)))  # y is the same for both
    torch.testing.assert_close(product(x, y), x @ y.mT)
    upstream = torch.randn(2, 5, 4)
    found = torch.autograd.grad(product(x, y), (x, y), upstream)
    torch.testing.assert_close(found, torch.autograd.grad(x @ y.mT, (x, y), upstream))


@new_settings
def test_threads_do_not_put_back_each_others_settings():
    WAYS["for all products"]()
    inside, left = threading.Event(), []

    def other():
        inside.wait()
        with full_precision(CUDA):
            left.append(precision_on(CUDA))

    thread = threading.Thread(target=other)
    thread.start()
    with full_precision(CUDA):
        inside.set()
        thread.join(0.05)  # it waits
        assert not left
    thread.join()
    assert left == ["ieee"] and precision_on(CUDA) == "tf32"
