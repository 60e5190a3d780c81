"""DIR9xx: what is allowed, but is seldom meant."""

from distir.diagnostics.core import Severity, code

UNUSED_VALUE = code(
    "DIR901",
    "unused-value",
    """
A value is computed and never used. It costs time and memory all the same.

```dir
func @f(%x: Tensor[Float32, (2,), 1]) {
  %y = Relu(%x)  // warning: DIR901
  return %x
}
```

Remove the statement, or write `_` for a result that is not wanted:

```dir
func @f(%x: Tensor[Float32, (4,), 1]) {
  %a, _ = Split[num_outputs = 2](%x)
  return %a
}
```
""",
    severity=Severity.WARNING,
)

MOSTLY_IDLE = code(
    "DIR902",
    "mostly-idle",
    """
A device waits most of the time. Editors say so of the function that is simulated; it makes no program wrong.

```dir
func @main(%x: Tensor[Float32, (4096, 4096), 1], %y: Tensor[Float32, (16, 16), 2]) {
  %a = MatMul(%x, %x)
  %b = Relu(%y)
  return %a, %b
}
```

Here device 2 is done long before device 1. `distir simulate` lists the longest waits and what each waits for; more
microbatches, another schedule or another split of the work even them out.
""",
    severity=Severity.WARNING,
)
