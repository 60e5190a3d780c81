"""What a run gives, tensor by tensor: the parts of tuples by name, and a digest of the elements."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from distir.ir import TupleType, Type


def flattened(name: str, type: Type, value: Any) -> Iterable[tuple[str, Type, Any]]:
    """A value's tensors, those of a tuple as `name.0`, `name.1`, and so on."""
    if not isinstance(value, tuple):
        yield name, type, value
        return
    items = cast("tuple[Any, ...]", value)
    inner = type.items if isinstance(type, TupleType) else (type,) * len(items)
    for index, (item, item_type) in enumerate(zip(items, inner, strict=True)):
        yield from flattened(f"{name}.{index}", item_type, item)


def digest(array: Any) -> str:
    """SHA-256, in hexadecimal, of the elements' bytes: little-endian, in row-major order."""
    import hashlib

    from distir.ops.numeric import to_bytes

    return hashlib.sha256(to_bytes(array)).hexdigest()
