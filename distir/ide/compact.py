"""Types in few characters, for hints: `f32[256,8,768]@1`. For people; the full form is that of the language.

On a mesh with where parts are: `f32[256@dp,768] Σtp` is split along `dp`, and a pending sum over `tp`.
"""

from __future__ import annotations

from itertools import groupby

from distir.ir import HOST, OFFLOADED, AnyType, TensorType, TupleType, Type, types
from distir.ir.places import Places, cuts_of, show_dim, show_qualities

WIDEST_TUPLE = 8
"""At most this many different tensors of a tuple are shown."""

ELIDED = "…"
"""Stands for what is left out; what a hint leaves out is in its tooltip."""


def compact(type: Type) -> str:
    """A type in few characters: element type, dimensions, `@` device (none for host values).

    Equal neighbours in a tuple are counted, and a device that all of it is on is shown once: `(3×f16[768], i64)@1`.
    """
    if isinstance(type, TupleType):
        return _tuple(type, _only_device(type))
    pending = _qualities(type.places) if isinstance(type, TensorType) else ""
    return f"{_unplaced(type)}{_at(type.device)}{pending}"


def shortened(type: Type) -> str:
    """Fewer characters still: without the dimensions, or with the number of a tuple's tensors."""
    match type:
        case TensorType(dtype, shape, device):
            kind = dtype.compact if dtype is not None else "?"
            return f"{kind}[{ELIDED}]{_at(device)}{_qualities(type.places)}" if shape != () else compact(type)
        case TupleType():
            return f"({ELIDED}{type.width}){_at(_only_device(type))}"
        case AnyType():
            return compact(type)


def counted(type: Type, count: int) -> str:
    """The compact type of several values: `3×f16[768]@1`."""
    return compact(type) if count == 1 else f"{count}×{compact(type)}"


def in_full(type: Type, most: int = 4 * WIDEST_TUPLE) -> str:
    """A type as the language spells it; of a tuple of more than `most` tensors, how many there are and where."""
    if not isinstance(type, TupleType) or type.width <= most:
        return str(type)
    where = ", ".join(map(str, sorted(types.devices(type))))
    return f"Tuple[… {type.width} tensors{' on ' + where if where else ''}]"


def says_something(type: Type) -> bool:
    """Whether an element type, a dimension or the tensors of a tuple are known."""
    match type:
        case TensorType(None, shape):
            return any(dim is not None for dim in shape or ())
        case AnyType():
            return False
        case _:
            return True


def _tuple(type: TupleType, device: int | None) -> str:
    """A tuple; `device`: the one shown after the outermost brackets."""
    runs = [(item, len(list(run))) for item, run in groupby(type.items)]
    shown = [_item(item, count, device) for item, count in runs[:WIDEST_TUPLE]]
    more = sum(count for _, count in runs[WIDEST_TUPLE:])
    shown += [f"{ELIDED}{more} more"] if more else []
    return f"({', '.join(shown)}){_at(device)}"


def _item(item: Type, count: int, device: int | None) -> str:
    if device is None:
        text = compact(item)
    elif isinstance(item, TupleType):
        text = _tuple(item, device).removesuffix(_at(device))
    else:
        text = _unplaced(item) + (_qualities(item.places) if isinstance(item, TensorType) else "")
    return text if count == 1 else f"{count}×{text}"


def _unplaced(type: TensorType | AnyType) -> str:
    """A type without its device."""
    if isinstance(type, AnyType):
        return "?"
    kind = type.dtype.compact if type.dtype is not None else "?"
    shape = ["??"] if type.shape is None else [show_dim(d, cuts_of(type.places, k)) for k, d in enumerate(type.shape)]
    sizes = f"[{','.join(shape)}]" if shape else ""
    return f"{OFFLOADED} {kind}{sizes}" if type.offloaded else f"{kind}{sizes}"


def _qualities(places: Places) -> str:
    return "".join(f" {said.replace('sum ', 'Σ')}" for said in show_qualities(places))


def _only_device(type: TupleType) -> int | None:
    """The device that all of a tuple is on; None where there are several, or some that are not known."""
    found = {leaf.device for leaf in types.leaves(type)}
    return next(iter(found)) if len(found) == 1 and not found & {None, HOST} else None


def _at(device: int | None) -> str:
    return "" if device is None or device == HOST else f"@{device}"
