"""Communication as traces tell of it: by what torch states, by the calls that launched it, at last by a kernel's name.

Names are those that torch writes of c10d and of its backends (torch/csrc/distributed, `ParamCommsUtils`), and NCCL of
its kernels. NCCL sends and receives where it gathers, scatters or exchanges all; one kernel of its own may be any
collective. So the call counts, and a kernel's name only where no call was recorded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

Shape = tuple[int, ...]

GLOO = "gloo:"
C10D = "c10d::"

PATTERNS: Mapping[str, str] = {
    "allreduce": "allreduce",
    "allreducecoalesced": "allreduce",
    "allreducesparse": "allreduce",
    "allreducebarrier": "allreduce",
    "barrier": "allreduce",
    "allgather": "allgather",
    "allgatherbase": "allgather",
    "allgatherinto": "allgather",
    "allgatherintotensor": "allgather",
    "allgatherintotensorcoalesced": "allgather",
    "allgatherintotensorout": "allgather",
    "allgathercoalesced": "allgather",
    "reducescatter": "reducescatter",
    "reducescatterbase": "reducescatter",
    "reducescattertensor": "reducescatter",
    "reducescattertensorcoalesced": "reducescatter",
    "reducescattercoalesced": "reducescatter",
    "alltoall": "alltoall",
    "alltoallv": "alltoall",
    "alltoallbase": "alltoall",
    "alltoallsingle": "alltoall",
    "broadcast": "broadcast",
    "broadcastoop": "broadcast",
    "reduce": "reduce",
    "reduceoop": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "send": "send",
    "recv": "send",
    "recvanysource": "send",
    "sendrecv": "send",
}
"""What torch's names of collectives, without underscores, are called here; those it writes of its backends and c10d."""

UNKNOWN = "communication"
"""The pattern of a kernel that communicates, where nothing says how."""

BYTES = {
    "float": 4,
    "double": 8,
    "half": 2,
    "bfloat16": 2,
    "long": 8,
    "longint": 8,
    "int": 4,
    "short": 2,
    "shortint": 2,
    "char": 1,
    "signedchar": 1,
    "byte": 1,
    "unsignedchar": 1,
    "bool": 1,
    "float8e4m3fn": 1,
    "float8e5m2": 1,
}
"""Of an element, by the names that torch gives types in traces (C++'s, and c10's), without spaces and underscores."""

_CALLS = re.compile(r"_?c10d(?:_functional)?(?:_autograd)?::|[a-z]*ccl:|ucc:|mpi:|gloo:|record_param_comms$")
_KERNELS = re.compile(r"[nrhe]ccl|msccl|(?:nv|roc)shmem|userbuffers")
_EXPERTS = re.compile(r"(?:deepep|mori)::.*(?:dispatch|combine)(?!layout)")
"""Kernels of DeepEP and MORI, which send tokens to their experts and back."""
_NAMED = re.compile(r"allreduce|allgather|reducescatter|alltoall|crossdevicereduce")
_NAMED_BY_NCCL = re.compile(f"{_NAMED.pattern}|broadcast|sendrecv|reduce|send|recv|gather|scatter")


@dataclass(frozen=True, slots=True)
class RecordedCollective:
    """A communication of this rank. `nbytes`: of what it sends; `received`: of what it receives; None: not stated."""

    pattern: str
    nbytes: int | None = None
    received: int | None = None
    ranks: tuple[int, ...] | None = None
    size: int | None = None
    """Of the group."""


def communicates(name: str) -> bool:
    """Whether a call is one of c10d, or one that a backend of it marks."""
    return _CALLS.match(name) is not None


def called(name: str) -> str | None:
    """The pattern of a collective by torch's name of it, as `nccl:send 0->1`; None where it says none."""
    match = re.match(r"[A-Za-z_]+", re.split(r"::?", name)[-1])
    return None if match is None else PATTERNS.get(match[0].lower().replace("_", ""))


def collective(name: str, nbytes: int | None = None) -> RecordedCollective | None:
    """A communication by torch's name of it; None where that says none."""
    pattern = called(name)
    return None if pattern is None else RecordedCollective(pattern, nbytes)


def by_kernel(name: str) -> RecordedCollective | None:
    """What a kernel's own name says of communication; None for one that computes."""
    plain = re.split(r"[(<]", name.removeprefix("void "))[0].lower().replace("_", "")
    if _EXPERTS.search(plain):
        return RecordedCollective("alltoall")
    of_backend = _KERNELS.search(plain)
    found = _NAMED_BY_NCCL.search(plain, of_backend.end()) if of_backend else _NAMED.search(plain)
    if found is None:
        return RecordedCollective(UNKNOWN) if of_backend else None
    return RecordedCollective(PATTERNS.get(found[0], "allreduce"))


def stated(arguments: Mapping[str, Any]) -> RecordedCollective | None:
    """What an event's arguments say of a communication; None where they name no pattern."""
    pattern = called(str(arguments.get("Collective name", "")))
    if pattern is None:
        return None
    width = BYTES.get(_plain(str(arguments.get("dtype", ""))), 0)
    sent, received = (number(arguments.get(f"{way} msg nelems")) for way in ("In", "Out"))
    size = number(arguments.get("Group size"))
    ranks = _ranks(arguments.get("Process Group Ranks"), size)
    into, out_of = (None if n is None or not width else n * width for n in (sent, received))
    return RecordedCollective(pattern, into, out_of, ranks, size)


def nbytes_of(shapes: Sequence[Shape], dtype: str) -> int | None:
    """The bytes of tensors of one type; None where it is not known."""
    width = BYTES.get(_plain(dtype))
    if width is None or not shapes:
        return None
    total = 0
    for shape in shapes:
        elements = 1
        for size in shape:
            elements *= size
        total += elements
    return total * width


def number(found: object) -> int | None:
    """A whole number, as traces write them: as such, or as text."""
    if isinstance(found, (int, float)):
        return int(found)
    return int(found) if isinstance(found, str) and found.isdecimal() else None


def _plain(name: str) -> str:
    return name.lower().removeprefix("c10::").replace("_", "").replace(" ", "")


def _ranks(listed: object, size: int | None) -> tuple[int, ...] | None:
    """The ranks of a group; None where Kineto left some out, as it does of large groups."""
    if isinstance(listed, str):
        try:
            listed = json.loads(listed)
        except ValueError:
            return None
    if not isinstance(listed, list):
        return None
    found = tuple(rank for rank in cast("list[object]", listed) if isinstance(rank, int))
    return found if found and len(found) == (size or len(found)) else None
