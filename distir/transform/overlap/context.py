"""Kind: keys and values that travel around a ring, beside attention to those that are here (Ring Attention)."""

from __future__ import annotations

from distir.ir import Module
from distir.transform.overlap.cutting import issued_early_in, on_no_stream
from distir.transform.overlap.kinds import Inapplicable, Overlapped, kind

STREAM = "context"


@kind
def context(module: Module) -> Overlapped:
    """Keys and values that travel around a ring, and their gradients, on the stream `context`, beside attention.

    Attention to the keys of one device runs while those of the next one arrive (arXiv:2310.01889).
    """
    places = {f.name: on_no_stream(f, {"shift"}) for f in module}
    count = sum(map(len, places.values()))
    if not count:
        raise Inapplicable("no keys travel around a ring; apply `cp` with `cp_kind=ring` first")
    made = module.replacing(*issued_early_in(module, STREAM, places).values())
    return Overlapped(made, f"{count} steps of keys around a ring on `{STREAM}`")
