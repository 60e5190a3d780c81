"""ONNX nodes in our terms: attributes, which of our ops covers a node, and what a node is called in messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from distir.importers.core import ImportRefused
from distir.importers.names import word
from distir.importers.onnx_file import weight
from distir.ir import Constant, Dense
from distir.ops import Op, bridge, to_dense
from distir.ops.attributes import attribute_named
from distir.ops.bridge.schema import OPSET, dtype_numbered

if TYPE_CHECKING:
    import onnx

STANDARD = ("", "ai.onnx")
"""The names of ONNX's own domain."""

OTHER_RESULTS = frozenset(("Attention",))
"""Ops whose further results are not ONNX's: here the log-sum-exp of the scores, there a cache's keys and values."""

LARGEST_ATTRIBUTE = 1 << 16
"""Elements of a tensor that an attribute may hold in a program's text."""


def described(node: onnx.NodeProto) -> str:
    """How messages name a node: by its own name, else by what it gives."""
    return f"the `{node.op_type}` node `{node.name or ', '.join(filter(None, node.output))}`"


def left_out(node: onnx.NodeProto) -> ImportRefused:
    """Why a node of the standard domain cannot be imported."""
    return ImportRefused(f"{described(node)} is {bridge.LEFT_OUT[node.op_type]}")


def covers(op: Op, node: onnx.NodeProto) -> bool:
    """Whether our op says all that the node says; else the node is to be expanded."""
    operands = {operand.name for operand in op.operands}
    unknown = (
        attribute_named(op, a.name) is None and a.name not in operands and not _is_default(node.op_type, a)
        for a in node.attribute
    )
    places = len(node.input) if op.variadic is not None else len(op.operands)
    single = (op.single_result or op.name in OTHER_RESULTS) and any(node.output[1:])
    return not any(unknown) and not any(node.input[places:]) and not single and _named_alike(op, node)


def _named_alike(op: Op, node: onnx.NodeProto) -> bool:
    """Whether the operands that a node gives are called here as in ONNX: ours may have others in their places."""
    import onnx.defs

    if op.variadic is not None:
        return True
    theirs = [declared.name for declared in onnx.defs.get_schema(node.op_type, OPSET, "").inputs]
    pairs = zip(op.operands, theirs, node.input, strict=False)
    return all(ours.name.lower() == name.lower() for ours, name, given in pairs if given)


def attributes(op: Op | None, node: onnx.NodeProto, folder: str) -> dict[str, Constant]:
    """A node's attributes as our op wants them. Raises ImportRefused for what no constant of ours can hold.

    Those that only say what is assumed anyway are left out, but for `axis`, which readers look for.
    """
    found: dict[str, Constant] = {}
    for given in node.attribute:
        spec = None if op is None else attribute_named(op, given.name)
        known = op is None or spec is not None or any(o.name == given.name for o in op.operands)
        if not known and _is_default(node.op_type, given):
            continue
        value = _constant(node, given, folder)
        if spec is not None and spec.kind.startswith("DType") and isinstance(value, int):
            dtype = dtype_numbered(value)
            if dtype is None and value:
                raise ImportRefused(f"{described(node)} asks for elements that the language lacks (`{given.name}`)")
            if dtype is not None:
                found[spec.name] = dtype
            continue
        if spec is not None and spec.kind.startswith("bool"):
            value = bool(value)
        if spec is None or value != spec.default or spec.name == "axis":
            found[word(given.name) if spec is None else spec.name] = value
    return found


def shortest(value: float) -> float:
    """The number with the fewest digits that 32 bits round to the same; ONNX keeps attributes in 32 bits."""
    import numpy as np

    return float(str(np.float32(value)))


def with_attributes(
    nodes: Iterable[onnx.NodeProto], given: Sequence[onnx.AttributeProto], defaults: Sequence[onnx.AttributeProto] = ()
) -> list[onnx.NodeProto]:
    """The nodes of an ONNX function with the attributes of a call in place of references to them."""
    import onnx

    values = {a.name: a for a in defaults} | {a.name: a for a in given}
    filled: list[onnx.NodeProto] = []
    for node in nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        del copy.attribute[:]
        for attribute in node.attribute:
            if not attribute.ref_attr_name:
                copy.attribute.append(attribute)
            elif attribute.ref_attr_name in values:
                copy.attribute.append(values[attribute.ref_attr_name])
                copy.attribute[-1].name = attribute.name
        filled.append(copy)
    return filled


def ordered(nodes: Sequence[onnx.NodeProto], available: Callable[[str], bool]) -> list[onnx.NodeProto]:
    """The nodes such that each stands after those that it needs; as they are where they stand so already.

    Raises ImportRefused for a cycle, and for a value that nothing defines.
    """
    makers = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    waiting = {i: {makers[name] for name in needs(node) if name in makers} for i, node in enumerate(nodes)}
    for node in nodes:
        for name in needs(node):
            if name not in makers and not available(name):
                raise ImportRefused(f"{described(node)} uses `{name}`, which nothing defines")
    if all(max(before, default=-1) < i for i, before in waiting.items()):
        return list(nodes)
    users: dict[int, list[int]] = {}
    for i, before in waiting.items():
        for j in before:
            users.setdefault(j, []).append(i)
    ready = [i for i, before in waiting.items() if not before]
    done: list[int] = []
    while ready:
        i = ready.pop(0)
        done.append(i)
        for user in users.get(i, ()):
            waiting[user].discard(i)
            if not waiting[user]:
                ready.append(user)
    if len(done) < len(nodes):
        stuck = next(i for i, before in waiting.items() if before and i not in done)
        raise ImportRefused(f"the graph has a cycle: {described(nodes[stuck])} needs its own result")
    return [nodes[i] for i in done]


def needs(node: onnx.NodeProto) -> list[str]:
    """The values that a node uses, those of the graphs inside it too, as far as they come from outside."""
    found = [name for name in node.input if name]
    for attribute in node.attribute:
        for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            inner = {name for n in graph.node for name in n.output}
            inner |= {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
            wanted = [name for n in graph.node for name in needs(n)] + [value.name for value in graph.output]
            found += [name for name in wanted if name not in inner]
    return found


def _constant(node: onnx.NodeProto, given: onnx.AttributeProto, folder: str) -> Constant:
    import onnx

    kinds = onnx.AttributeProto
    if given.type == kinds.TENSOR:
        return tensor_constant(given.t, folder, described(node))
    if given.type == kinds.FLOAT:
        return shortest(given.f)
    if given.type == kinds.INT:
        return int(given.i)
    if given.type == kinds.STRING:
        return given.s.decode("utf-8", errors="replace")
    if given.type == kinds.FLOATS:
        return tuple(map(shortest, given.floats))
    if given.type == kinds.INTS:
        return tuple(map(int, given.ints))
    if given.type == kinds.STRINGS:
        return tuple(s.decode("utf-8", errors="replace") for s in given.strings)
    kind = kinds.AttributeType.Name(given.type).lower().replace("_", " ")
    raise ImportRefused(f"{described(node)} has the attribute `{given.name}`, a {kind}, which no constant can be")


def tensor_constant(tensor: onnx.TensorProto, folder: str, where: str) -> Dense:
    """A tensor as a constant of the program's text. Raises ImportRefused for one that is too large for that."""
    found = weight(tensor, folder)
    array = found.load()
    if array.size > LARGEST_ATTRIBUTE:
        raise ImportRefused(f"{where} holds a constant of {array.size} elements", "make it an initializer")
    return to_dense(array)


def _is_default(name: str, given: onnx.AttributeProto) -> bool:
    """Whether an attribute only says what ONNX's schema assumes."""
    import onnx.defs
    from onnx import helper

    try:
        declared = cast("Any", onnx.defs.get_schema(name, OPSET, "").attributes[given.name].default_value)
        return bool(helper.get_attribute_value(declared) == helper.get_attribute_value(given))
    except (KeyError, ValueError, onnx.defs.SchemaError):
        return False
