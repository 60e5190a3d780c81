"""Kind: keys and values that travel around a ring, beside attention to those that are here (Ring Attention)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from distir.ir import Apply, Function, Module
from distir.ops import Value
from distir.ops.group import GROUPED
from distir.transform.checking import checked
from distir.transform.entry import entry_of
from distir.transform.instances import states_of_calls
from distir.transform.overlap.cutting import issued_early
from distir.transform.overlap.kinds import Inapplicable, Overlapped, kind

STREAM = "context"

STEPS = frozenset({"MPIShift", GROUPED["MPIShift"].name})


@kind
def context(module: Module) -> Overlapped:
    """Keys and values that travel around a ring, and their gradients, on the stream `context`, beside attention.

    Attention to the keys of one device runs while those of the next one arrive (arXiv:2310.01889).
    """
    count = sum(_travels(s) for f in module for s in f.body)
    if not count:
        raise Inapplicable("no keys travel around a ring; apply `cp` with `cp_kind=ring` first")
    states = states_of_calls(checked(module), entry_of(module))
    made = Module(_on_stream(f, states[f.name]) if any(map(_travels, f.body)) else f for f in module)
    return Overlapped(made, f"{count} steps of keys around a ring on `{STREAM}`")


def _travels(statement: object) -> bool:
    return isinstance(statement, Apply) and statement.op in STEPS and not statement.stream


def _on_stream(function: Function, values: Mapping[str, Value]) -> Function:
    body = tuple(replace(s, stream=STREAM) if isinstance(s, Apply) and _travels(s) else s for s in function.body)
    return issued_early(values, replace(function, body=body), STREAM)
