"""The traces of a run: which files, and which rank each is of."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from distir.cost import show_seconds
from distir.files.reading import Named
from distir.traces.collectives import UNKNOWN
from distir.traces.events import SUFFIXES, TraceError, is_trace
from distir.traces.kineto import read_rank
from distir.traces.marks import PROFILER
from distir.traces.records import RankTrace

BEHIND = 0.5
"""From this share of a step on, it is mentioned that kernels end behind it."""

_RANK = re.compile(r"rank[-_]?(\d+)", re.I)
_NUMBER = re.compile(r"\d+")


def files_of(path: Named) -> list[str]:
    """The traces that a path names: a file, or those in a folder, by the numbers in their names.

    Raises OSError, and TraceError for a folder without any.
    """
    name = os.fspath(path)
    if not os.path.isdir(name):
        return [name]
    found = [os.path.join(name, file) for file in os.listdir(name) if is_trace(file) and not file.startswith(".")]
    if not found:
        ends = " or ".join(f"`*{suffix}`" for suffix in SUFFIXES)
        raise TraceError(f"expected a folder with traces, {ends}, found none", "name the files, or their folder")
    return sorted(found, key=lambda file: [int(n) for n in _NUMBER.findall(os.path.basename(file))] + [0])


def read_ranks(paths: Sequence[Named]) -> dict[int, RankTrace]:
    """By rank: its trace. A rank is what the file states, or else its name (`rank3.json`), or else its place.

    Raises OSError, and TraceError, which names the file.
    """
    files = [file for path in paths for file in files_of(path)]
    found: dict[int, RankTrace] = {}
    for index, file in enumerate(files):
        try:
            trace = read_rank(file)
        except TraceError as error:
            raise TraceError(f"`{file}`: {error}", error.help) from None
        named = _RANK.search(os.path.basename(file))
        rank = trace.rank if trace.rank is not None else int(named[1]) if named else index
        if rank in found:
            hint = "name one file of each rank: of one profile, not of several"
            raise TraceError(f"`{found[rank].path}` and `{file}` are both of rank {rank}", hint)
        found[rank] = trace
    return dict(sorted(found.items()))


def world_of(traces: Sequence[RankTrace]) -> int:
    """How many ranks the run had: as the files state, or else as many as there are."""
    return max([len(traces), *(trace.world for trace in traces if trace.world)])


def notes_on(traces: Sequence[RankTrace]) -> list[str]:
    """What figures of these traces are to be read with."""
    found: list[str] = []
    found += _on_devices(traces)
    found += _on_steps(traces)
    if any(not trace.shapes for trace in traces if trace.threads):
        found.append("no shapes are recorded: ops are lined up by name and order; profile with `record_shapes=True`")
    world = world_of(traces)
    if len(traces) < world:
        count = f"{len(traces)} of {world} ranks {'is' if len(traces) == 1 else 'are'} here"
        found.append(f"{count}: the time of communication includes waiting for the others")
    elif len({len(trace.steps) for trace in traces}) > 1:
        found.append("ranks have different numbers of steps: only the first ones are without waiting for others")
    return found


def _on_devices(traces: Sequence[RankTrace]) -> list[str]:
    """What was not recorded of devices, or of more than one."""
    found: list[str] = []
    if hidden := next((trace for trace in traces if trace.unrecorded), None):
        found.append(
            f"ops ran on a GPU ({hidden.device}), of which no kernel is recorded: times of ops are those of the host, "
            "which issues them; profile with its activity, as `ProfilerActivity.CUDA`, and the rights that it needs"
        )
    if silent := next((trace for trace in traces if trace.device.is_host and trace.device.names), None):
        found.append(
            f"nothing is recorded of the machine's GPU ({silent.device.names[0]}): times of ops are those of the host, "
            "also of any that ran there; profile with `ProfilerActivity.CUDA`"
        )
    if any(not trace.threads for trace in traces):
        found.append("no op of the host is recorded, only kernels: profile with `ProfilerActivity.CPU`, too")
    for trace in traces:
        if (count := len({kernel.device for kernel in trace.kernels})) > 1:
            found.append(f"`{trace.path}` has kernels of {count} GPUs: its figures are of all of them together")
    graphs = sum(kernel.graph for trace in traces for kernel in trace.kernels)
    if graphs:
        found.append(f"{graphs} kernels are of CUDA graphs, which say of no op which one it is: listed by their names")
    if any(kernel.collective and kernel.collective.pattern == UNKNOWN for trace in traces for kernel in trace.kernels):
        found.append(f"of kernels called `{UNKNOWN}`, nothing recorded says which collective they are")
    return found


def _on_steps(traces: Sequence[RankTrace]) -> list[str]:
    """What counts as a step, and what does not."""
    found: list[str] = []
    if any(trace.mark is None for trace in traces):
        found.append(
            "no `ProfilerStep` is marked: each file counts as one step; call `profiler.step()` in the training loop"
        )
    found += dict.fromkeys(
        f"no `ProfilerStep` is marked: steps are what the annotation `{trace.mark}` marks"
        for trace in traces
        if trace.mark not in (None, PROFILER)
    )
    found += [f"`{trace.path}`: left out is {which}" for trace in traces for which in trace.left_out]
    for trace in traces:
        behind = max((kernel.end for kernel in trace.kernels), default=0.0) - trace.steps[-1].end
        if trace.mark is not None and behind > BEHIND * trace.steps[-1].seconds:
            found.append(
                f"`{trace.path}`: kernels end {show_seconds(behind)} behind the last step: the host runs ahead, and "
                "its steps may be shorter than those of the GPU"
            )
    return found
