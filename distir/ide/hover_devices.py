"""Hover on a device: how long it works, communicates and idles, and what its memory holds at its peak."""

from __future__ import annotations

from distir.cost import show_bytes, show_seconds
from distir.ide.hover_functions import idle_share
from distir.ide.instances import View
from distir.ide.markdown import items, paragraphs


def about_device(view: View, device: int) -> str | None:
    """A device of the simulated program; None without a simulation."""
    simulation = view.simulation
    if simulation is None:
        return None
    use = simulation.devices.get(device)
    if use is None:
        return f"device {device}: no op of @{simulation.function.name} runs there, on {simulation.hardware.name}"
    latency = simulation.latency_s
    busy = f"busy **{show_seconds(use.busy_s)}** of {show_seconds(latency)} ({idle_share(use.busy_s, latency)})"
    communicating = f", {show_seconds(use.comm_s)} of it communicating" if use.comm_s else ""
    fits = "" if use.device_fit == "fits" else f" **{use.device_fit}**"
    lines = [
        f"{busy}{communicating}",
        f"idle {show_seconds(use.idle_s)} ({idle_share(use.idle_s, latency)})",
        f"peak memory **{show_bytes(use.peak_memory_bytes)}** of {show_bytes(use.capacity_bytes)}{fits}",
    ]
    if use.offloaded_bytes:
        over = "" if use.offloaded_bytes <= use.host_capacity_bytes else " **does not fit**"
        said = f"offloaded **{show_bytes(use.offloaded_bytes)}** to its share of the host's memory"
        lines.append(f"{said}, {show_bytes(use.host_capacity_bytes)}{over}")
    return paragraphs([f"device {device} of {simulation.hardware.name}", items(lines)])
