"""How much of this machine's memory the reference executor may take, and refusing what needs more beforehand."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from distir.cli.endings import Refused
from distir.files.reading import OURS, read_text

if TYPE_CHECKING:
    from distir.ir import Dim, Param

BYTES_DRAWN = 8
"""Random numbers are drawn in Float64, whatever they become."""

HELP = "choose smaller sizes, or allow more with `--max-memory`; `distir simulate` needs no memory for tensors"


def allowed(flag: str | None) -> int | None:
    """The bytes that may be taken: by the flag, else what this machine has free; None where it does not tell.

    Raises Refused for an invalid size.
    """
    from distir.cost import UnitError, parse_bytes

    if flag is None:
        return available_bytes()
    try:
        return parse_bytes(flag)
    except UnitError as error:
        raise Refused(f"`--max-memory`: {error}", error.help) from None


def refuse_inputs(params: Iterable[Param], sizes: Mapping[str, Dim], most: int | None) -> None:
    """Raises Refused where random values for these parameters take more than `most` bytes."""
    from distir.cost import show_bytes
    from distir.ir import TensorType, types

    total = largest = 0
    for param in params:
        for leaf in types.leaves(types.substitute(param.type, sizes)):
            elements = leaf.elements if isinstance(leaf, TensorType) else None
            if isinstance(leaf, TensorType) and leaf.dtype is not None and isinstance(elements, int):
                total += elements * leaf.dtype.bytes
                largest = max(largest, elements)
    needed = total + largest * BYTES_DRAWN
    if most is not None and needed > most:
        raise Refused(f"the inputs need {show_bytes(needed)} of memory, {show_bytes(most)} are allowed", HELP)


@contextmanager
def within(most: int | None) -> Generator[None]:
    """In the block, this process gets no more than `most` bytes beyond what it has: MemoryError instead of swapping.

    It is what catches that which no estimate beforehand sees: what ops need while they run.
    """
    try:
        import resource
    except ImportError:  # a system without such limits
        yield
        return
    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = None if most is None else _data_bytes() + most + _ROOM
    if wanted is None or any(limit != resource.RLIM_INFINITY and wanted > limit for limit in (before, hard)):
        yield
        return
    resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, hard))


_ROOM = 1 << 30
"""Bytes for what is loaded in the meantime, and for the stacks of threads."""


def available_bytes() -> int | None:
    """The available memory without swapping, as the system reports it."""
    try:
        for line in read_text("/proc/meminfo", OURS).splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _data_bytes() -> int:
    """The memory of this process, as RLIMIT_DATA counts it."""
    try:
        for line in read_text("/proc/self/status", OURS).splitlines():
            if line.startswith("VmData:"):
                return 1024 * int(line.split()[1])
    except (OSError, ValueError):
        pass
    return 0
