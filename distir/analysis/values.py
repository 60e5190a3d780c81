"""The domain of concrete values: numpy arrays, and tuples of them. What the reference executor computes in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from distir.analysis.interpreter import Domain, algorithm_1
from distir.analysis.known_ops import lookup
from distir.ir import Apply, Arg, Call, Dense, External, Literal, Module, TensorType, TupleType
from distir.ir.deep import Deep
from distir.ops import Op, Value, bind, dense, dtype_of, infer_types, run, strengthen, to_array, type_of
from distir.ops.definition import check_results, is_built_in


@dataclass
class Values(Domain):
    """Concrete values: numpy arrays, and tuples of them. The reference executor's domain (section 3.1)."""

    module: Module
    load: Any = None
    """From an `External` to its array."""

    def apply(self, op: Apply, vs: tuple[Any, ...]) -> Sequence[Any]:
        """The arrays that the op's body computes. Raises Reject; DefinitionError for an op of others at fault."""
        definition = lookup(op.op)
        attrs = bind(definition, op.attrs)
        if any(isinstance(v, (Literal, Dense, External)) for v in vs):
            vs = self._arrays(definition, op, vs)
        loaded = {n: self.load(v) for n, v in attrs.items() if isinstance(v, External)} if self.load is not None else {}
        found = run(definition, vs, {**attrs, **loaded}, len(op.results))
        if not is_built_in(definition):
            stated = infer_types(definition, [abstract(v) for v in vs], op.attrs, len(op.results))
            check_results(definition, stated, [type_of(abstract(v)) for v in found])
        return found

    def called(self, call: Call, vs: tuple[Any, ...]) -> Deep[Sequence[Any]]:
        """What the function returns for these arrays."""
        rho = yield algorithm_1(self.module.functions[call.function], vs, self)
        return rho.returned

    def constant(self, arg: Arg) -> Any:
        """A literal is its own value, until an op needs its array."""
        return arg

    def _arrays(self, definition: Op, op: Apply, vs: tuple[Any, ...]) -> tuple[Any, ...]:
        """The operands as arrays, literals with the element types of their neighbours."""
        strong = strengthen(definition, [abstract(v) for v in vs], op.attrs)
        return tuple(
            self.array(s) if isinstance(v, (Literal, Dense, External)) else v for v, s in zip(vs, strong, strict=True)
        )

    def array(self, v: Any) -> Any:
        """A value as an array, constants too."""
        match v:
            case External():
                return self.load(v)
            case Dense():
                return to_array(v)
            case Literal():
                return to_array(dense(v.value))
            case _:
                return v


def abstract(v: Any) -> Value:
    """The type of a concrete value; its device is left open, for arrays know none."""
    if v is None or isinstance(v, (Literal, Dense, External)):
        return v
    if isinstance(v, tuple):
        return TupleType(tuple(type_of(abstract(item)) for item in cast("tuple[Any, ...]", v)))
    return TensorType(dtype_of(v), tuple(v.shape), None)
