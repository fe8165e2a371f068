"""Two kinds of arrays: NumPy's, for the compiled kernels, and torch tensors, which stay on their device.

Only kernels ask which kind they have: one that has a tensor form names the module that holds it, and the tensor form is called
where the first argument is a tensor. A tensor in the memory of the host needs none: it is an array by another name, and is worked
on as it lies. Nothing here imports torch unless it is given a tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from ._parameters import is_tensor

HOST = ("cpu",)  # devices whose memory the compiled kernels can read

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def with_tensor_form(module: str) -> Callable[[Kernel], Kernel]:
    """A decorator: the function of the same name in ``module`` takes over where the first argument is a tensor."""

    def decorate(compiled: Kernel) -> Kernel:
        @wraps(compiled)
        def of_either_kind(first: Any, *rest: Any, **named: Any) -> Any:
            if isinstance(first, np.ndarray) or not is_tensor(first):
                return compiled(first, *rest, **named)
            return getattr(import_module(module), compiled.__name__)(first, *rest, **named)

        return of_either_kind  # type: ignore[return-value]

    return decorate


def on_device(X: Any) -> bool:
    """A tensor that the compiled kernels cannot read."""
    return is_tensor(X) and X.device.type not in HOST


def like(reference: Any, values: Any) -> Any:
    """``values``, an array, as they are, or as a tensor on the device of ``reference`` if that is a tensor.

    The host does not wait for the device.
    """
    if not is_tensor(reference):
        return values
    writable = values if is_tensor(values) else np.require(values, requirements="W")
    return import_module("torch").as_tensor(writable).to(reference.device, non_blocking=True)


def joined(parts: list[Any]) -> Any:
    """Arrays, or tensors, one after the other."""
    return import_module("torch").cat(parts) if is_tensor(parts[0]) else np.concatenate(parts)
