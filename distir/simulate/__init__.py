"""Time and memory: the simulator."""

from distir.simulate.memory import Live, MemoryPoint, MemoryProfile
from distir.simulate.simulation import Bind, BindError, DeviceUse, Simulation, arguments, plan, simulate
from distir.simulate.timeline import Event, Timeline, Wait

__all__ = [
    "Bind",
    "BindError",
    "DeviceUse",
    "Event",
    "Live",
    "MemoryPoint",
    "MemoryProfile",
    "Simulation",
    "Timeline",
    "Wait",
    "arguments",
    "plan",
    "simulate",
]
