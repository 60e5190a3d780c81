"""Kind: keys and values that travel around a ring, beside attention to those that are here (Ring Attention)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from distir.analysis.placing import is_written_out
from distir.ir import Apply, Function, Module
from distir.ir.rewrite import Rewriter
from distir.transform.checking import checked
from distir.transform.entry import entry_of
from distir.transform.instances import states_of_calls
from distir.transform.overlap.cutting import issued_early_in, on_no_stream
from distir.transform.overlap.kinds import Inapplicable, Overlapped, kind

STREAM = "context"


@kind
def context(module: Module) -> Overlapped:
    """Keys and values that travel around a ring, and their gradients, on the stream `context`, beside attention.

    Attention to the keys of one device runs while those of the next one arrive (arXiv:2310.01889).
    """
    places = {f.name: on_no_stream(f, {"shift"}) for f in module}
    rings = [*_rings(module)] if module.mesh else []
    if not any(places.values()) and not rings:
        raise Inapplicable("no keys travel around a ring; apply `cp` or `mesh` with `cp_kind=ring` first")
    if rings:
        count = sum(len(own) for _, own in rings)
        what = f"{count} attention{'s' * (count > 1)} and gradients around a ring"
        return Overlapped(module.replacing(*(_on_stream(*ring) for ring in rings)), f"{what} on `{STREAM}`")
    made = module.replacing(*issued_early_in(module, STREAM, places).values())
    return Overlapped(made, f"{sum(map(len, places.values()))} steps of keys around a ring on `{STREAM}`")


def _rings(module: Module) -> Iterator[tuple[Function, list[int]]]:
    """The functions of a program on a mesh with attention around a ring on no stream yet, and where that is.

    Its steps are written for each device; the stream of the statement is theirs.
    """
    meshes, states = module.meshes, states_of_calls(checked(module), entry_of(module))
    for function in module:
        rho = states.get(function.name)
        found = [
            index
            for index, s in enumerate(function.body)
            if isinstance(s, Apply) and s.attrs.get("context") == "ring" and not s.stream and rho is not None
            if is_written_out(meshes, s, rho(s.args), rho(s.results))
        ]
        if found:
            yield function, found


def _on_stream(function: Function, places: list[int]) -> Function:
    edit = Rewriter(function)
    for index in places:
        statement = function.body[index]
        assert isinstance(statement, Apply)
        edit.replace(index, replace(statement, stream=STREAM))
    return edit.done()
