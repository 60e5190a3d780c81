"""On which kind of device a trace's ops ran, by its file's properties of devices, and calls of runtimes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

HOST = "CPU"
CUDA, ROCM = "CUDA", "ROCm"

RUNTIMES = {"xpu": "XPU", "mtia": "MTIA", "hpu": "HPU", "glow": "Glow", "privateuse1": "a device of a plugin"}
"""The devices of Kineto's categories, as `xpu_runtime`, but for those of CUDA, which ROCm shares."""

_AMD = re.compile(r"\bAMD\b|Instinct|Radeon|\bgfx\d|\bMI\d{2}", re.I)


@dataclass(frozen=True, slots=True)
class RecordedDevice:
    """What ran a rank's ops. `names`: as the file has them, also of devices of which nothing was recorded."""

    kind: str
    names: tuple[str, ...]

    @property
    def is_host(self) -> bool:
        """Whether nothing tells of another device than the host's."""
        return self.kind == HOST

    def __str__(self) -> str:
        return self.kind if self.is_host or not self.names else " and ".join(dict.fromkeys(self.names))


def device_of(head: Mapping[str, Any], categories: Sequence[str], runtime: str, kernels: bool) -> RecordedDevice:
    """The device by a file's head, the categories of its events, and the name of a runtime's call, if there is one."""
    names = _names(head)
    kind = next((said for prefix, said in RUNTIMES.items() if any(c.startswith(f"{prefix}_") for c in categories)), "")
    if not kind and (runtime.startswith("hip") or any(_AMD.search(name) for name in names)):
        kind = ROCM
    if not kind and (runtime.startswith("cu") or (kernels and any("NVIDIA" in n or "Tesla" in n for n in names))):
        kind = CUDA
    if kind in (ROCM, CUDA) and not (runtime or kernels):
        kind = HOST
    return RecordedDevice(kind or ("GPU" if runtime or kernels else HOST), names)


def _names(head: Mapping[str, Any]) -> tuple[str, ...]:
    listed = head.get("deviceProperties") or head.get("computeProperties")
    if not isinstance(listed, list):
        return ()
    every = [cast("Mapping[str, Any]", one) for one in cast("list[object]", listed) if isinstance(one, dict)]
    return tuple(str(one["name"]) for one in every if "name" in one)
