"""Kind: all-to-alls of experts beside independent statements, and beside another microbatch.

Within a layer, shared experts and weight-gradient products hide part of them. If two microbatches are in flight on a
device, their layers alternate: one computes while the tokens of the other are communicated (DeepSeek-V3,
arXiv:2412.19437, section 3.2.1; Megatron's `--overlap-moe-expert-parallel-comm`).
"""

from __future__ import annotations

from distir.ir import Module, ops_in
from distir.ops.experts.operands import RAGGED_GRADIENTS, RAGGED_PRODUCTS
from distir.transform.overlap.cutting import issued_early_in, on_no_stream
from distir.transform.overlap.kinds import Inapplicable, Machine, Overlapped, kind
from distir.transform.overlap.turns import taking_turns

STREAM = "experts"

PRODUCTS = frozenset({*RAGGED_PRODUCTS, *RAGGED_GRADIENTS, "GroupedMatMul"})


@kind
def experts(module: Module, machine: Machine) -> Overlapped:
    """All-to-alls of experts on the stream `experts`; layers of two microbatches on the same devices take turns.

    While the tokens of one microbatch travel, another one computes. Layers take turns where that is faster on
    `hardware`: a forward pass with a backward pass, else with another one of its direction. Then the activations of one
    more microbatch are in memory.
    """
    places = {f.name: on_no_stream(f, {"alltoall"}) for f in module if any(ops_in(f, *PRODUCTS))}
    layers = issued_early_in(module, STREAM, places)
    if not layers:
        raise Inapplicable("no tokens go to experts on other devices; apply `ep` first")
    count = sum(map(len, places.values()))
    done = f"{count} all-to-all{'s' * (count != 1)} on `{STREAM}`"
    return taking_turns(module, machine, layers, STREAM, done, "those")
