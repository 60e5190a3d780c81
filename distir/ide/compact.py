"""Types in few characters, for hints: `f32[256,8,768]@1`. For people; the full form is that of the language."""

from __future__ import annotations

from distir.ir import HOST, AnyType, TensorType, TupleType, Type, dims, types

WIDEST_TUPLE = 8
"""Of a tuple of more tensors, only their number is told."""


def compact(type: Type) -> str:
    """A type in few characters: element type, dimensions, `@` device (none for host values)."""
    if isinstance(type, TupleType) and type.width > WIDEST_TUPLE:
        return shortened(type)
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


def in_full(type: Type, most: int = 4 * WIDEST_TUPLE) -> str:
    """A type as the language spells it; of a tuple of more than `most` tensors, how many there are and where."""
    if not isinstance(type, TupleType) or type.width <= most:
        return str(type)
    where = ", ".join(map(str, sorted(types.devices(type))))
    return f"Tuple[… {type.width} tensors{' on ' + where if where else ''}]"


def says_something(type: Type) -> bool:
    """Whether anything of a type is known."""
    match type:
        case TensorType(None, None, None) | AnyType(None):
            return False
        case _:
            return True


def _at(device: int | None) -> str:
    return "" if device is None or device == HOST else f"@{device}"
