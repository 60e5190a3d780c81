"""Functions with named dimensions replaced by sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from distir.ir import types
from distir.ir.core import Apply, Call, Function
from distir.ir.types import Dim, Type


def with_sizes(function: Function, sizes: Mapping[str, Dim]) -> Function:
    """The function with named dimensions replaced in its type annotations."""

    def sized(stated: Type | None) -> Type | None:
        return None if stated is None else types.substitute(stated, sizes)

    params = tuple(replace(param, type=types.substitute(param.type, sizes)) for param in function.params)
    body = tuple(
        replace(s, claims=tuple(map(sized, s.claims))) if isinstance(s, (Apply, Call)) and s.claims else s
        for s in function.body
    )
    returned = function.result_types and tuple(types.substitute(stated, sizes) for stated in function.result_types)
    return replace(function, params=params, body=body, result_types=returned)
