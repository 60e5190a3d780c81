"""The step `offload`."""

from __future__ import annotations

from distir.ir import Module
from distir.transform.offload.activations import with_activations_offloaded
from distir.transform.offload.optimizer import with_state_offloaded
from distir.transform.order import DISTRIBUTED, IN_KERNELS, ON_MESH, STATE_ON_HOSTS
from distir.transform.steps import StepError, step

ACTIVATIONS, OPTIMIZER = "activations", "optimizer"


@step(
    after=("cse", "grad", "checkpoint"),
    before={ACTIVATIONS: (DISTRIBUTED, ON_MESH), OPTIMIZER: (IN_KERNELS,)},
    on_mesh=True,
    makes={OPTIMIZER: (STATE_ON_HOSTS,)},
    choices={"value": (ACTIVATIONS, OPTIMIZER)},
)
def offload(module: Module, value: str = ACTIVATIONS, *, layers: int = 0) -> Module:
    """Memory of the host in a training step: what a device does not need for a while is there meanwhile.

    `activations`: of the first `layers` blocks (calls of functions that use weights; by default all but the last one)
    what the forward pass saves for the backward pass is copied to the host's memory on the stream `offload`, and back
    on the stream `fetch`. As in Megatron's `cpu_offloading`, copies are spread over the forward pass: with 20 of 80
    blocks each has the time of four to be copied, before the forward pass continues without it, and is fetched while
    the same four are computed backward.

    `optimizer`: the state of the optimizer is in the host's memory; for each weight it is fetched before its update,
    which the device computes, while another one is updated, and copied back behind it. Apply it
    after `dp`, `tp`, `pp` and `zero`, whose parts it moves.

    Raises ProgramError if there is nothing to offload.
    """
    if value not in (ACTIVATIONS, OPTIMIZER):
        raise StepError(f"expected `{ACTIVATIONS}` or `{OPTIMIZER}`, found `{value}`")
    if layers < 0:
        raise StepError(f"`layers` expected 1 or more, found {layers}")
    if layers and value != ACTIVATIONS:
        raise StepError(f"`layers` is an option of `offload={ACTIVATIONS}`, found `offload={value}`")
    return with_activations_offloaded(module, layers or None) if value == ACTIVATIONS else with_state_offloaded(module)
