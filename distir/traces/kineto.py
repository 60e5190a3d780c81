"""What `torch.profiler` records (Kineto): ops with their shapes, kernels, collectives and steps, of one rank.

The names of categories and arguments are those that Kineto and torch write (pytorch/kineto, `output_json.cpp`;
torch/csrc/profiler, `collection.cpp`; torch/csrc/distributed, `ParamCommsUtils`). Times are in seconds from the first
event of the file. Of Python's functions only the calls of modules are retained.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from sys import intern
from typing import Any, cast

from distir.files.reading import Named
from distir.traces.events import Record, TraceError, read_events

Shape = tuple[int, ...]

STEP = re.compile(r"ProfilerStep#(\d+)")
MODULE = "nn.Module: "
KERNELS = frozenset(["kernel", "gpu_memcpy", "gpu_memset"])
"""Categories of what a GPU does."""

LAUNCHES = frozenset(["cuda_runtime", "cuda_driver"])
CPU = frozenset(["cpu_op", "user_annotation"])
GLOO = "gloo:"
C10D = "c10d::"

PATTERNS: Mapping[str, str] = {
    "allreduce": "allreduce",
    "allreducecoalesced": "allreduce",
    "allgather": "allgather",
    "allgatherbase": "allgather",
    "allgatherinto": "allgather",
    "allgatherintotensor": "allgather",
    "allgatherintotensorcoalesced": "allgather",
    "allgathercoalesced": "allgather",
    "reducescatter": "reducescatter",
    "reducescatterbase": "reducescatter",
    "reducescattertensor": "reducescatter",
    "reducescattertensorcoalesced": "reducescatter",
    "alltoall": "alltoall",
    "alltoallv": "alltoall",
    "alltoallbase": "alltoall",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "send": "send",
    "recv": "send",
    "sendrecv": "send",
}
"""What torch's names of collectives, without underscores, are called here; those it writes of NCCL, gloo and c10d."""

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
}
"""Of an element, by the names that torch gives types in traces (C++'s, and c10's), without spaces."""


@dataclass(frozen=True, slots=True)
class RecordedCollective:
    """A communication of this rank. `nbytes`: of what it sends; `received`: of what it receives; None: not stated."""

    pattern: str
    nbytes: int | None
    received: int | None
    ranks: tuple[int, ...] | None
    size: int | None
    """Of the group."""


@dataclass(slots=True, eq=False)
class RecordedKernel:
    """What one stream of a GPU did, in seconds."""

    name: str
    device: int
    stream: int
    start: float
    end: float
    correlation: int | None
    external: int | None
    collective: RecordedCollective | None = None


@dataclass(slots=True, eq=False)
class RecordedOp:
    """An op, a module's call or an annotation on a thread, with those inside it. Seconds."""

    name: str
    thread: int
    start: float
    end: float
    dims: tuple[Any, ...] = ()
    """By input: the shape of a tensor, shapes of a list; () also for what is no tensor."""
    dtypes: tuple[str, ...] = ()
    region: bool = False
    """Whether it only marks what is inside: a module's call, an annotation."""
    external: int | None = None
    sequence: int | None = None
    inside: list[RecordedOp] = field(default_factory=list["RecordedOp"])
    kernels: list[RecordedKernel] = field(default_factory=list["RecordedKernel"])

    @property
    def seconds(self) -> float:
        """From its start to its end."""
        return self.end - self.start

    @property
    def shapes(self) -> list[Shape]:
        """The shapes of its tensors, those in lists included."""
        found: list[Shape] = []
        for dims, dtype in zip(self.dims, self.dtypes, strict=False):
            if dtype == "TensorList":
                found += [tuple(shape) for shape in dims]
            elif dtype and dtype not in ("Scalar", "ScalarList"):
                found.append(tuple(dims))
        return found


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """A step as the profiler marks it; `number`: None where it marks none, and the whole file is one."""

    number: int | None
    start: float
    end: float

    @property
    def seconds(self) -> float:
        """From its start to its end."""
        return self.end - self.start


@dataclass(slots=True)
class RankTrace:
    """The file of one rank. `threads`: by thread, its outermost ops; `launches`: when each kernel was launched."""

    path: str
    rank: int | None
    world: int | None
    steps: list[RecordedStep]
    marked: bool
    """Whether the profiler marked steps."""
    threads: dict[int, list[RecordedOp]]
    messages: list[RecordedOp]
    """What gloo communicates: while ops of the same thread run, so they are inside none."""
    kernels: list[RecordedKernel]
    launches: list[float]
    shapes: bool
    """Whether shapes were recorded."""
    events: int

    @property
    def on_gpu(self) -> bool:
        """Whether kernels of a GPU were recorded."""
        return bool(self.kernels)

    def step_of(self, moment: float) -> int | None:
        """The index of the step that a moment is in."""
        index = bisect_right(self.steps, moment, key=lambda step: step.start) - 1
        return index if index >= 0 and moment < self.steps[index].end else None


def read_rank(path: Named, shown: str | None = None) -> RankTrace:
    """The trace of one rank. Raises OSError, and TraceError for a file that is none."""
    head: dict[str, Any] = {}
    collected = _Collected()
    try:
        for record in read_events(path, head):
            collected.add(record)
    except TraceError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise TraceError(f"an event is not as the format has it ({type(error).__name__}: {error})") from None
    if collected.ours:
        hint = "`distir diff` compares traces of DistIR with programs"
        raise TraceError("it was written by DistIR, not by `torch.profiler`", hint)
    if not collected.ops and not collected.kernels:
        hint = "profile with `activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]`, and some active steps"
        raise TraceError(f"no op and no kernel is among its {collected.events} events", hint)
    return collected.rank(shown or str(path), head)


class _Collected:
    """What is retained of a file's events."""

    def __init__(self) -> None:
        self.events, self.ours, self.zero = 0, False, None
        self.ops: dict[int, list[RecordedOp]] = {}
        self.kernels: list[RecordedKernel] = []
        self.launches: list[tuple[int, float, int]] = []
        self.steps: dict[int, RecordedStep] = {}
        self.named: set[int] = set()

    def add(self, record: Record) -> None:
        self.events += 1
        if record.get("ph") != "X":
            return
        category, name = record.get("cat", ""), str(record["name"])
        arguments: dict[str, Any] = record.get("args") or {}
        self.ours = self.ours or "statement" in arguments
        if category == "python_function" and not name.startswith(MODULE):
            return
        begins, lasts = float(record["ts"]), float(record.get("dur", 0))
        if not (math.isfinite(begins) and math.isfinite(lasts)):
            raise ValueError("a time is not finite")
        if self.zero is None:
            self.zero = begins
        start = (begins - self.zero) / 1e6
        end = start + max(0.0, lasts) / 1e6
        if category in KERNELS:
            self.kernels.append(_kernel(intern(name), arguments, start, end, record))
        elif category in LAUNCHES:
            if "Launch" in name or "Memcpy" in name or "Memset" in name:
                self.launches.append((_number(arguments.get("correlation")) or -1, start, _thread(record)))
        elif category in CPU or category == "python_function":
            if (step := STEP.match(name)) is not None:
                self.steps[int(step[1])] = RecordedStep(int(step[1]), start, end)
                return
            own = RecordedOp(intern(name), _thread(record), start, end, region=category != "cpu_op")
            if "Input Dims" in arguments:
                own.dims = tuple(_dims(dims) for dims in _listed(arguments["Input Dims"]))
                own.dtypes = tuple(intern(str(kind)) for kind in _listed(arguments.get("Input type")))
            own.external = _number(arguments.get("External id"))
            own.sequence = _number(arguments.get("Sequence number"))
            self.ops.setdefault(own.thread, []).append(own)

    def rank(self, path: str, head: Mapping[str, Any]) -> RankTrace:
        shapes = any(op.dims for own in self.ops.values() for op in own)
        messages, ops = _apart(self.ops)
        threads = {thread: _nested(own) for thread, own in ops.items()}
        _linked(threads, self.kernels, self.launches)
        steps = self._full_steps()
        marked = bool(steps)
        if not marked:
            spans = [(op.start, op.end) for own in threads.values() for op in own]
            spans += [(kernel.start, kernel.end) for kernel in self.kernels]
            last = max(end for _, end in spans)
            steps = [RecordedStep(None, min(start for start, _ in spans), last + 1e-12)]
        about = head.get("distributedInfo")
        stated: Mapping[str, Any] = cast("Mapping[str, Any]", about) if isinstance(about, dict) else {}
        rank, world = _number(stated.get("rank")), _number(stated.get("world_size"))
        launches = sorted(start for _, start, _ in self.launches)
        self.kernels.sort(key=lambda kernel: kernel.start)
        return RankTrace(
            path, rank, world, steps, marked, threads, messages, self.kernels, launches, shapes, self.events
        )

    def _full_steps(self) -> list[RecordedStep]:
        """The marked steps, in order, without those behind the last op: the profiler ends within an empty one."""
        starts = [op.start for own in self.ops.values() for op in own if not op.region]
        starts += [start for _, start, _ in self.launches]
        last = max(starts or [kernel.start for kernel in self.kernels], default=math.inf)
        steps = sorted(self.steps.values(), key=lambda step: step.start)
        return [step for step in steps if step.start <= last] or steps


def walk(ops: Iterable[RecordedOp]) -> Iterator[RecordedOp]:
    """All ops of some, with those inside them, the outer ones first."""
    pending = list(reversed(list(ops)))
    while pending:
        op = pending.pop()
        yield op
        pending.extend(reversed(op.inside))


def _apart(ops: Mapping[int, list[RecordedOp]]) -> tuple[list[RecordedOp], dict[int, list[RecordedOp]]]:
    """What gloo communicates, and the ops of all threads but those of gloo, which do nothing besides."""
    messages: list[RecordedOp] = []
    others: dict[int, list[RecordedOp]] = {}
    for thread, every in ops.items():
        own = sorted((op for op in every if op.name.startswith(GLOO)), key=lambda op: op.start)
        rest = [op for op in every if not op.name.startswith(GLOO)]
        messages += own
        if not own or any((around := _around(own, op.start)) is None or around.end < op.end for op in rest):
            others[thread] = rest
    return messages, others


def _nested(ops: list[RecordedOp]) -> list[RecordedOp]:
    """Ops of one thread, those put inside others that lie within their time; the outermost ones."""
    ops.sort(key=lambda op: (op.start, -op.end))
    outermost: list[RecordedOp] = []
    around: list[RecordedOp] = []
    for op in ops:
        while around and around[-1].end <= op.start:
            around.pop()
        (around[-1].inside if around else outermost).append(op)
        around.append(op)
    return outermost


def _linked(
    threads: Mapping[int, Sequence[RecordedOp]],
    kernels: Sequence[RecordedKernel],
    launches: Sequence[tuple[int, float, int]],
) -> None:
    """Give each kernel to the innermost op that launched it: by the op's id, or else by the launch's time."""
    if not kernels:
        return
    by_id = {op.external: op for own in threads.values() for op in walk(own) if op.external is not None}
    by_launch = {correlation: (start, thread) for correlation, start, thread in launches}
    for kernel in kernels:
        op = None if kernel.external is None else by_id.get(kernel.external)
        around: list[RecordedOp] = [] if op is None else [op]
        if kernel.correlation in by_launch:
            start, thread = by_launch[kernel.correlation]
            around += _enclosing(threads.get(thread, ()), start)
            op = op or (around[-1] if around else None)
        if op is not None:
            op.kernels.append(kernel)
        if kernel.collective is not None and kernel.collective.pattern == "send":
            kernel.collective = _launched_by(around, kernel.collective)


def _launched_by(around: Sequence[RecordedOp], found: RecordedCollective) -> RecordedCollective:
    """What a kernel of NCCL that sends and receives is of: its all-to-all, gather and scatter consist of such."""
    for op in reversed(around):
        if (launched := collective(op.name.removeprefix(C10D))) is not None:
            return replace(found, pattern=launched.pattern)
    return found


def _around(ops: Sequence[RecordedOp], moment: float) -> RecordedOp | None:
    """The innermost op that a moment is in."""
    return next(reversed(_enclosing(ops, moment)), None)


def _enclosing(ops: Sequence[RecordedOp], moment: float) -> list[RecordedOp]:
    """The ops that a moment is in, the outermost first."""
    found: list[RecordedOp] = []
    while ops:
        index = bisect_right(ops, moment, key=lambda op: op.start) - 1
        if index < 0 or ops[index].end < moment:
            break
        found.append(ops[index])
        ops = ops[index].inside
    return found


def _kernel(name: str, arguments: Mapping[str, Any], start: float, end: float, record: Record) -> RecordedKernel:
    device, stream = _number(arguments.get("device")), _number(arguments.get("stream"))
    return RecordedKernel(
        name,
        device or 0,
        _thread(record) if stream is None else stream,
        start,
        end,
        _number(arguments.get("correlation")),
        _number(arguments.get("External id")),
        _collective(name, arguments),
    )


def _collective(name: str, arguments: Mapping[str, Any]) -> RecordedCollective | None:
    """What a kernel of NCCL says that it does; of an old torch, what its name says."""
    stated = arguments.get("Collective name")
    if stated is None:
        found = re.match(r"nccl(?:Dev)?Kernel_?([A-Za-z]+?)(?:_|RING|TREE|$)", name)
        return None if found is None else collective(found[1])
    width = BYTES.get(_plain(str(arguments.get("dtype", ""))), 0)
    sent, received = (_number(arguments.get(f"{way} msg nelems")) for way in ("In", "Out"))
    size = _number(arguments.get("Group size"))
    ranks = _ranks(arguments.get("Process Group Ranks"), size)
    into, out_of = (None if n is None or not width else n * width for n in (sent, received))
    return collective(str(stated), into, out_of, ranks, size)


def collective(
    name: str,
    nbytes: int | None = None,
    received: int | None = None,
    ranks: tuple[int, ...] | None = None,
    size: int | None = None,
) -> RecordedCollective | None:
    """A communication by torch's name of it; None for one that moves no tensor, as a barrier."""
    pattern = PATTERNS.get(_plain(name))
    return None if pattern is None else RecordedCollective(pattern, nbytes, received, ranks, size)


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


def _plain(name: str) -> str:
    return name.lower().removeprefix("c10::").replace("_", "").replace(" ", "").removeprefix("nccl:")


def _ranks(stated: object, size: int | None) -> tuple[int, ...] | None:
    """The ranks of a group; None where Kineto left some out, as it does of large groups."""
    if isinstance(stated, str):
        try:
            stated = json.loads(stated)
        except ValueError:
            return None
    if not isinstance(stated, list):
        return None
    found = tuple(rank for rank in cast("list[object]", stated) if isinstance(rank, int))
    return found if found and len(found) == (size or len(found)) else None


def _thread(record: Record) -> int:
    return _number(record.get("tid")) or 0


def _number(found: object) -> int | None:
    if isinstance(found, (int, float)):
        return int(found)
    return int(found) if isinstance(found, str) and found.isdecimal() else None


def _listed(found: object) -> list[Any]:
    return cast("list[Any]", found) if isinstance(found, list) else []


def _dims(found: object) -> Any:
    """A shape, or shapes of a list, as tuples."""
    if not isinstance(found, list):
        return ()
    return tuple(_dims(item) if isinstance(item, list) else int(item) for item in cast("list[Any]", found))  # pyright: ignore[reportUnknownArgumentType]
