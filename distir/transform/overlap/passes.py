"""Kind: collectives of layers beside computation of another microbatch.

In a pipeline's steady state a device has independent passes of several microbatches. Their layers alternate: one
computes while the collectives of the other (of tensor, context or expert parallelism) run. This pairs a forward with a
backward pass (DualPipe: DeepSeek-V3, arXiv:2412.19437, section 3.2.1), or two of one direction (Domino,
arXiv:2409.15241, with halves of one batch).
"""

from __future__ import annotations

from contextlib import suppress

from distir.cost import show_seconds
from distir.diagnostics import ProgramError
from distir.ir import Function, Module
from distir.ir.calls import callees, callees_first
from distir.ops.purpose import LAYER_PATTERNS
from distir.simulate import BindError
from distir.transform.entry import entry_names
from distir.transform.mesh.on_machine import simulated
from distir.transform.overlap.cutting import issued_early_in, on_no_stream
from distir.transform.overlap.kinds import Inapplicable, Machine, Overlapped, kind
from distir.transform.overlap.turns import taking_turns

STREAM = "passes"


@kind(after=("gradients", "weights", "transfers"), asked=True)
def passes(module: Module, machine: Machine) -> Overlapped:
    """Collectives of layers on the stream `passes`, beside what passes of another microbatch compute.

    Layers of two microbatches that a device has at hand take turns, where that is faster on `hardware`: a forward pass
    with a backward pass, else with another one of its direction. Then the activations of one more microbatch are in
    memory, so that this kind is applied where it is named.
    """
    places = {f.name: on_no_stream(f, LAYER_PATTERNS) for f in _layers(module)}
    if not places:
        raise Inapplicable("no function of layers communicates; apply `tp`, `cp` or `ep` first")
    layers = issued_early_in(module, STREAM, places)
    count = sum(map(len, places.values()))
    done = f"{count} collective{'s' * (count != 1)} of layers on `{STREAM}`"
    made = taking_turns(module, machine, layers, STREAM, done, "those")
    with suppress(ProgramError, BindError):  # what is not known is said where the step tells its gain
        before, after = (simulated(m, machine.hardware, bind=machine.bind).latency_s for m in (module, made.module))
        if after > before:
            raise Inapplicable(f"beside what devices compute they take {show_seconds(after - before)} more")
    return made


def _layers(module: Module) -> list[Function]:
    """The innermost functions that communicate, without the entry, which has collectives of replicas and updates."""
    outer = set(entry_names(module))
    communicate: set[str] = set()
    found: list[Function] = []
    for function in callees_first(module):
        called = callees(function)
        inner = not communicate.isdisjoint(called)
        if inner or on_no_stream(function, LAYER_PATTERNS):
            communicate.add(function.name)
            if not inner and function.name not in outer:
                found.append(function)
    return found
