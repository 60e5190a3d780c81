"""DIR7xx: what stands in the way of taking a program apart into ranks, and of writing them as torch programs."""

from distir.diagnostics.core import code

UNPLACED = code(
    "DIR701",
    "unplaced-statement",
    """
The statement runs on devices, but on which is not known, so it belongs to no rank's program.

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
The programs of the ranks do not communicate in the same order: started together, they would wait for each other for
ever, or a message would arrive in the place of another. Projections of one program always agree, so the program of a
rank was changed by hand. The message names what each rank is about to do when nothing can go on.
""",
)

NO_TORCH_FORM = code(
    "DIR703",
    "no-torch-form",
    """
The op has no form in torch, so the program cannot be lowered. The diagnostic names every such op of the program.
Write it in terms of other ops, or give it a form beside its definition:

```python
Cube.torch("{x} * {x} * {x}", fresh=True)
```
""",
)

UNKNOWN_VALUE = code(
    "DIR704",
    "unknown-when-lowered",
    """
The torch program is written for fixed sizes, and this statement needs a number (a shape, an axis, an amount) that is
not known when it is written. Give sizes to named dimensions and values to host parameters with `--bind`; let shapes
follow from constants and from the shapes of other values.
""",
)

UNSUPPORTED = code(
    "DIR705",
    "no-torch-counterpart",
    """
torch cannot do what this statement asks for: it lacks the element type, or the op takes an attribute that torch's own
does not know. The message says which. Choose another element type, or write the statement in terms of other ops.
""",
)
