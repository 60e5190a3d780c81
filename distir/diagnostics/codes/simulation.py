"""DIR5xx: why a program cannot be simulated or run, and findings of simulations."""

from distir.diagnostics.core import Severity, code

UNKNOWN_COST = code(
    "DIR501",
    "unknown-cost",
    """
An op's time, or a value's size, is unknown, because a dimension, a shape or an element type is unknown.

```dir
func @main(%x: Tensor[Float32, (?, 768), 1]) {  // error: DIR501
  %y = Relu(%x)
  return %y
}
```

Annotate the entry function's parameters with types. Use names for symbolic dimensions, and set their sizes with `--bind
B=64` or under `[bind]` in `distir.toml`:

```dir
func @main(%x: Tensor[Float32, (B, 768), 1]) {
  %y = Relu(%x)
  return %y
}
```
""",
)

NO_COST_RULE = code(
    "DIR502",
    "no-cost-rule",
    """
The op declares no work: neither `flops` nor `communication` nor `view`. Without one of them its time is unknown.
Declare its work in its definition:

```python
@op("Tensor[t:float, s, d] -> Tensor[t, s, d]", flops=3)
def Cube(x):
    ...
```
""",
)

UNPLACED = code(
    "DIR503",
    "unplaced-value",
    """
The op's devices are unknown, because a parameter of the entry function has no device.

```dir
func @main(%x: Tensor[Float32, (64, 768)]) {  // error: DIR503
  %y = Relu(%x)
  return %y
}
```

State it in the parameter's type:

```dir
func @main(%x: Tensor[Float32, (64, 768), 1]) {
  %y = Relu(%x)
  return %y
}
```
""",
)

TOO_MANY_STREAMS = code(
    "DIR513",
    "too-many-streams",
    """
The hardware profile says how many streams a device runs beside `compute` (`streams` of its kind), and statements name
more. On a machine whose devices have one:

```dir
func @main(%x: Tensor[Float32, (64, 768), 1], %y: Tensor[Float32, (64, 768), 2]) {
  %a, %b = MPIAllreduce(%x, %y) on reduce
  %c = Send[device = 2](%x) on copy  // error: DIR513
  return %a, %b, %c
}
```

Let some share a stream, on which they run one after the other:

```dir
func @main(%x: Tensor[Float32, (64, 768), 1], %y: Tensor[Float32, (64, 768), 2]) {
  %a, %b = MPIAllreduce(%x, %y) on reduce
  %c = Send[device = 2](%x) on reduce
  return %a, %b, %c
}
```
""",
)

DEVICE_NOT_IN_HARDWARE = code(
    "DIR504",
    "device-not-in-hardware",
    """
The program uses a device that the hardware does not have. Devices are numbered from 1, or from 0 if the program uses
device 0. On a machine with 8 devices:

```dir
func @main(%x: Tensor[Float32, (64, 768), 1]) {
  %y = Send[device = 9](%x)  // error: DIR504
  return %y
}
```

Choose a larger machine with `--hardware`, or fewer devices. The help names a machine that is large enough:
`8x-dgx-a100` is 8 nodes of `dgx-a100`; every profile with a two-node version has such names.
""",
)

OUT_OF_MEMORY = code(
    "DIR505",
    "out-of-memory",
    """
At this op the live values on a device and the op's temporary memory exceed the device's memory. The notes name the
largest live values. On a device with 80 GB:

```dir
func @main(%x: Tensor[Float32, (131072, 131072), 1]) {
  %y = Relu(%x)  // error: DIR505
  return %y
}
```

Distribute the values over more devices, or recompute activations. The help names a machine whose devices have enough
memory, if there is one.
""",
    severity=Severity.ERROR,
)

OVER_LATENCY_BUDGET = code(
    "DIR506",
    "over-latency-budget",
    """
The simulated latency exceeds the budget given by `--max-latency`, or by `max_latency` under `[budget]` in
`distir.toml`. With a budget of `1ms`:

```dir
func @main(%x: Tensor[Float32, (8192, 8192), 1]) {  // error: DIR506
  %y = MatMul(%x, %x)
  return %y
}
```

`distir simulate` shows the critical path: the ops to make faster or to distribute.
""",
)

OVER_MEMORY_BUDGET = code(
    "DIR507",
    "over-memory-budget",
    """
A device's simulated peak memory exceeds the budget given by `--max-memory`, or by `max_memory` under `[budget]` in
`distir.toml`. With a budget of `1GB`:

```dir
func @main(%x: Tensor[Float16, (16384, 16384), 1]) {
  %y = Relu(%x)  // error: DIR507
  return %y
}
```

The diagnostic is at the first op that exceeds the budget; its notes name the largest live values.
""",
)

UNBOUND = code(
    "DIR508",
    "unbound-dimension",
    """
A named dimension of the entry function has no size.

```dir
func @main(%x: Tensor[Float32, (B, 768), 1]) {  // error: DIR508
  %y = Relu(%x)
  return %y
}
```

Set it with `--bind B=64`, or in `distir.toml`:

```toml
[bind]
B = 64
```
""",
)

MOSTLY_IDLE = code(
    "DIR509",
    "mostly-idle",
    """
A device is idle most of the time in the simulated function. This is only a warning: a check still succeeds.

```dir
func @main(%x: Tensor[Float32, (4096, 4096), 1], %y: Tensor[Float32, (16, 16), 2]) {
  %a = MatMul(%x, %x)
  %b = Relu(%y)
  return %a, %b
}
```

Here device 2 finishes long before device 1. `distir simulate` lists the longest waits and their causes; more
microbatches, another schedule or another split of the work balance the devices.
""",
    severity=Severity.WARNING,
)

TOO_MANY_OPS = code(
    "DIR510",
    "too-many-ops",
    """
With all calls inlined, a function has more ops than the limit. Nested calls multiply: here `@four` has 4 ops, and with
60 more functions like it, each calling the previous one twice, there would be 2 to the 62.

```dir
func @one(%x) {
  %y = Relu(%x)
  return %y
}

func @two(%x) {
  %y = @one(%x)
  %z = @one(%y)
  return %z
}

func @four(%x: Tensor[Float32, (2,), 1]) {
  %y = @two(%x)
  %z = @two(%y)
  return %z
}
```

A program of up to 9,223,372,036,854,775,807 ops (63 bits) checks, and its latency, memory and utilization are computed
quickly, since equal calls are simulated once. Commands that process each op have lower limits, which their messages
state: `inline` writes at most a million statements into a function, `run` runs a hundred million, a trace lists two
million.
""",
)

FASTER = code(
    "DIR515",
    "faster",
    """
Another form of this part of the program is faster, by simulation, on the devices that the program has. Editors show it
where the setting `distir.advice` is `problems`; `distir advise` lists all that was found, also what takes more devices.

```dir
func @main(%x: Tensor[Float32, (4096, 4096), 1], %y: Tensor[Float32, (4096, 4096), 1]) {
  %slow = MatMul(%x, %x)
  %sent: Tensor[Float32, (4096, 4096), 2] = Send[device = 2](%y)
  %far = MatMul(%sent, %sent)
  return %slow, %far
}
```

Here device 2 waits for a value that is sent only after a product that does not need it. The message says what to
change, and how much faster the program is then; the repair of the finding does it.
""",
    severity=Severity.WARNING,
)

LACKING_PRECISION = code(
    "DIR512",
    "lacking-precision",
    """
The machine has no arithmetic for an element type that the program computes in: operands are converted, and it computes
in another one, at that one's rate. This is only a warning: a check still succeeds.

```dir
func @main(
  %a: Tensor[Float8E4M3FN, (128, 128), 1], %b: Tensor[Float8E4M3FN, (128, 128), 1],
  %a_scale: Float32[1], %b_scale: Float32[1]
) {
  %c = ScaledMatMul[block_a = [], block_b = []](%a, %b, %a_scale, %b_scale)
  return %c
}
```

An NVIDIA A100, the default, computes this in Float16: 8-bit floats save memory and traffic there, and no time. Choose a
machine that has the type, as `dgx-h100`, or another precision. Profiles state what they lack with `instead`.
""",
    severity=Severity.WARNING,
)

REPRESENTED_LATENESS = code(
    "DIR514",
    "represented-lateness",
    """
Steps are to be drawn on devices that are late by chance (`distir simulate --spread`), and a device of the program
represents others (`dtp` with `representative=true`). Each of those may be late by itself, and the program says of none
but one when it is done: a collective of all of them would wait for the latest.

```dir
func @main(%x: Tensor[Float32, (64, 768), 1]) {
  %y = GroupAllreduce[size = 4](%x)
  return %y
}
```

Draw steps of the whole program, which has all devices:

```dir
func @main(%x: Tensor[Float32, (64, 768), 1], %y: Tensor[Float32, (64, 768), 2]) {
  %a, %b = MPIAllreduce(%x, %y)
  return %a, %b
}
```
""",
)

KERNEL_ALONE = code(
    "DIR511",
    "kernel-alone",
    """
A kernel is not simulated by itself: it takes its time, as one op does, where a function calls it.

```dir
func @gelu_add(%x: Tensor[Float32, (4, 8), 1], %y: Tensor[Float32, (4, 8), 1]) kernel {  // error: DIR511
  %a = Gelu(%x)
  %b = Add(%a, %y)
  return %b
}
```

Call it:

```dir
func @gelu_add(%x, %y) kernel {
  %a = Gelu(%x)
  %b = Add(%a, %y)
  return %b
}

func @main(%x: Tensor[Float32, (4, 8), 1], %y: Tensor[Float32, (4, 8), 1]) {
  %b = @gelu_add(%x, %y)
  return %b
}
```
""",
)

NO_HOST_MEMORY = code(
    "DIR516",
    "no-host-memory",
    """
A value is offloaded, and the hardware profile does not say what memory a device's host has, and how fast they copy.

```dir
func @main(%x: Tensor[Float32, (64, 768), 1]) {
  %h = Offload(%x)  // error: DIR516
  %y = Fetch(%h)
  return %y
}
```

State both in a profile, as in this one, or choose one that does:

```toml
extends = "dgx2-v100"

[kinds.v100.host_memory]
size = "96GB"
bandwidth = "6GB/s"
```
""",
)
