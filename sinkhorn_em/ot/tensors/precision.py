"""Products of single-precision tensors in single precision, whatever other products of the program may be shortened to.

``torch.set_float32_matmul_precision("high")``, ``torch.backends.cuda.matmul.allow_tf32`` and their like let the factors of every
product be cut to 10 bits (TF32) or 7 (bfloat16). That is enough for a network, but not for distances, which are small differences
of products, nor for their derivatives, nor for the overlaps of columns, on which the number of passes depends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

import torch
from torch import Tensor

SHORT = {"tf32": "ieee", "bf16": "ieee", "high": "highest", "medium": "highest"}  # settings, and what replaces them
LOCK = RLock()  # a setting is the whole program's; it is read when a product is launched, and no later


def product(x: Tensor, y: Tensor) -> Tensor:
    """x y' (..., m, K) of x (..., m, d) and y (..., K, d), neither it nor its derivatives shortened."""
    shortened = x.dtype == torch.float32 and precision_on(x.device) in SHORT
    return _Product.apply(x, y) if shortened else x @ y.mT


class _Product(torch.autograd.Function):
    """A product whose derivatives are taken when the program's setting holds again."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        with full_precision(x.device):
            return x @ y.mT

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        return product(upstream, y.mT).sum_to_size(x.shape), product(upstream.mT, x.mT).sum_to_size(y.shape)


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """Inside, no product of float32 tensors on such a device is shortened; then the setting is what it was."""
    with LOCK:
        before = precision_on(device)
        if before not in SHORT:
            yield
            return
        try:
            _set(device, SHORT[before])
            yield
        finally:
            _set(device, before)


def precision_on(device: torch.device) -> str:
    """The setting for products of float32 tensors on a device."""
    own = _settings(device)
    return torch.get_float32_matmul_precision() if own is None else own.fp32_precision


def _set(device: torch.device, precision: str) -> None:
    own = _settings(device)
    if own is None:
        torch.set_float32_matmul_precision(precision)
        return
    own.fp32_precision = "none"  # where it follows a more general setting, it goes on doing so
    if own.fp32_precision != precision:
        own.fp32_precision = precision


def _settings(device: torch.device) -> Any:
    """Of the products on a device; None before torch 2.9, where there is one setting for all devices."""
    backends: Any = torch.backends
    if not hasattr(backends.cuda.matmul, "fp32_precision"):
        return None
    return backends.mkldnn.matmul if device.type == "cpu" else backends.cuda.matmul
