"""Eight float64 numbers as one value inside kernels: loops that LLVM leaves scalar keep them in vector registers.

A `vector` lives between `load` and `store` only. It is LLVM's ``<8 x double>``, which every processor can run: one register of
AVX-512, two of AVX2, four of SSE2 or NEON.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

WIDTH = 8

_EIGHT = ir.VectorType(ir.DoubleType(), WIDTH)
_typed: Any = intrinsic  # mypy would count the typing context among the arguments
_FUSED = ("contract", "nsz")  # multiply and add in one rounding where the processor can; no re-association


class Vector(types.Type):
    """Numba's type of eight float64 numbers."""

    def __init__(self) -> None:
        super().__init__(name="Vector(8 x float64)")


vector: Any = Vector()


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    """A value in registers."""

    def __init__(self, manager: Any, numba_type: Any) -> None:
        super().__init__(manager, numba_type, _EIGHT)


def _address(context: Any, builder: Any, array_type: Any, array: Any, start: Any) -> Any:
    """Pointer to entries start .. start + 8 of a contiguous one-dimensional float64 array."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [start]), _EIGHT.as_pointer())


def _check_flat(array_type: Any) -> None:
    if (array_type.ndim, array_type.layout, array_type.dtype) != (1, "C", types.float64):
        raise TypeError(f"vectors are read from flat float64 arrays; this one is {array_type}")


@_typed
def zeros(typingctx: Any) -> Any:
    """A vector of zeros."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(_EIGHT, [0.0] * WIDTH)

    return vector(), codegen


@_typed
def load(typingctx: Any, array: Any, start: Any) -> Any:
    """array[start : start + 8]; nothing checks the bounds."""
    _check_flat(array)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_address(context, builder, signature.args[0], *args), align=8)

    return vector(array, types.intp), codegen


@_typed
def store(typingctx: Any, array: Any, start: Any, x: Any) -> Any:
    """array[start : start + 8] = x; nothing checks the bounds."""
    _check_flat(array)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _address(context, builder, signature.args[0], args[0], args[1]), align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), codegen


@_typed
def add(typingctx: Any, x: Any, y: Any) -> Any:
    """x + y."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fadd(*args)

    return vector(vector, vector), codegen


@_typed
def add_scaled(typingctx: Any, total: Any, scale: Any, x: Any) -> Any:
    """total + scale x, for a number ``scale``."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        total, scale, x = args
        undefined = ir.Constant(_EIGHT, ir.Undefined)
        first = builder.insert_element(undefined, scale, ir.Constant(ir.IntType(32), 0))
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
        product = builder.fmul(builder.shuffle_vector(first, undefined, everywhere), x, flags=_FUSED)
        return builder.fadd(total, product, flags=_FUSED)

    return vector(vector, types.float64, vector), codegen
