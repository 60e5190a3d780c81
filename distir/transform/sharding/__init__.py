"""Data and tensor parallelism: one partitioner over a mesh axis of devices (paper, sections 2.2 and 4).

`dp` splits the batch, `tp` the parameters, `cp` the sequence, `ep` experts. All take any module, on one device or
many, and make each of its devices several: so they combine with one another and with other transforms. Nothing here
knows a model, nor an op by name: ops say how they can be split by their signatures and their rules (`@Op.sharding`).
"""

from distir.transform.sharding.context import (
    CONTEXTS,
    cp,
    marked_for_context,
    order_of,
    sequence_states,
    sequences,
    tell_of_experts,
)
from distir.transform.sharding.experts import DISPATCHERS, ep, expert_states, router_of, with_dispatcher
from distir.transform.sharding.joined import with_joined_sums, with_roles
from distir.transform.sharding.ownership import Owned, owned_weights, with_owners
from distir.transform.sharding.state import WHOLE, Split, State
from distir.transform.sharding.stated import split_as_stated
from distir.transform.sharding.steps import TensorPlan, dp, has_whole_experts, sequential, split, tensor_shares, tp

__all__ = [
    "CONTEXTS",
    "DISPATCHERS",
    "WHOLE",
    "Owned",
    "Split",
    "State",
    "TensorPlan",
    "cp",
    "dp",
    "ep",
    "expert_states",
    "has_whole_experts",
    "marked_for_context",
    "order_of",
    "owned_weights",
    "router_of",
    "sequence_states",
    "sequences",
    "sequential",
    "split",
    "split_as_stated",
    "tell_of_experts",
    "tensor_shares",
    "tp",
    "with_dispatcher",
    "with_joined_sums",
    "with_owners",
    "with_roles",
]
