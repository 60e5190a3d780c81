"""DIR5xx: what stands in the way of simulating or running a program, and what simulation finds."""

from distir.diagnostics.core import Severity, code

UNKNOWN_COST = code(
    "DIR501",
    "unknown-cost",
    """
An op's time cannot be told, because a dimension, a shape or an element type of its operands is unknown. Type the
entry function's parameters, or bind named dimensions with `--bind B=64` or `[bind]` in `distir.toml`.
""",
)

NO_COST_RULE = code(
    "DIR502",
    "no-cost-rule",
    """
The op declares no work: neither `flops` nor `communication` nor `view`. Without one of them there is no honest time
for it. State it where the op is defined.
""",
)

UNPLACED = code(
    "DIR503",
    "unplaced-value",
    """
The op runs on devices, but on which is not known: a parameter of the entry function leaves its device open. State it
in the parameter's type.
""",
)

DEVICE_NOT_IN_HARDWARE = code(
    "DIR504",
    "device-not-in-hardware",
    """
The program uses a device that the hardware lacks. Devices are numbered from 1, or from 0 where a program uses
device 0. Choose a larger machine with `--hardware`, or fewer devices.
""",
)

OUT_OF_MEMORY = code(
    "DIR505",
    "out-of-memory",
    """
At this op the values that are live on a device, and the memory that the op needs while it runs, exceed the device's
memory. The notes name the largest live values.
""",
    severity=Severity.ERROR,
)

OVER_LATENCY_BUDGET = code(
    "DIR506",
    "over-latency-budget",
    """
The simulated latency exceeds the budget given by `--max-latency`, or by `max_latency` under `[budget]` in
`distir.toml`.
""",
)

OVER_MEMORY_BUDGET = code(
    "DIR507",
    "over-memory-budget",
    """
A device's simulated peak memory exceeds the budget given by `--max-memory`, or by `max_memory` under `[budget]` in
`distir.toml`.
""",
)

UNBOUND = code(
    "DIR508",
    "unbound-dimension",
    """
A named dimension of the entry function has no size. Give one with `--bind B=64`, or under `[bind]` in `distir.toml`.
""",
)
