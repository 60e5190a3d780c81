"""Ops by the names that programs use."""

from __future__ import annotations

from distir.diagnostics.codes import names as name_codes
from distir.diagnostics.spelling import nearest
from distir.ir import Part
from distir.ops import OPS, Op, Reject, bridge


def lookup(name: str) -> Op:
    """The op of that name. Raises Reject, with the nearest name, if there is none."""
    if name in OPS:
        return OPS[name]
    near = nearest(name, [*OPS, *bridge.NAMES])
    hint = bridge.hint(name) or (f"did you mean `{near}`?" if near else "`distir ops` lists them all")
    raise Reject(name_codes.UNKNOWN_OP, f"there is no op `{name}`", Part("callee"), help=hint)
