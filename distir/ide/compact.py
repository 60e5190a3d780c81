"""Types in few characters, for hints: `f32[256,8,768]@1`. For people; the full form is that of the language."""

from __future__ import annotations

from distir.ir import HOST, AnyType, TensorType, TupleType, Type, dims


def compact(type: Type) -> str:
    """A type in few characters: element type, dimensions, `@` device (none for host values)."""
    match type:
        case TensorType(dtype, shape, device):
            kind = dtype.compact if dtype is not None else "?"
            sizes = "[??]" if shape is None else f"[{','.join(map(dims.show, shape))}]" if shape else ""
            return f"{kind}{sizes}{_at(device)}"
        case TupleType(items):
            return f"({', '.join(map(compact, items))})"
        case AnyType(device):
            return f"?{_at(device)}"


def shortened(type: Type) -> str:
    """Fewer characters still: without the dimensions, or with the number of a tuple's items."""
    match type:
        case TensorType(dtype, _, device):
            return f"{dtype.compact if dtype is not None else '?'}[…]{_at(device)}"
        case TupleType(items):
            return f"({len(items)} items)"
        case AnyType():
            return compact(type)


def _at(device: int | None) -> str:
    return "" if device is None or device == HOST else f"@{device}"
