"""What `torch.profiler` records (Kineto), read event by event: one rank's file.

The names of categories and arguments are those that Kineto and torch write (pytorch/kineto, `output_json.cpp` and
`ActivityType.cpp`; torch/csrc/profiler, `collection.cpp`), of torch 1.8 too. Times are in seconds from the first event
of the file. Of Python's functions only the calls of modules are retained.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from sys import intern
from typing import Any, cast

from distir.files.reading import Named
from distir.traces import marks, strangers
from distir.traces.collectives import (
    GLOO,
    RecordedCollective,
    by_kernel,
    collective,
    communicates,
    number,
    stated,
)
from distir.traces.devices import device_of
from distir.traces.events import Record, TraceError, read_events
from distir.traces.records import MODULE, RankTrace, RecordedKernel, RecordedOp, RecordedStep, walk

OPS = frozenset(["cpu_op", "operator"])
ANNOTATIONS = frozenset(["user_annotation"])
COPIES = frozenset(["gpu_memcpy", "gpu_memset", "memcpy", "memset"])
KERNELS = frozenset(["kernel", "mtia_ccp_events", *COPIES])
"""Categories of what a device does."""

REGIONS = ("Optimizer.", "enumerate(DataLoader)")
"""How the names of annotations begin that torch 1.8 recorded as ops."""

LAUNCHING = ("Launch", "Memcpy", "Memset")
GRAPH = "GraphLaunch"
"""What the names of a runtime's calls contain that put work on a stream, and a whole graph of it."""

RUNTIMES = ("_runtime", "_driver")
"""How categories of a runtime's calls end; "runtime" alone in torch 1.8."""


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
        raise TraceError(*strangers.trace(collected.processes, collected.phases, collected.categories))
    return collected.rank(shown or str(path), head)


class _Collected:
    """What is retained of a file's events."""

    def __init__(self) -> None:
        self.ours, self.zero, self.runtime = False, None, ""
        self.ops: dict[str, list[RecordedOp]] = {}
        self.kernels: list[RecordedKernel] = []
        self.launches: list[_Launch] = []
        self.steps: dict[str, list[RecordedStep]] = {}
        self.phases: Counter[str] = Counter()
        self.categories: Counter[str] = Counter()
        self.processes: set[str] = set()

    def add(self, record: Record) -> None:
        phase = str(record.get("ph", ""))
        self.phases[phase] += 1
        arguments: dict[str, Any] = record.get("args") or {}
        if phase == "M" and record.get("name") == "process_name":
            self.processes.add(str(arguments.get("name")))
        if phase != "X":
            return
        category, name = str(record.get("cat", "")).lower(), str(record["name"])
        self.ours = self.ours or "statement" in arguments
        self.categories[category] += 1
        if isinstance(record.get("pid"), str):
            self.processes.add(record["pid"])
        if category == "python_function" and not name.startswith(MODULE):
            return
        start, end = self._span(record)
        if category in KERNELS:
            self.kernels.append(_kernel(intern(name), category, arguments, start, end, record))
        elif category.endswith(RUNTIMES) or category == "runtime":
            self.runtime = self.runtime or name
            if category.startswith("mtia") or any(word in name for word in LAUNCHING):
                launched = number(arguments.get("correlation"))
                self.launches.append((-1 if launched is None else launched, start, _thread(record), GRAPH in name))
        elif (step := marks.STEP.match(name)) is not None:
            self.steps.setdefault(category, []).append(RecordedStep(int(step[1]), start, end))
        elif category in OPS or category in ANNOTATIONS or category == "python_function":
            own = _op(intern(name), category, arguments, start, end, _thread(record))
            self.ops.setdefault(own.thread, []).append(own)

    def _span(self, record: Record) -> tuple[float, float]:
        begins, lasts = float(record["ts"]), float(record.get("dur") or 0)
        if not (math.isfinite(begins) and math.isfinite(lasts)):
            raise ValueError("a time is not finite")
        if self.zero is None:
            self.zero = begins
        start = (begins - self.zero) / 1e6
        return start, start + max(0.0, lasts) / 1e6

    def rank(self, path: str, head: Mapping[str, Any]) -> RankTrace:
        shapes = any(op.dims for own in self.ops.values() for op in own)
        messages, ops = _apart(self.ops)
        threads = {thread: _nested(own) for thread, own in ops.items()}
        _linked(threads, self.kernels, self.launches)
        mark, steps, left_out = self._steps(threads)
        about = head.get("distributedInfo")
        known: Mapping[str, Any] = cast("Mapping[str, Any]", about) if isinstance(about, dict) else {}
        self.kernels.sort(key=lambda kernel: kernel.start)
        return RankTrace(
            path,
            number(known.get("rank")),
            number(known.get("world_size")),
            steps,
            mark,
            left_out,
            threads,
            messages,
            self.kernels,
            sorted(start for _, start, _, _ in self.launches),
            shapes,
            self.phases.total(),
            device_of(head, list(self.categories), self.runtime, bool(self.kernels)),
        )

    def _steps(
        self, threads: Mapping[str, Sequence[RecordedOp]]
    ) -> tuple[str | None, list[RecordedStep], tuple[str, ...]]:
        """What marks steps, the steps, and which marked ones are none: the profiler ends within an empty one."""
        by_host = [step for category, own in self.steps.items() if category in OPS | ANNOTATIONS for step in own]
        marked = by_host or [step for own in self.steps.values() for step in own]
        mark: str | None = marks.PROFILER
        if not marked:
            mark, marked = marks.repeated(threads)
        if not marked:
            spans = [(op.start, op.end) for own in threads.values() for op in own]
            spans += [(kernel.start, kernel.end) for kernel in self.kernels]
            last = max(end for _, end in spans)
            return None, [RecordedStep(None, min(start for start, _ in spans), last + 1e-12)], ()
        starts = [op.start for own in self.ops.values() for op in own if not op.region]
        launched = [kernel.launched for kernel in self.kernels if kernel.launched is not None]
        alone = [kernel.start for kernel in self.kernels] if not starts else launched
        steps, left_out = marks.whole_steps(marked, {"ops": sorted(starts), "kernels": sorted(alone)})
        return mark, steps, left_out


_Steps = tuple[str | None, list[RecordedStep], tuple[str, ...]]

_Launch = tuple[int, float, str, bool]
"""Its correlation, when and on which thread it is, and whether it launches a graph."""


def _apart(ops: Mapping[str, list[RecordedOp]]) -> tuple[list[RecordedOp], dict[str, list[RecordedOp]]]:
    """What gloo communicates, and the ops of all threads but those of gloo, which do nothing besides."""
    messages: list[RecordedOp] = []
    others: dict[str, list[RecordedOp]] = {}
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
    threads: Mapping[str, Sequence[RecordedOp]], kernels: Sequence[RecordedKernel], launches: Sequence[_Launch]
) -> None:
    """Give each kernel to the innermost op that launched it: by the op's id, or else by the launch's time.

    Those of a graph belong to no op: it was launched as a whole.
    """
    if not kernels:
        return
    by_id = {op.external: op for own in threads.values() for op in walk(own) if op.external is not None}
    by_launch = {launch[0]: launch for launch in launches}
    for kernel in kernels:
        op = None if kernel.external is None else by_id.get(kernel.external)
        around: list[RecordedOp] = [] if op is None else [op]
        if kernel.correlation in by_launch:
            _, kernel.launched, thread, graph = by_launch[kernel.correlation]
            kernel.graph = kernel.graph or graph
            around += _enclosing(threads.get(thread, ()), kernel.launched)
            op = op or (around[-1] if around else None)
        elif op is not None:
            kernel.launched = op.start
        if op is not None and not kernel.graph:
            op.kernels.append(kernel)
        if kernel.collective is None and not kernel.copies:
            kernel.collective = (None if kernel.graph else _called(around)) or by_kernel(kernel.name)


def _called(around: Sequence[RecordedOp]) -> RecordedCollective | None:
    """What the calls around a launch communicate; none where an op that computes is inside them."""
    for op in reversed(around):
        if op.collective is not None:
            return op.collective
        if communicates(op.name):
            if (found := collective(op.name)) is not None:
                return found
        elif not op.region:
            return None
    return None


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


def _kernel(
    name: str, category: str, arguments: Mapping[str, Any], start: float, end: float, record: Record
) -> RecordedKernel:
    device, stream = number(arguments.get("device")), number(arguments.get("stream"))
    return RecordedKernel(
        name,
        device or 0,
        _stream(record) if stream is None else stream,
        start,
        end,
        number(arguments.get("correlation")),
        _external(arguments),
        stated(arguments),
        category in COPIES,
        bool(number(arguments.get("graph node id"))),
    )


def _op(name: str, category: str, arguments: Mapping[str, Any], start: float, end: float, thread: str) -> RecordedOp:
    region = category not in OPS or name.startswith(REGIONS)
    own = RecordedOp(name, thread, start, end, region=region)
    dims = arguments.get("Input Dims", arguments.get("Input dims"))
    if dims is not None:
        own.dims = tuple(_dims(one) for one in _listed(dims))
        own.dtypes = tuple(intern(str(kind)) for kind in _listed(arguments.get("Input type")))
    own.external = _external(arguments)
    own.sequence = number(arguments.get("Sequence number"))
    own.collective = stated(arguments)
    return own


def _external(arguments: Mapping[str, Any]) -> int | None:
    """Kineto's number of an op, also of those that launched a kernel."""
    return number(arguments.get("External id", arguments.get("external id")))


def _thread(record: Record) -> str:
    return f"{record.get('pid', '')}/{record.get('tid', '')}"


def _stream(record: Record) -> int:
    """The stream that a kernel's thread is named after: `stream 7` in torch 1.8."""
    return number(str(record.get("tid", "")).removeprefix("stream ")) or 0


def _listed(found: object) -> list[Any]:
    return cast("list[Any]", found) if isinstance(found, list) else []


def _dims(found: object) -> Any:
    """A shape, or shapes of a list, as tuples."""
    if not isinstance(found, list):
        return ()
    return tuple(_dims(item) if isinstance(item, list) else int(item) for item in cast("list[Any]", found))  # pyright: ignore[reportUnknownArgumentType]
