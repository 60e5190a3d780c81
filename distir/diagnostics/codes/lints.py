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

IDLE_STREAM = code(
    "DIR902",
    "idle-stream",
    """
A statement names a stream, and nothing runs there: views share the memory of their operands and take no time, and what
gives host values, such as `Shape`, runs on no device. `After`, which orders what follows on its stream, is the one view
that may name one.

```dir
func @f(%x: Tensor[Float32, (2, 4), 1]) {
  %y = Reshape(%x, [8]) on side  // warning: DIR902
  return %y
}
```

Name the stream where something is computed or sent:

```dir
func @f(%x: Tensor[Float32, (2, 4), 1]) {
  %y = Reshape(%x, [8])
  %z = Relu(%y) on side
  return %z
}
```
""",
    severity=Severity.WARNING,
)
