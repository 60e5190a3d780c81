"""Communication between devices: `Send` and the MPI collectives.

Each op is synchronous: it starts when all of its devices are ready and occupies them until it ends. A tuple is sent as
one message. The reference implementation computes the values; the signatures determine their devices.
"""

# isort: off
# `distir ops` and the reference show ops in this order.
from distir.ops.communication.sending import Send
from distir.ops.communication.rooted import MPIBroadcast, MPIGather, MPIReduce, MPIScatter
from distir.ops.communication.gathering import MPIAllgather, MPIAllreduce, MPIReduceScatter
from distir.ops.communication.exchange import MPIAlltoall, MPIShift, check_routed, exchanged_layout
# isort: on

__all__ = [
    "MPIAllgather",
    "MPIAllreduce",
    "MPIAlltoall",
    "MPIBroadcast",
    "MPIGather",
    "MPIReduce",
    "MPIReduceScatter",
    "MPIScatter",
    "MPIShift",
    "Send",
    "check_routed",
    "exchanged_layout",
]
