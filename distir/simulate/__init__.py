"""Time and memory: the simulator.

Names are imported when they are first asked for: programs that only check need not load the simulator.
"""

from typing import TYPE_CHECKING

from distir.ir.late import late_names

if TYPE_CHECKING:
    from distir.simulate.memory import Live, MemoryPoint, MemoryProfile
    from distir.simulate.simulation import Bind, BindError, DeviceUse, Simulation, arguments, plan, simulate
    from distir.simulate.sizes import Sweep
    from distir.simulate.timeline import Event, Timeline, Wait

_HOMES = {
    "distir.simulate.memory": ("Live", "MemoryPoint", "MemoryProfile"),
    "distir.simulate.simulation": (
        "Bind",
        "BindError",
        "DeviceUse",
        "Simulation",
        "arguments",
        "plan",
        "simulate",
    ),
    "distir.simulate.sizes": ("Sweep",),
    "distir.simulate.timeline": ("Event", "Timeline", "Wait"),
}
__getattr__ = late_names(__name__, {name: home for home, names in _HOMES.items() for name in names})

__all__ = [
    "Bind",
    "BindError",
    "DeviceUse",
    "Event",
    "Live",
    "MemoryPoint",
    "MemoryProfile",
    "Simulation",
    "Sweep",
    "Timeline",
    "Wait",
    "arguments",
    "plan",
    "simulate",
]
