"""Kind: all-to-alls of experts beside independent statements, and beside another microbatch.

Within a layer, shared experts and weight-gradient products hide part of them. If two microbatches are in flight on a
device, their layers alternate: one computes while the tokens of the other are communicated (DeepSeek-V3,
arXiv:2412.19437, section 3.2.1; Megatron's `--overlap-moe-expert-parallel-comm`).
"""

from __future__ import annotations

from distir.ir import Apply, Function, Module
from distir.ops.experts.operands import RAGGED_GRADIENTS, RAGGED_PRODUCTS
from distir.ops.group import GROUPED
from distir.transform.checking import checked
from distir.transform.entry import entry_of
from distir.transform.instances import states_of_calls
from distir.transform.overlap.cutting import issued_early
from distir.transform.overlap.kinds import Inapplicable, Machine, Overlapped, kind
from distir.transform.overlap.turns import taking_turns

STREAM = "experts"

EXCHANGES = frozenset({"MPIAlltoall", GROUPED["MPIAlltoall"].name})
PRODUCTS = frozenset({*RAGGED_PRODUCTS, *RAGGED_GRADIENTS, "GroupedMatMul"})


@kind
def experts(module: Module, machine: Machine) -> Overlapped:
    """All-to-alls of experts on the stream `experts`; layers of two microbatches on the same devices take turns.

    While the tokens of one microbatch travel, another one computes. Layers take turns where that is faster on
    `hardware`: a forward pass with a backward pass, else with another one of its direction. Then the activations of one
    more microbatch are in memory.
    """
    states = states_of_calls(checked(module), entry_of(module))
    having = [f for f in module if _has_experts(f)]
    if not having:
        raise Inapplicable("no tokens go to experts on other devices; apply `ep` first")
    layers = {f.name: issued_early(states[f.name], f, STREAM, _exchanges(f)) for f in having}
    count = sum(s.op in EXCHANGES for f in having for s in f.body if isinstance(s, Apply))
    done = f"{count} all-to-all{'s' * (count != 1)} on `{STREAM}`"
    return taking_turns(module, machine, layers, STREAM, done, "those")


def _has_experts(function: Function) -> bool:
    ops = {s.op for s in function.body if isinstance(s, Apply) and not s.stream}
    return not ops.isdisjoint(PRODUCTS) and not ops.isdisjoint(EXCHANGES)


def _exchanges(function: Function) -> list[int]:
    return [i for i, s in enumerate(function.body) if isinstance(s, Apply) and s.op in EXCHANGES and not s.stream]
