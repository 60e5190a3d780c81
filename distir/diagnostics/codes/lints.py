"""DIR9xx: valid code that is probably a mistake."""

from distir.diagnostics.core import Severity, code

UNUSED_VALUE = code(
    "DIR901",
    "unused-value",
    """
A value is computed and never used. It still costs time and memory.

```dir
func @f(%x: Tensor[Float32, (2,), 1]) {
  %y = Relu(%x)  // warning: DIR901
  return %x
}
```

Remove the statement, or write `_` for an unused result:

```dir
func @f(%x: Tensor[Float32, (4,), 1]) {
  %a, _ = Split[num_outputs = 2](%x)
  return %a
}
```
""",
    severity=Severity.WARNING,
)
