"""DIR7xx: why a program cannot be projected to ranks or lowered to torch."""

from distir.diagnostics.core import code

UNPLACED = code(
    "DIR701",
    "unplaced-statement",
    """
The statement's devices are unknown, so it belongs to no rank's program.

```python
distir.parse("func @main(%x: Tensor[Float32, (64, 768)]) { %y = Relu(%x) return %y }")
```

State the device in the types of the entry function's parameters: `%x: Tensor[Float32, (64, 768), 1]`.
""",
)

ORDER = code(
    "DIR702",
    "communication-order",
    """
The programs of the ranks communicate in different orders: they would deadlock, or receive messages in the wrong order.
Projections of one program are always consistent, so a rank's program was edited by hand. The message names the next op
of each rank at the deadlock.
""",
)

NO_TORCH_FORM = code(
    "DIR703",
    "no-torch-form",
    """
The op has no torch form, so the program cannot be lowered. The diagnostic names every such op of the program. Express
it with other ops, or declare a torch form with its definition:

```python
Cube.torch("{x} * {x} * {x}", fresh=True)
```
""",
)

UNKNOWN_VALUE = code(
    "DIR704",
    "unknown-when-lowered",
    """
Torch programs have fixed sizes, and this statement needs a number (a shape, an axis, a count) that is unknown at
lowering. Set named dimensions and host parameters with `--bind`; compute shapes from constants and from the shapes of
other values.
""",
)

UNSUPPORTED = code(
    "DIR705",
    "no-torch-counterpart",
    """
torch does not support this statement: it lacks the element type, or the torch function lacks an attribute of the op.
The message says which. Choose another element type, or express the statement with other ops.
""",
)
