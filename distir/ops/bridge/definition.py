"""Builds the `Op` of a bridged op, from its ONNX schema and its family."""

from __future__ import annotations

import importlib
import inspect
from functools import cache
from typing import Any

from distir.ir import NO_ATTRIBUTES, Attributes, Dense
from distir.ops.bridge.families import FAMILIES, RANDOM, Meaning
from distir.ops.bridge.left_out import LEFT_OUT
from distir.ops.core import Op
from distir.ops.infer import FOLD_LIMIT
from distir.ops.numeric import to_array, to_dense


@cache
def standard_op(name: str) -> Op | None:
    """The op of the standard ONNX domain with this name; None if it is unsupported, or onnx is not installed."""
    meaning = FAMILIES.get(name)
    return None if meaning is None or not _installed() else _defined(name, meaning)


def hint(name: str) -> str | None:
    """A hint for an unknown op that ONNX has."""
    if name in LEFT_OUT:
        return f"ONNX's `{name}` is {LEFT_OUT[name]}"
    if name in FAMILIES and not _installed():
        return f"`{name}` is an op of ONNX: install `distir[onnx]` to have it"
    return None


DATA_DECIDES = ("Compress", "NonZero")
"""Ops whose results' shapes depend on their operands' values; folded if these are known."""


@cache
def _installed() -> bool:
    try:
        importlib.import_module("onnx.reference")
    except ImportError:
        return False
    return True


def _defined(name: str, meaning: Meaning) -> Op:
    """The op, with a body that has the schema's signature in Python."""
    from distir.ops.bridge.gradients import RULES
    from distir.ops.bridge.inference import check_operands, infer_results
    from distir.ops.bridge.of_pieces import RULES as PIECES
    from distir.ops.bridge.reference import run_reference
    from distir.ops.bridge.schema import schema_of
    from distir.ops.bridge.sharding import layout_of
    from distir.ops.bridge.torch_forms import FORMS

    def body(*operands: Any, count: int = 1, **attrs: Any) -> Any:
        results = run_reference(name, operands, _attributes(attrs), count)
        return results[0] if defined.single_result else results

    def checks(*operands: Any, count: int, **attrs: Any) -> None:
        check_operands(name, operands, count)

    def shapes(*operands: Any, count: int, **attrs: Any) -> Any:
        return infer_results(name, operands, _attributes(attrs), count)

    def partial(*operands: Any, **attrs: Any) -> Any:
        if not all(isinstance(o, Dense) and not o.symbolic and len(o.values) <= FOLD_LIMIT for o in operands):
            return NotImplemented
        return to_dense(run_reference(name, [to_array(o) for o in operands], _attributes(attrs), 1)[0])

    def sharding(*operands: Any, results: Any, **attrs: Any) -> Any:
        return layout_of(defined, operands, results, _attributes(attrs))

    body.__name__ = body.__qualname__ = name
    body.__doc__ = inspect.cleandoc(schema_of(name).doc or name)
    body.__signature__ = _python_signature(name)  # pyright: ignore[reportFunctionMemberAccess]: inspect reads it
    defined = Op(
        name,
        meaning.signatures,
        body,
        flops=meaning.flops,
        contraction=meaning.contraction,
        linear=meaning.linear,
        foldable=meaning.foldable,
        draws=_is_unseeded if name in RANDOM else None,
        family=meaning.family,
    )
    defined.checks(checks)
    defined.shapes(shapes)
    defined.sharding(sharding)
    if name in DATA_DECIDES:
        defined.partial(partial)
    if name in RULES:
        defined.grad(RULES[name])
    if name in PIECES:
        defined.pieces(PIECES[name])
    if name in FORMS:
        defined.torch(FORMS[name].text, fresh=FORMS[name].fresh)
    return defined


def _is_unseeded(*_: Any, seed: float | None = None, **__: Any) -> bool:
    return seed is None


def _attributes(attrs: dict[str, Any]) -> Attributes:
    return Attributes(attrs) if attrs else NO_ATTRIBUTES


def _python_signature(name: str) -> inspect.Signature:
    """The signature of the body: operands by position, attributes by keyword."""
    from distir.ops.bridge.schema import attribute_specs, operand_specs

    parameters = [
        inspect.Parameter(
            spec.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=None if spec.optional else inspect.Parameter.empty,
        )
        for spec in operand_specs(name)
    ]
    parameters += [
        inspect.Parameter(
            spec.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=spec.default,
            annotation=f"{spec.kind} | None" if spec.default is None else spec.kind,
        )
        for spec in attribute_specs(name)
    ]
    count = inspect.Parameter("count", inspect.Parameter.KEYWORD_ONLY, default=1, annotation="int")
    return inspect.Signature([*parameters, count])
