"""Statements that name a stream on which they run nothing. Depends on ops, and on types where they are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from distir.diagnostics import Diagnostic
from distir.diagnostics.codes import lints
from distir.ir import DISCARD, HOST, Apply, Function, Part, Site, names, types
from distir.ops import OPS, Value, type_of
from distir.ops.mesh import COLLECTIVES


def idle_streams(function: Function, values: Mapping[str, Value]) -> Iterator[Diagnostic]:
    """The statements of a function that name a stream and run nothing on it. `values`: its known values."""
    for index, statement in enumerate(function.body):
        if isinstance(statement, Apply) and statement.stream and statement.op in OPS:
            why = _why_nothing(statement, values)
            if why:
                message = f"nothing runs on the stream `{statement.stream}` here: `{statement.op}` {why}"
                site = Site(function.name, index, Part("stream"))
                yield Diagnostic(lints.IDLE_STREAM, site, message, help="remove the name of the stream")


def _why_nothing(statement: Apply, values: Mapping[str, Value]) -> str:
    op = OPS[statement.op]
    if op.view:
        return "" if op.awaits or op.name in COLLECTIVES else "is a view"
    made = [name for name in statement.results if name != DISCARD] or list(names(statement.args))
    hosted = (name in values and types.device_of(type_of(values[name])) == HOST for name in made)
    return "runs on the host" if made and all(hosted) else ""
