"""`distir ops`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from distir.cli import options, output
from distir.cli.endings import Refused

if TYPE_CHECKING:
    from distir.ops import Op


def ops(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="An op. [default: list all, by family]")] = None,
    as_json: options.AsJson = False,
) -> int:
    """List the ops, or show the documentation of one.

    In a signature, repeated letters must agree; `d` is a device, `t` an element type, `*a` any number of dimensions.
    The other ops of the standard ONNX domain are listed by name; their documentation comes from the onnx package.

    For example:

        distir ops MatMul

        distir ops Conv

        distir ops
    """
    from distir.ops import OPS

    if name is None:
        _list([OPS[known] for known in OPS], as_json)
        return 0
    if name not in OPS:
        raise Refused(f"there is no op `{name}`", _instead(name))
    if as_json:
        output.write_json(_described(OPS[name]))
    else:
        _show(OPS[name])
    return 0


def _list(ops: list[Op], as_json: bool) -> None:
    if as_json:
        output.write_json([_described(op) for op in ops])
        return
    from rich.text import Text

    parts: list[Any] = []
    for family in dict.fromkeys(op.family for op in ops):
        listed = output.table("op", "signature", "meaning")
        for op in sorted((op for op in ops if op.family == family), key=lambda op: op.name):
            listed.add_row(Text(op.name), Text(op.signature_texts[0]), Text(_first_sentence(op.documentation)))
        parts += [*([""] if parts else []), Text(family, style="bold underline"), listed]
    output.lay_out(*parts, "", Text("by their ONNX names", style="bold underline"), _bridged())


def _bridged() -> Any:
    """The ops that ONNX gives, by family, with no more than their names: onnx is not asked."""
    from rich.text import Text

    from distir.ops.bridge import FAMILIES

    listed = output.table("family", "ops")
    for family in dict.fromkeys(meaning.family for meaning in FAMILIES.values()):
        names = sorted(name for name, meaning in FAMILIES.items() if meaning.family == family)
        listed.add_row(Text(family), Text(" ".join(names)))
    return listed


def _instead(name: str) -> str:
    """Help for an unknown op."""
    from distir.diagnostics import nearest
    from distir.ops import OPS, bridge

    likely = nearest(name, (*OPS, *bridge.NAMES))
    return bridge.hint(name) or (f"did you mean `{likely}`?" if likely else "`distir ops` lists them")


def _show(op: Op) -> None:
    from rich.markdown import Markdown
    from rich.padding import Padding
    from rich.text import Text

    documentation = Markdown(op.documentation) if _to_terminal() else Text(op.documentation)
    parts: list[Any] = [Text(f"{op.name} ({op.family})", style="bold"), "", documentation, ""]
    parts += [
        Text(
            "signature" if len(op.signature_texts) == 1 else "signatures, of which the first match applies",
            style="bold",
        )
    ]
    parts += [Padding(Text(text), (0, 0, 0, 2)) for text in op.signature_texts]
    operands = ", ".join(f"{'*' if o.variadic else ''}{o.name}{'?' if o.optional else ''}" for o in op.operands)
    parts += [Padding(Text(f"operands: {operands}"), (0, 0, 0, 2))] if operands else []
    if op.non_differentiable is not None:
        parts += [Padding(Text(f"no gradient: {op.non_differentiable}"), (0, 0, 0, 2))]
    if op.attributes:
        listed = output.table("attribute", "kind", "default", "aliases")
        for attribute in op.attributes.values():
            default = _default(attribute.default)
            listed.add_row(
                Text(attribute.name),
                Text(attribute.kind),
                Text("required" if default is None else default),
                Text(", ".join(attribute.aliases)),
            )
        parts += ["", listed]
    if op.examples:
        parts += ["", Text("examples", style="bold")]
        parts += [Padding(Text(example), (0, 0, 0, 2)) for example in op.examples]
    output.lay_out(*parts)


def _described(op: Op) -> dict[str, Any]:
    from distir.ops import REQUIRED

    return {
        "name": op.name,
        "family": op.family,
        "signatures": list(op.signature_texts),
        "operands": [{"name": o.name, "variadic": o.variadic, "optional": o.optional} for o in op.operands],
        "attributes": [
            {
                "name": a.name,
                "kind": a.kind,
                "required": a.default is REQUIRED,
                "default": _default(a.default),
                "aliases": list(a.aliases),
            }
            for a in op.attributes.values()
        ],
        "non_differentiable": op.non_differentiable,
        "documentation": op.documentation,
        "examples": list(op.examples),
    }


def _default(value: Any) -> str | None:
    """A default as the language spells it; None for an attribute that has none."""
    from distir.ops import REQUIRED
    from distir.syntax import print_literal

    if value is REQUIRED:
        return None
    return "none" if value is None else print_literal(value)


def _first_sentence(documentation: str) -> str:
    paragraph = documentation.split("\n\n")[0].replace("\n", " ")
    return paragraph.split(". ")[0].rstrip(".").replace("`", "")


def _to_terminal() -> bool:
    import sys

    return sys.stdout.isatty()
