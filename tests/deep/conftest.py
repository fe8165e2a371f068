"""One thread: small networks gain nothing from more, and tests share the machine."""

import pytest


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
