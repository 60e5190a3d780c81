"""DIR42x: meshes, and where the parts of values are."""

from distir.diagnostics.core import code

BAD_MESH = code(
    "DIR420",
    "bad-mesh",
    """
A module runs on one mesh: named axes with a size each, stated behind the head of a function. Each axis has a name of
its own, and one device or more.

```dir
func @main(%x: Tensor[Float32, (8, 4), 1]) mesh (dp = 2, dp = 4) {  // error: DIR420
  %y = Relu(%x)
  return %y
}
```

Functions that state the mesh state the same one; one of them is enough:

```dir
func @layer(%x) {
  %y = Relu(%x)
  return %y
}

func @main(%x: Tensor[Float32, (8@dp, 4), 1]) mesh (dp = 2, tp = 4) {
  %y = @layer(%x)
  return %y
}
```
""",
)

UNKNOWN_AXIS = code(
    "DIR421",
    "unknown-axis",
    """
A type or a collective names an axis that the mesh does not have, or there is no mesh.

```dir
func @main(%x: Tensor[Float32, (8@tp, 4), 1]) mesh (dp = 2) {  // error: DIR421
  %y = Relu(%x)
  return %y
}
```

State the axis in the mesh, or name one that is there:

```dir
func @main(%x: Tensor[Float32, (8@tp, 4), 1]) mesh (dp = 2, tp = 4) {
  %y = Relu(%x)
  return %y
}
```
""",
)

BAD_PLACEMENT = code(
    "DIR422",
    "bad-placement",
    """
A value cannot be placed so: a dimension does not divide by the devices along its axes, blocks do not make up the
dimension, an axis places a value twice, or a value is a pending sum and a pending maximum at once.

```dir
func @main(%x: Tensor[Float32, (6@dp, 4), 1]) mesh (dp = 4) {  // error: DIR422
  %y = Relu(%x)
  return %y
}
```

Take a number of devices that divides the dimension:

```dir
func @main(%x: Tensor[Float32, (6@dp, 4), 1]) mesh (dp = 2) {
  %y = Relu(%x)
  return %y
}
```
""",
)

NOT_PARTS = code(
    "DIR423",
    "not-parts-of-its-result",
    """
Each device computes with what it holds of the operands. Here that gives no parts of the result: as of an op that is not
linear and is given a pending sum, of a sum of a pending value and one that is the same on every device, or where one
operand is split and another is not.

```dir
func @main(%x: Tensor[Float32, (8, 4@tp), 1], %w: Tensor[Float32, (4@tp, 4), 1]) mesh (tp = 2) {
  %p = MatMul(%x, %w)
  %y = Relu(%p)  // error: DIR423
  return %y
}
```

Insert the collective that brings the operand to where the op needs it:

```dir
func @main(%x: Tensor[Float32, (8, 4@tp), 1], %w: Tensor[Float32, (4@tp, 4), 1]) mesh (tp = 2) {
  %p = MatMul(%x, %w)
  %s = AllReduce[axis = "tp"](%p)
  %y = Relu(%s)
  return %y
}
```
""",
)

BAD_COLLECTIVE = code(
    "DIR424",
    "collective-of-another-placement",
    """
A collective takes a value that is placed in one way along its axis: `AllReduce` and `ReduceScatter` a pending sum,
`AllGather` a value that is split, `Shard` and `Share` one that is the same on every device. A value that is summed
already would be summed a second time.

```dir
func @main(%x: Tensor[Float32, (8, 4@tp), 1], %w: Tensor[Float32, (4@tp, 4), 1]) mesh (tp = 2) {
  %p = MatMul(%x, %w)
  %s = AllReduce[axis = "tp"](%p)
  %y = AllReduce[axis = "tp"](%s)  // error: DIR424
  return %y
}
```

Remove it, or name the axis along which the value is placed so. Of several axes that split one dimension, `AllGather`
takes the innermost: the last in `64@(tp, dp)`.

```dir
func @main(%x: Tensor[Float32, (8, 4@tp), 1], %w: Tensor[Float32, (4@tp, 4), 1]) mesh (tp = 2) {
  %p = MatMul(%x, %w)
  %y = AllReduce[axis = "tp"](%p)
  return %y
}
```
""",
)

DRIFTING = code(
    "DIR425",
    "copies-that-differ",
    """
What a training step returns for a weight or for state is the operand of the next step, and so is placed as that one is.
One that is a pending sum, or split otherwise, is another value on each device.

```dir
func @main(%w: Tensor[Float32, (4,), 1] {param}, %gs: Tensor[Float32, (8@dp, 4), 1]) mesh (dp = 2) {
  %g = ReduceSum[keepdims = false](%gs, [0])
  %own = Share[axis = "dp"](%w)
  %w_new = Sub(%own, %g)
  return %w_new  // error: DIR425
}
```

Bring the gradient to where the weight is before the update:

```dir
func @main(%w: Tensor[Float32, (4,), 1] {param}, %gs: Tensor[Float32, (8@dp, 4), 1]) mesh (dp = 2) {
  %g = ReduceSum[keepdims = false](%gs, [0])
  %g_sum = AllReduce[axis = "dp"](%g)
  %w_new = Sub(%w, %g_sum)
  return %w_new
}
```
""",
)

PENDING_END = code(
    "DIR426",
    "pending-at-the-ends",
    """
The parameters and results of a program are values. A pending sum, or maximum, is none yet: each device would return
another number.

```dir
func @main(%x: Tensor[Float32, (8@dp,), 1]) mesh (dp = 2) {
  %loss = ReduceSum(%x, [0])
  return %loss  // error: DIR426
}
```

Insert the collective that ends it:

```dir
func @main(%x: Tensor[Float32, (8@dp,), 1]) mesh (dp = 2) {
  %own = ReduceSum(%x, [0])
  %loss = AllReduce[axis = "dp"](%own)
  return %loss
}
```
""",
)

UNKNOWN_PLACE = code(
    "DIR427",
    "unknown-place",
    """
A program on a mesh says where the parts of each value are. Where a size is `?`, an op may be given parts of rows that
it needs whole, and the check cannot tell.

```dir
func @main(%x: Tensor[Float32, (?@dp, 8), 1]) mesh (dp = 2) {
  %y = Softmax[axis = 0](%x)  // error: DIR427
  return %y
}
```

Give the size a name, or gather the value:

```dir
func @main(%x: Tensor[Float32, (N@dp, 8), 1]) mesh (dp = 2) {
  %x_all = AllGather[axis = "dp", dim = 0](%x)
  %y = Softmax[axis = 0](%x_all)
  return %y
}
```
""",
)
