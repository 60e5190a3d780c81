"""Data and tensor parallelism: one partitioner over a mesh axis of devices (paper, sections 2.2 and 4).

`dp` splits the batch, `tp` the parameters, `cp` the sequence, `ep` experts. Each replaces every device of a module by
several, so they compose with each other and with other transforms. Nothing here depends on a model or names an op:
signatures and sharding rules of ops (`@Op.sharding`) say how they can be split.

- What to split. `flow` finds which dimensions are one (`classes`, `boundary`, `leaves`), and `batch` those that are the
batch; `data`, `tensor`, `context`, `experts` (with `owned`, `ownership`) choose a state for each parameter.

- Propagation. How a value is placed, and what an op computes of parts, `distir.placement` says, to the checker as well.
`partition` processes functions, callees first, and `body` their statements: `decide` chooses the cheapest typing over
operands that may be moved (with `demanded` and `needed_whole`), `sums` when partial sums are reduced; `reshard` writes
the collectives between states, `sends` those of values sent in parts, and `decided`, with `rewrite` and `parts`, the op
on shards.

- Output. `items` expands statements over the devices of a `mesh`, `buckets` and `joined` combine sums, `scatter_gather`
writes `.scatter` and `.gather`, `shares` the report; `steps` and `stated` run it all.
"""

from distir.placement.along import WHOLE, Split, State
from distir.transform.sharding.context import (
    CONTEXTS,
    cp,
    dispatched_in_parts,
    marked_for_context,
    order_of,
    sequence_states,
    sequences,
    tell_of_experts,
)
from distir.transform.sharding.experts import DISPATCHERS, ep, expert_states, router_of, with_dispatcher
from distir.transform.sharding.grouped import with_groups
from distir.transform.sharding.joined import with_joined_sums, with_roles
from distir.transform.sharding.ownership import Holders, Owned, by_owner, expert_weights, owned_weights, with_owners
from distir.transform.sharding.stated import split_as_stated
from distir.transform.sharding.steps import TensorPlan, dp, sequential, shards_of_expert, split, tensor_shares, tp

__all__ = [
    "CONTEXTS",
    "DISPATCHERS",
    "WHOLE",
    "Holders",
    "Owned",
    "Split",
    "State",
    "TensorPlan",
    "by_owner",
    "cp",
    "dispatched_in_parts",
    "dp",
    "ep",
    "expert_states",
    "expert_weights",
    "marked_for_context",
    "order_of",
    "owned_weights",
    "router_of",
    "sequence_states",
    "sequences",
    "sequential",
    "shards_of_expert",
    "split",
    "split_as_stated",
    "tell_of_experts",
    "tensor_shares",
    "tp",
    "with_dispatcher",
    "with_groups",
    "with_joined_sums",
    "with_owners",
    "with_roles",
]
