"""Completion: ops, functions, attributes with defaults, types, devices, templates.

Works in statements that are still broken: only what stands before the cursor counts. Values are `completion_values`'s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from distir.ide.completion_items import Completion, CompletionKind, Completions
from distir.ide.completion_values import values
from distir.ide.context import CursorContext, CursorRole, context_at
from distir.ide.document import Document
from distir.ide.instances import View
from distir.ide.operands import devices_used, values_of
from distir.ide.templates import FUNCTIONS, KERNEL_SAYS, KEYWORDS, STATEMENTS, Template
from distir.ir import DTYPES, OFFLOADED, UNKNOWN, Apply, Call, Function, Return, TensorType, types
from distir.ir.facts import FACTS, PHASES
from distir.ir.places import IN_ZIGZAG, MESH, NOUNS, OWNED, PENDING, ZIGZAG
from distir.ir.roles import ROLES
from distir.ops import FAMILIES, OPS, REQUIRED, Op, bridge, type_of
from distir.ops.attributes import attribute_named
from distir.ops.mesh import COLLECTIVES
from distir.ops.specs import AttributeSpec
from distir.ops.tuples import TUPLING
from distir.syntax import print_literal
from distir.syntax.tokens import KERNEL, STREAM_WORD


def completions(document: Document, offset: int, shown: View | None = None) -> Completions:
    """The completions at an offset. `shown`: the document as it is shown. Never fails, for any text."""
    view = (shown or View(document, None)).seen_from(offset)
    document = view.document
    context = context_at(document.program.syntax, offset)
    match context.role:
        case CursorRole.OPERAND if context.typed[:1] not in ("@",):
            return values(view, context)
        case CursorRole.RETURNED:
            return values(view, context)
        case CursorRole.CALLEE:
            found = _callees(document, context)
        case CursorRole.STATEMENT:
            found = list(map(_template, STATEMENTS))
        case CursorRole.FUNCTION:
            found = list(map(_template, FUNCTIONS))
        case CursorRole.ATTRIBUTE:
            found = _attributes(context)
        case CursorRole.ATTRIBUTE_VALUE:
            found = _attribute_values(view, context)
            if context.typed.startswith('"'):  # in a string: its quotes are replaced with those of the word
                found = [each for each in found if each.label.startswith('"')]
        case CursorRole.TYPE:
            found = _types(document)
        case CursorRole.DTYPE:
            found = _dtypes()
        case CursorRole.DEVICE:
            found = [*_devices(document), Completion("host", CompletionKind.CONSTANT, "host", "a host value")]
        case CursorRole.AXIS:
            sign = context.typed[:1]  # `@` is there already, and replaced with the name
            found = [*_axes_of_mesh(document, sign), _zigzag(sign)]
        case CursorRole.AXIS_IN_ZIGZAG:
            found = _axes_of_mesh(document)
        case CursorRole.QUALITY:
            found = _pending(document)
        case CursorRole.PARAM_ROLE:
            found = _roles()
        case CursorRole.BEHIND:
            says = "the stream on which the statement runs"
            found = [Completion(STREAM_WORD, CompletionKind.KEYWORD, STREAM_WORD, says, f"{STREAM_WORD} ${{1:reduce}}")]
        case CursorRole.STREAM:
            found = _streams(document, context)
        case CursorRole.FACT:
            found = list(_facts())
        case CursorRole.FACT_OF:
            params = context.function.function.params if context.function is not None else ()
            found = [Completion(f"%{p.name}", CompletionKind.CONSTANT, f"%{p.name}", str(p.type)) for p in params]
        case CursorRole.MARK:
            found = [_mark(document, offset), _mesh(), *_facts()]
        case _:
            found = []
    return Completions(context.word, tuple(found))


def documentation(op: str) -> str | None:
    """The documentation of an op as Markdown, with signatures and examples; None for an unknown op."""
    if op not in OPS:
        return None
    found = OPS[op]
    signatures = "\n".join(found.signature_texts)
    examples = "\n".join(found.examples)
    return f"```\n{signatures}\n```\n\n{found.documentation}" + (f"\n\n```dir\n{examples}\n```" if examples else "")


# ---- ops and functions


def _callees(document: Document, context: CursorContext) -> list[Completion]:
    own = context.function.function.name if context.function is not None else ""
    found = [_function(f) for f in document.program.module if f.name and f.name != own]
    if not context.typed.startswith("@"):
        found += map(_op, _by_use(document))
        bridged = (name for name in sorted(bridge.NAMES) if name not in set(OPS))
        found += [Completion(name, CompletionKind.OP, name, "op of ONNX", None, name) for name in bridged]
    return found


def _by_use(document: Document) -> list[Op]:
    """The ops: those that the program uses most, then in the order in which the families are documented.

    Those on tuples, which compute nothing, are among the others however often they are used.
    """
    body = (statement for f in document.program.syntax.functions for statement in f.function.body)
    used = Counter(each.op for each in body if isinstance(each, Apply) and each.op not in TUPLING)
    families = {module.__name__.rpartition(".")[2]: number for number, module in enumerate(FAMILIES)}
    return sorted(map(OPS.__getitem__, OPS), key=lambda op: (-used[op.name], families.get(op.family, -1), op.name))


def _function(function: Function) -> Completion:
    params = ", ".join(f"%{p.name}" for p in function.params)
    places = ", ".join(f"${{{i}:%{p.name}}}" for i, p in enumerate(function.params, 1))
    label = f"@{function.name}"
    returned = function.body[-1] if function.body else None
    count = len(returned.args) if isinstance(returned, Return) else 0
    detail = f"({params}) -> {count} result{'' if count == 1 else 's'}"
    return Completion(label, CompletionKind.FUNCTION, f"{label}(", detail, f"{label}({places})")


def _op(op: Op) -> Completion:
    needed = [a for a in op.attributes.values() if a.default is REQUIRED]
    attributes = ", ".join(f"{a.name} = ${{{i}}}" for i, a in enumerate(needed, 1))
    places = [f"${{{i}:%{o.name}}}" for i, o in enumerate((o for o in op.operands if not o.optional), len(needed) + 1)]
    brackets = f"[{attributes}]" if attributes else ""
    snippet = f"{op.name}{brackets}({', '.join(places)})"
    opening = "[" if attributes else "("
    return Completion(op.name, CompletionKind.OP, f"{op.name}{opening}", op.signature_texts[0], snippet, op.name)


# ---- attributes


def _attributes(context: CursorContext) -> list[Completion]:
    """The attributes that are not given yet: those that must be first, with their defaults."""
    operation = context.operation
    if operation is None or operation.callee not in OPS:
        return []
    op = OPS[operation.callee]
    left = [a for a in op.attributes.values() if a.name not in operation.attrs]
    return [_attribute(a, op.name) for a in sorted(left, key=lambda a: a.default is not REQUIRED)]


def _attribute(attribute: AttributeSpec, op: str) -> Completion:
    kind = attribute.kind.removesuffix(" | None")
    if attribute.default is REQUIRED:
        detail, value = f"{kind}, required", "${1}"
    elif attribute.default is None:
        detail, value = f"{kind}, optional", "${1}"
    else:
        shown = print_literal(attribute.default)
        detail, value = f"{kind} = {shown}", f"${{1:{_escaped(shown)}}}"
    name = attribute.name
    return Completion(name, CompletionKind.ATTRIBUTE, f"{name} = ", detail, f"{name} = {value}", op)


def _escaped(text: str) -> str:
    """A text within a place of a snippet."""
    return text.replace("\\", "\\\\").replace("$", "\\$").replace("}", "\\}")


def _attribute_values(view: View, context: CursorContext) -> list[Completion]:
    """Values of the attribute's kind: flags, element types, devices, axes; its default."""
    document = view.document
    operation = context.operation
    assert operation is not None
    if operation.callee not in OPS:
        return []
    op = OPS[operation.callee]
    attribute = attribute_named(op, context.attribute or "")
    if attribute is None:
        return []
    kind = attribute.kind.removesuffix(" | None")
    default = attribute.default
    found: list[Completion] = []
    if default is not REQUIRED and default is not None and kind != "bool":
        shown = print_literal(default)
        found.append(Completion(shown, CompletionKind.CONSTANT, shown, "the default"))
    if kind == "bool":
        both = ("true", "false") if default is not True else ("false", "true")
        found += [Completion(w, CompletionKind.CONSTANT, w, "the default" if w == _word(default) else "") for w in both]
    elif kind == "DType":
        found += _dtypes()
    elif attribute.name in _device_attributes(op):
        devices = _devices(document)
        found += devices
        if kind.startswith("tuple"):
            listed = f"[{', '.join(d.label for d in devices[:-1])}]"
            found = [Completion(listed, CompletionKind.CONSTANT, listed, "the devices in use")]
    elif op.name in COLLECTIVES and attribute.name == "axis":
        found = _axes_of_mesh(document, '"', '"')
    elif kind == "int" and ("axis" in attribute.name or op.name in COLLECTIVES):
        found += [c for c in _axes(view, context) if c.label != str(default)]
    return found


def _axes_of_mesh(document: Document, before: str = "", behind: str = "") -> list[Completion]:
    """The axes of the mesh, with what stands before and behind each."""
    return [
        Completion(label, CompletionKind.CONSTANT, label, f"the axis {axis} of the mesh, {size} devices")
        for axis, size in document.program.module.meshes.axes
        for label in [f"{before}{axis}{behind}"]
    ]


def _zigzag(sign: str) -> Completion:
    """Parts in zig-zag along an axis."""
    text = f"{sign}{ZIGZAG}("
    return Completion(f"{sign}{ZIGZAG}", CompletionKind.KEYWORD, text, IN_ZIGZAG, f"{text}${{1:cp}})")


def _pending(document: Document) -> list[Completion]:
    """What may follow the device of a tensor."""
    found = [Completion(OFFLOADED, CompletionKind.KEYWORD, OFFLOADED, "in the memory of the device's host")]
    for axis, size in document.program.module.meshes.axes:
        one = f"{OWNED} {axis} 1"
        detail = f"on the first of {size} devices along the axis {axis} alone"
        found.append(Completion(one, CompletionKind.KEYWORD, one, detail))
    for how in PENDING:
        for axis, size in document.program.module.meshes.axes:
            detail = f"a pending {NOUNS[how]} over the axis {axis}, {size} devices"
            found.append(Completion(f"{how} {axis}", CompletionKind.KEYWORD, f"{how} {axis}", detail))
    return found


def _word(default: object) -> str:
    return str(default).lower()


def _device_attributes(op: Op) -> set[str]:
    """The attributes that the signature takes devices from."""
    terms = {p.pattern.device for s in op.signatures for p in (*s.operands, *s.results) if p.pattern.device}
    return {term.removesuffix("_i") for term in terms} & set(op.attributes)


def _axes(view: View, context: CursorContext) -> list[Completion]:
    """The axes of the first operand, where that follows the cursor already."""
    assert context.function is not None
    assert context.operation is not None
    known = values_of(view, context.function.function.name, context.operation.args[:1])
    found = type_of(known[0]) if known else UNKNOWN
    if not isinstance(found, TensorType) or found.shape is None:
        return []
    sizes = enumerate(types.show_shape((dim,)).strip("(,)") for dim in found.shape)
    return [Completion(str(i), CompletionKind.CONSTANT, str(i), f"of size {size}") for i, size in sizes]


# ---- types


def _types(document: Document) -> list[Completion]:
    snippet = "Tensor[${1:Float32}, (${2:2, 3}), ${3:1}]"
    found = [
        Completion("Tensor", CompletionKind.TYPE, "Tensor[", "element type, shape, device", snippet),
        Completion("Tuple", CompletionKind.TYPE, "Tuple[", "several values", "Tuple[${1}]"),
    ]
    found += [
        Completion(f"D{d.label}", CompletionKind.TYPE, f"D{d.label}", f"some type on device {d.label}")
        for d in _devices(document)
    ]
    return found + _dtypes()


def _dtypes() -> list[Completion]:
    return [
        Completion(d.name, CompletionKind.TYPE, d.name, f"{d.kind}, {d.bytes} byte{'' if d.bytes == 1 else 's'}")
        for d in DTYPES.values()
    ]


def _devices(document: Document) -> list[Completion]:
    *used, new = devices_used(document)
    found = [Completion(str(d), CompletionKind.CONSTANT, str(d), "a device in use") for d in used]
    return [*found, Completion(str(new), CompletionKind.CONSTANT, str(new), "a new device")]


STREAMS = {"reduce": "sums of gradients", "gather": "weights, before they are used", "copy": "sends and receives"}
"""Names that say what a stream is for, of programs that have none yet."""


def _streams(document: Document, context: CursorContext) -> list[Completion]:
    here = context.function.function.name if context.function is not None else ""
    used = {
        s.stream
        for f in document.program.module
        for index, s in enumerate(f.body)
        if isinstance(s, (Apply, Call)) and s.stream and (f.name, index) != (here, context.index)
    }
    found = [Completion(name, CompletionKind.CONSTANT, name, "a stream of the program") for name in sorted(used)]
    others = ((name, f"a new stream: {says}") for name, says in STREAMS.items() if name not in used)
    return [*found, *(Completion(name, CompletionKind.CONSTANT, name, detail) for name, detail in others)]


def _roles() -> list[Completion]:
    def valued(role: str, value: str) -> Completion:
        return Completion(role, CompletionKind.KEYWORD, f"{role} = {value}", ROLES[role], f"{role} = ${{1:{value}}}")

    written = {"batch", "initial", "replicas", "donated", "remote"}  # with a value, or by transforms
    plain = {role: says for role, says in ROLES.items() if role not in written}
    found = [Completion(role, CompletionKind.KEYWORD, role, says) for role, says in plain.items()]
    return [valued("batch", "0"), *found, valued("initial", "0.0")]


def _facts() -> Iterator[Completion]:
    for phase, says in PHASES.items():
        yield Completion(phase, CompletionKind.KEYWORD, phase, f"the phase that {says}")
    for name, says in FACTS.items():
        value = "%w" if name == "of" else "1"
        if name != "phase":
            yield Completion(name, CompletionKind.KEYWORD, f"{name} = {value}", says, f"{name} = ${{1:{value}}}")


def _mark(document: Document, offset: int) -> Completion:
    """`kernel`, and a body for it where none follows."""
    follows = document.text[offset:].split("\n", 1)[0].lstrip()
    snippet = None if follows.startswith("{") else f"{KERNEL} {{\n  $0\n}}"
    return Completion(KERNEL, CompletionKind.KEYWORD, KERNEL, KERNEL_SAYS, snippet)


def _mesh() -> Completion:
    snippet = f"{MESH} (${{1:dp}} = ${{2:2}}, ${{3:tp}} = ${{4:2}})"
    return Completion(MESH, CompletionKind.KEYWORD, MESH, "the devices that each device represents", snippet)


def _template(template: Template) -> Completion:
    kind = CompletionKind.KEYWORD if template.word in KEYWORDS else CompletionKind.TEMPLATE
    return Completion(template.word, kind, template.word, template.detail, template.text)
