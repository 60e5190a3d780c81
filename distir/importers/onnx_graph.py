"""From an ONNX graph to a function: nodes in order, what is known before the program runs folded away.

The walk goes forward with mixed interpretation, so that shapes, conditions and constants are known where they can be.
What is known and small is then written where it is used; what nothing needs any more is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from distir.importers import contributed, control_flow
from distir.importers.batched import unmerged
from distir.importers.core import ImportRefused
from distir.importers.freeing import freed
from distir.importers.names import value_name, word
from distir.importers.onnx_nodes import (
    STANDARD,
    attributes,
    covers,
    described,
    left_out,
    needs,
    ordered,
    with_attributes,
)
from distir.importers.recognition import RULES, rewritten
from distir.importers.resizing import keeps_shape, resized
from distir.importers.simplify import simpler
from distir.importers.sinking import sunk
from distir.importers.translation import Translation
from distir.ir import (
    DISCARD,
    UNKNOWN,
    Apply,
    Attributes,
    Call,
    Dense,
    Function,
    Literal,
    Module,
    Shape,
    TensorType,
    identity,
    names,
    operands,
)
from distir.ops import (
    OPS,
    bridge,
    canonical,
    result_count,
    to_dense,
    type_of,
)

if TYPE_CHECKING:
    import onnx

SAME = ("Identity", "OptionalGetElement")
"""Ops that give their operand: no value here is optional."""

SMALL = 64
"""Constants of at most so many elements are written in the program's text."""


class GraphTranslation(Translation):
    """A function in the making, of the nodes of a graph in order."""

    def nodes(self, nodes: Sequence[onnx.NodeProto]) -> None:
        """Translate nodes, in an order that they can be run in. Raises ImportRefused."""
        for node in ordered(nodes, self.env.__contains__):
            try:
                self.node(node)
            except ImportRefused as refused:
                refused.value = refused.value or next(filter(None, node.output), None)
                raise

    def node(self, node: onnx.NodeProto) -> None:
        """Translate one node. Raises ImportRefused."""
        if not any(node.output):
            return  # it changes nothing
        if (node.domain, node.op_type) in self.functions.protos:
            self._function(node)
        elif (nodes := contributed.expansion(node)) is not None:
            self.used |= {name for part in nodes for name in needs(part)}
            self.nodes(nodes)
        elif nodes := self._with_channel(node):
            self.nodes(nodes)
        elif node.domain == contributed.OURS:
            self.wanted.setdefault(node.output[0], re.sub(r"(?<=[a-z])(?=[A-Z])", "_", node.op_type).lower())
            self._apply(node, node.op_type)
        elif node.domain not in STANDARD:
            self._expanded(node)
        elif node.op_type == "OptionalHasElement":
            present = bool(node.input and node.input[0])
            self.constant(node.output[0], type_constant(present))
        elif node.op_type in control_flow.CONTROL_FLOW:
            control_flow.translate(self, node)
        elif node.input and node.input[0] and (node.op_type in SAME or self._idle_dropout(node)):
            self.env[node.output[0]] = self.env[node.input[0]]
        elif node.op_type in bridge.LEFT_OUT:
            raise left_out(node)
        elif node.op_type == "Constant":
            if node.output[0] not in self.env:  # else it is a weight
                self._constant(node)
        elif node.op_type not in OPS:
            self._apply(node, None, self._opaque(node))
        elif covers(OPS[node.op_type], self._trimmed(node)):
            self._apply(self._trimmed(node), node.op_type)
        else:
            self._expanded(node)

    def _with_channel(self, node: onnx.NodeProto) -> list[onnx.NodeProto]:
        """`STFT` of (batch, samples), as runtimes take it, with the last dimension of 1 that ONNX asks for."""
        if node.domain not in STANDARD or node.op_type != "STFT" or len(self._shape_of(node.input[0]) or ()) != 2:
            return []
        from onnx import TensorProto, helper

        axis, signal = f"{node.output[0]}.axis", f"{node.output[0]}.signal"
        last = helper.make_node("Constant", [], [axis], value=helper.make_tensor(axis, TensorProto.INT64, [1], [2]))
        widened = type(node)()
        widened.CopyFrom(node)
        widened.input[0] = signal
        return [last, helper.make_node("Unsqueeze", [node.input[0], axis], [signal]), widened]

    def _shape_of(self, name: str) -> Shape | None:
        """The shape of a value of the graph; None where it is not known."""
        found = type_of(self.values[self.env[name]]) if name in self.env else None
        return found.shape if isinstance(found, TensorType) else None

    def finish(self, outputs: Iterable[str], small: int = SMALL) -> Function:
        """The function that returns these values of the graph. Raises ImportRefused where one is missing."""
        from distir.importers.settling import settle

        outputs = tuple(outputs)
        for name in outputs:
            if name not in self.env:
                raise ImportRefused(f"a function or branch gives `{name}`, which nothing defines")
        returned = [self.env[name] for name in outputs]
        rewritten(self, returned, RULES)
        function = settle(self.builder, self.statements, self.values, returned, small)
        left = self.replaced - {name for statement in function.body for name in names(operands(statement))}
        self.weights = {name: found for name, found in self.weights.items() if name not in left}
        return replace(function, params=tuple(p for p in function.params if p.name not in left))

    def _opaque(self, node: onnx.NodeProto) -> str:
        """What an op that is not ours is called here: as it is, unless an op of ours has that name."""
        name = word(node.op_type)
        if name in OPS and OPS[name].body.__module__.startswith("distir."):
            name = word(f"{node.domain}.{node.op_type}")
        if name not in OPS:
            self.functions.opaque[name] = node.domain or "ai.onnx"
        return name

    def _apply(self, node: onnx.NodeProto, op: str | None, name: str = "") -> None:
        given = [self.env[name] for name in node.input]
        while given and given[-1] == DISCARD:
            given.pop()
        attrs = Attributes(attributes(None if op is None else OPS[op], node, self.folder))
        args, attrs = canonical(node.op_type, tuple(given), attrs) if op else (tuple(given), attrs)
        args = self._ranked(op, tuple(self._named(arg, node) for arg in args))
        outputs = list(node.output)
        while len(outputs) > 1 and not outputs[-1]:
            outputs.pop()
        if op is not None:
            outputs += [""] * ((result_count(OPS[op], attrs) or 0) - len(outputs))
        if op is not None and outputs[0] not in self.wanted:
            found = simpler(Apply((), op, args, attrs), self.values, self.makers)
            if isinstance(found, str):
                self.env[outputs[0]] = found
                return
            op, args, attrs = found.op, tuple(map(str, found.args)), found.attrs
        if op is not None and self.batch is not None:
            found = freed(self, Apply((), op, args, attrs), self.batch)
            op, args, attrs = found.op, tuple(map(str, found.args)), found.attrs
        behind = False
        if op is not None:
            found = resized(self, unmerged(self, Apply((), op, args, attrs)), value_name(outputs[0] or op))
            op, args, attrs = found.op, tuple(map(str, found.args)), found.attrs
            if op == "Reshape" and outputs[0] not in self.wanted and keeps_shape(self, found):
                self.env[outputs[0]] = args[0]
                return
            hint = value_name(outputs[0] or op) + (".part" if outputs[0] in self.wanted else "")
            found = sunk(self, Apply((hint,), op, args, attrs))
            behind = found.op == "Expand" != op
            op, args, attrs = found.op, tuple(map(str, found.args)), found.attrs
            if op == "Identity" and outputs[0] not in self.wanted:
                self.env[outputs[0]] = args[0]
                return
        results = tuple(self._result(name, ".expanded" if behind else "") for name in outputs)
        self.append(Apply(results, op or name, args, attrs))

    def _ranked(self, op: str | None, args: tuple[str, ...]) -> tuple[str, ...]:
        """The operands with the ranks that ONNX asks for; runtimes take a number for a list of one and back."""
        if op == "Range":
            return tuple(self._alone(arg) for arg in args)
        if op not in ("Squeeze", "Unsqueeze") or len(args) < 2:
            return args
        axes = self.values.get(args[1])
        if not isinstance(axes, Dense) or axes.shape != ():
            return args
        given = self.builder.fresh(f"{args[1]}.list")
        self.values[given] = Dense(axes.dtype, (1,), axes.values)
        return (args[0], given)

    def _alone(self, name: str) -> str:
        """The number in a list of one."""
        stated = type_of(self.values[name])
        if not isinstance(stated, TensorType) or stated.shape != (1,):
            return name
        given = self.builder.fresh(f"{name}.alone")
        self.append(Apply((given,), "Squeeze", (name,)))
        return given

    def compute(self, statement: Apply) -> None:
        """Add an op, on what its operands were before they were expanded."""
        hinted = Apply((f"{statement.results[0]}.part",), statement.op, statement.args, statement.attrs)
        found = sunk(self, hinted)
        self.append(Apply(statement.results, found.op, found.args, found.attrs))

    def _result(self, name: str, suffix: str = "") -> str:
        if not name:
            return DISCARD
        self.env[name] = given = self.builder.fresh(self.wanted.get(name) or value_name(name) + suffix)
        return given

    def _named(self, arg: Any, node: onnx.NodeProto) -> str:
        """An operand by name; attributes of old operator sets that are operands now become constants."""
        if isinstance(arg, str):
            return arg
        given = self.builder.fresh(f"{value_name(node.output[0])}.constant")
        assert isinstance(arg, Literal)
        value = arg.value
        if isinstance(value, tuple):  # axes, pads, sizes
            import numpy as np

            value = to_dense(np.array(value))
        try:
            self.values[given] = type_constant(value)
        except ValueError as error:
            raise ImportRefused(f"{described(node)}: {error}") from None
        return given

    def _constant(self, node: onnx.NodeProto) -> None:
        tensors = [a for a in node.attribute if a.HasField("t")]
        if tensors and node.output[0]:
            self.tensor(node.output[0], tensors[0].t, described(node))
            return
        values = list(attributes(OPS["Constant"], node, self.folder).values())
        if len(values) != 1:
            raise ImportRefused(f"{described(node)} expected one value, found {len(values)}")
        if isinstance(values[0], str) or (isinstance(values[0], tuple) and any(isinstance(v, str) for v in values[0])):
            raise ImportRefused(f"{described(node)} is a string, which the language lacks")
        self.constant(node.output[0], type_constant(values[0]))

    def _idle_dropout(self, node: onnx.NodeProto) -> bool:
        """Whether a node is a `Dropout` that drops nothing, and whose mask is not used."""
        if node.op_type != "Dropout" or any(name in self.used for name in node.output[1:]):
            return False
        mode = self.env[node.input[2]] if len(node.input) > 2 else DISCARD
        flag = self.known(mode)
        return mode == DISCARD or (flag is not None and not flag.values[0])

    def _trimmed(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """The node without the results, behind its first, that are not used."""
        if all(name in self.used or not name for name in node.output[1:]):
            return node
        import onnx

        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        kept = [name if i == 0 or name in self.used else "" for i, name in enumerate(node.output)]
        if node.op_type != "Split":  # there the number of results counts
            copy.output[:] = kept
        return copy

    def _expanded(self, node: onnx.NodeProto) -> None:
        """Translate a node that no op of ours covers as the smaller ones that ONNX defines it by."""
        function = self._definition(node)
        if function is None and node.domain in STANDARD:
            self._apply(self._trimmed(node), node.op_type)
            return
        if function is None:
            self._apply(node, None, self._opaque(node))
            return
        outer, prefix = self.env, value_name(node.output[0])
        inner = {"": DISCARD} | dict.fromkeys(function.input, DISCARD)
        inner |= {name: outer[given] for name, given in zip(function.input, node.input, strict=False)}
        nodes = with_attributes(function.node, node.attribute, _schema_defaults(node))
        finals = dict(zip(function.output, node.output, strict=False))
        for part in nodes:
            part.input[:] = [_renamed(name, function.input, finals, prefix) for name in part.input]
            part.output[:] = [_renamed(name, function.input, finals, prefix) for name in part.output]
        used, self.used = self.used, self.used | {name for part in nodes for name in needs(part)}
        self.env = inner
        self.nodes(nodes)
        inner, self.env, self.used = self.env, outer, used
        missing = next((name for name in node.output if name and name not in inner), None)
        if missing is not None:
            raise ImportRefused(f"{described(node)} gives {len(function.output)} results, and no `{missing}`")
        outer.update((name, inner[name]) for name in node.output if name)

    def _definition(self, node: onnx.NodeProto) -> onnx.FunctionProto | None:
        """What ONNX defines a node by; None if it is a primitive, or an op that a user has registered."""
        from distir.importers.onnx_types import type_proto

        if node.domain not in STANDARD and word(node.op_type) in OPS:
            return None
        return bridge.expansion(node, [type_proto(type_of(self.values[self.env[name]])) for name in node.input])

    def _function(self, node: onnx.NodeProto) -> None:
        """A call of one of the model's functions, made once for each set of attributes and of operands left out."""
        key = (node.domain, node.op_type)
        proto = self.functions.protos[key]
        if key in self.functions.open:
            raise ImportRefused(f"{described(node)} calls a function that calls itself")
        given = attributes(None, node, self.folder)
        if len(node.input) > len(proto.input):
            raise ImportRefused(f"{described(node)} expected {len(proto.input)} operands, found {len(node.input)}")
        taken = {name: passed for name, passed in zip(proto.input, node.input, strict=False) if passed}
        special = (key, frozenset((name, identity(value)) for name, value in given.items()), tuple(taken))
        if special not in self.functions.made:
            self.functions.open.append(key)
            inner = GraphTranslation(self.functions.name(value_name(node.op_type)), self.functions, self.folder)
            inner.env |= dict.fromkeys(proto.input, DISCARD)
            for name in taken:
                inner.parameter(name, UNKNOWN, {})
            body = with_attributes(proto.node, node.attribute, proto.attribute_proto)
            inner.used = frozenset(name for n in body for name in needs(n)) | frozenset(proto.output)
            inner.nodes(body)
            self.functions.made[special] = inner.finish(proto.output)
            self.functions.domain.module = Module(self.functions.made.values())
            self.functions.open.pop()
        passed = [self.env[name] for name in taken.values()]
        outputs = [*node.output, *[""] * (len(proto.output) - len(node.output))]
        results = tuple(self._result(name) for name in outputs)
        self.append(Call(results, self.functions.made[special].name, tuple(passed)))


def type_constant(value: Any) -> Dense:
    """A plain constant as a tensor."""
    from distir.ops import dense

    return dense(value)


def _schema_defaults(node: onnx.NodeProto) -> list[onnx.AttributeProto]:
    from distir.ops.bridge.schema import node_schema

    schema: Any = node_schema(node)
    declared: list[Any] = [a.default_value for a in schema.attributes.values()]
    return [a for a in declared if a.name]


def _renamed(name: str, inputs: Iterable[str], finals: Mapping[str, str], prefix: str) -> str:
    """A name inside an expansion: the node's own for what goes out, with a prefix for what stays inside."""
    if not name or name in inputs:
        return name
    return finals.get(name) or f"{prefix}.{name}"
