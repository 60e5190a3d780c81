"""What a file is that is no trace of `torch.profiler`, by its keys and its events: said where it is refused."""

from __future__ import annotations

from collections.abc import Collection, Mapping

EXPORT = "`torch.profiler`'s `export_chrome_trace` writes one"

DOCUMENTS: Mapping[frozenset[str], str] = {
    frozenset(["schema", "nodes"]): "an execution trace (Chakra), which has no times of kernels",
    frozenset(["segments", "device_traces"]): "a snapshot of torch's allocator",
    frozenset(["planes"]): "a profile of XLA (`xplane`)",
    frozenset(["nodes", "edges"]): "a graph",
}
"""What JSON without `traceEvents` is that has these keys."""

BEGINNINGS: Mapping[bytes, str] = {
    b"PK\x03\x04": "an archive (zip); unpack it",
    b"\x28\xb5\x2f\xfd": "compressed with zstd; unpack it, or compress with gzip",
    b"BZh": "compressed with bzip2; unpack it, or compress with gzip",
    b"\xfd7zXZ": "compressed with xz; unpack it, or compress with gzip",
    b"SQLite format 3": "a database (SQLite), as Nsight Systems and rocprof export one",
    b"\x80": "a pickle, as torch writes snapshots of its allocator",
    b"version https://git-lfs": "a pointer of Git LFS to the file; fetch that with `git lfs pull`",
    b"<": "HTML or XML, as of a page or of `export_memory_timeline`",
}
"""What a file is that begins so, and is no JSON."""

ARCHIVE = 257, b"ustar"
"""What an archive of tar has there."""

PROCESSES: Mapping[str, str] = {
    "/device:": "a profile of XLA or TensorFlow",
    "/host:": "a profile of XLA or TensorFlow",
    "Ascend Hardware": "a trace of torch_npu, on Ascend",
    "CANN": "a trace of torch_npu, on Ascend",
    "CPU functions": "a trace of the older `torch.autograd.profiler`",
    "MainProcess": "a trace of VizTracer",
}
"""What a trace is of which a process is called so."""


def text(data: bytes) -> str | None:
    """What a file is that is no JSON, if it is known."""
    at, mark = ARCHIVE
    if data[at : at + len(mark)] == mark:
        return "an archive (tar); unpack it"
    return next((said for begin, said in BEGINNINGS.items() if data.lstrip().startswith(begin)), None)


def document(keys: Collection[str]) -> str | None:
    """What a JSON object with these keys is, if it is known."""
    return next((said for wanted, said in DOCUMENTS.items() if wanted <= set(keys)), None)


def trace(processes: Collection[str], phases: Mapping[str, int], categories: Mapping[str, int]) -> tuple[str, str]:
    """Why a trace has neither op nor kernel, and what to do. By phase and category: how many events there are."""
    of = next((said for begin, said in PROCESSES.items() if any(p.startswith(begin) for p in processes)), None)
    if of is not None:
        return f"it is {of}, not of `torch.profiler`", EXPORT
    if phases.get("B", 0) > phases.get("X", 0):
        return "its events are pairs of begin and end; `torch.profiler` writes whole ones", EXPORT
    listed = ", ".join(f"`{category}`" for category in list(categories)[:5])
    among = f" (they are of {listed})" if listed else ""
    hint = "profile with `activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]`, and some active steps"
    return f"no op and no kernel is among its {sum(phases.values())} events{among}", hint
