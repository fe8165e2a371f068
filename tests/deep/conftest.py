"""What tests of deep clustering share; one thread: small networks gain nothing from more, and tests share the machine."""

import pytest


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def derivatives():
    """(value, inputs) -> derivatives; None, where a value does not depend on an input, is 0."""
    torch = pytest.importorskip("torch")

    def of(value, inputs):
        found = torch.autograd.grad(value, inputs, allow_unused=True)
        return [torch.zeros_like(x) if d is None else d for d, x in zip(found, inputs, strict=True)]

    return of
