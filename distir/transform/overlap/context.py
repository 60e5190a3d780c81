"""Kind: keys and values that travel around a ring, beside attention to those that are here (Ring Attention)."""

from __future__ import annotations

from distir.ir import Apply, Module
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
    places = {f.name: [index for index, s in enumerate(f.body) if _travels(s)] for f in module}
    count = sum(map(len, places.values()))
    if not count:
        raise Inapplicable("no keys travel around a ring; apply `cp` with `cp_kind=ring` first")
    states = states_of_calls(checked(module), entry_of(module))
    made = Module(issued_early(states[f.name], f, STREAM, own) if (own := places[f.name]) else f for f in module)
    return Overlapped(made, f"{count} steps of keys around a ring on `{STREAM}`")


def _travels(statement: object) -> bool:
    return isinstance(statement, Apply) and statement.op in STEPS and not statement.stream
