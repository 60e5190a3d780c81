"""The step `offload`."""

from __future__ import annotations

from distir.ir import Module
from distir.transform.offload.activations import with_activations_offloaded
from distir.transform.steps import StepError, step

ACTIVATIONS = "activations"


@step(after=("cse", "grad", "checkpoint"), choices={"value": (ACTIVATIONS,)})
def offload(module: Module, value: str = ACTIVATIONS, *, layers: int = 0) -> Module:
    """Memory of the host in a training step: what the backward pass needs of layers is there meanwhile.

    `activations`: of the first `layers` blocks (calls of functions that use weights; by default all but the last one)
    what the forward pass saves for the backward pass is copied to the host's memory on the stream `offload`, and back
    on the stream `fetch`. As in Megatron's `cpu_offloading`, copies are spread over the forward pass: with 20 of 80
    blocks each has the time of four to be copied, before the forward pass goes on without it, and is fetched while the
    same four are computed backward.

    Apply it after `grad` and `checkpoint`, and before `dp`, `tp`, `pp` and `zero`, which distribute the result.

    Raises ProgramError if there is nothing to offload.
    """
    if value != ACTIVATIONS:
        raise StepError(f"expected `{ACTIVATIONS}`, found `{value}`")
    if layers < 0:
        raise StepError(f"`layers` expected 1 or more, found {layers}")
    return with_activations_offloaded(module, layers or None)
