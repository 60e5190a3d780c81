"""What the rules of `dir.lark` for strings, lists and tensors mean. See `reading`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, cast

from distir.diagnostics.codes import syntax as codes
from distir.files import limits
from distir.ir import DTYPES, Dense, DType, External
from distir.ir.dtypes import INTEGER_RANGES
from distir.syntax.fault import Fault, meant
from distir.syntax.types import device, dtype


def string(parts: list[Any]) -> str:
    try:
        return json.loads(parts[0], strict=False)
    except ValueError as error:
        hint = (
            'write `\\\\` for a backslash; the others are `\\"`, `\\n`, `\\t`, `\\r`, `\\b`, `\\f`, `\\/` and `\\u0041`'
        )
        raise Fault(codes.BAD_STRING, "the string has a `\\` that means nothing", hint) from error


def word(parts: list[Any]) -> DType:
    (name,) = parts
    if name not in DTYPES:
        hint = meant(name, ["true", "false", *DTYPES]) or f'a value is written `%{name}`, a string `"{name}"`'
        raise Fault(codes.UNKNOWN_WORD, f"expected a constant, found the word `{name}`", hint)
    return DTYPES[name]


def dense(parts: list[Any]) -> Dense:
    name, sizes, nested = parts
    element = _element(name)
    shape, flat = _flatten(nested)
    if sizes is not None:
        count = math.prod(sizes)
        if count > limits.ELEMENTS:
            raise Fault(codes.BAD_DENSE, f"a tensor of {count} elements is too large to be written here", child=1)
        if shape == () and sizes != ():
            flat = flat * count
        elif shape != sizes and (len(shape) != 1 or len(flat) != count):
            raise Fault(codes.BAD_DENSE, f"expected {count} values, found {len(flat)}: the shape is {sizes}", child=2)
        shape = sizes
    return Dense(element, shape, _elements(element, flat))


def external(parts: list[Any]) -> External:
    name, sizes, text = parts
    element = _element(name)
    reference = string([text])
    wrong = _wrong_reference(reference)
    if wrong:
        hint = 'only files in the program\'s own folder may be named: `"model.safetensors#name"`'
        raise Fault(codes.BAD_REFERENCE, f"{wrong}, found `{reference}`", hint, 2)
    return External(element, sizes, reference)


def _element(name: str) -> DType:
    try:
        element = dtype([name])
    except Fault as fault:
        fault.child = 0
        raise
    assert element is not None
    return element


def sizes(parts: list[Any]) -> tuple[int, ...]:
    return tuple(device([digits]) for digits in parts)


def _flatten(value: Any) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """The shape of nested lists, and the values in row-major order."""
    shape: list[int] = []
    level: tuple[Any, ...] = (value,)
    while level and isinstance(level[0], tuple):
        lengths = {len(cast("tuple[Any, ...]", item)) if isinstance(item, tuple) else -1 for item in level}
        if len(lengths) != 1:
            raise Fault(codes.BAD_DENSE, "the rows of the tensor differ in length", child=2)
        shape.append(lengths.pop())
        level = tuple(item for row in level for item in row)
    if any(isinstance(item, tuple) for item in level):
        raise Fault(codes.BAD_DENSE, "the rows of the tensor differ in length", child=2)
    return tuple(shape), level


def _elements(element: DType, values: tuple[Any, ...]) -> tuple[bool | int | float, ...]:
    kinds = set(map(type, values))
    allowed = {"bool": {bool}, "float": {int, float}}.get(element.kind, {int})
    if not kinds <= allowed:
        wrong = next(item for item in values if type(item) not in allowed)
        wanted = {"bool": "`true` or `false`", "float": "numbers"}.get(element.kind, "integers")
        shown = (
            wrong
            if isinstance(wrong, DType)
            else json.dumps(wrong)
            if isinstance(wrong, (str, bool, int, float))
            else "a tensor"
        )
        raise Fault(codes.BAD_DENSE, f"expected {wanted} in a tensor of {element}, found `{shown}`", child=2)
    if element.kind == "float":
        return tuple(map(float, values))
    if values and element in INTEGER_RANGES:
        allowed_range = INTEGER_RANGES[element]
        for wrong in (min(values), max(values)):
            if wrong not in allowed_range:
                low, high = allowed_range[0], allowed_range[-1]
                message = f"`{wrong}` does not fit in {element}, which holds {low} to {high}"
                raise Fault(codes.BAD_DENSE, message, child=2)
    return values


def _wrong_reference(reference: str) -> str | None:
    path = reference.split("#")[0]
    if not path:
        return "expected a file's name"
    if "\0" in reference or "\\" in reference:
        return "expected a path with `/`, without backslashes and NUL characters"
    if path.startswith("/") or ":" in path:
        return "expected a relative path"
    if ".." in path.split("/"):
        return "expected a path without `..`"
    return None


RULES: dict[str, Callable[[list[Any]], Any]] = {
    "list": tuple,
    "string": string,
    "true": lambda _: True,
    "false": lambda _: False,
    "word": word,
    "dense": dense,
    "external": external,
    "sizes": sizes,
}
