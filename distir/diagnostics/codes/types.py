"""DIR3xx: element types, shapes and annotations."""

from distir.diagnostics.core import code

SHAPE_MISMATCH = code(
    "DIR301",
    "shape-mismatch",
    """
Two dimensions that must agree are different. In an op's signature, dimensions with the same letter must agree.

```dir
func @f(%a: Tensor[Float32, (2, 65), 1], %b: Tensor[Float32, (64, 3), 1]) {
  %c = MatMul(%a, %b)  // error: DIR301
  return %c
}
```

Make them agree:

```dir
func @f(%a: Tensor[Float32, (2, 64), 1], %b: Tensor[Float32, (64, 3), 1]) {
  %c = MatMul(%a, %b)
  return %c
}
```
""",
)

DTYPE_MISMATCH = code(
    "DIR302",
    "dtype-mismatch",
    """
An element type is not the expected one. There are no implicit conversions; use `Cast`.

```dir
func @f(%a: Tensor[Float32, (2,), 1], %b: Tensor[Float16, (2,), 1]) {
  %c = Add(%a, %b)  // error: DIR302
  return %c
}
```

Convert one of them:

```dir
func @f(%a: Tensor[Float32, (2,), 1], %b: Tensor[Float16, (2,), 1]) {
  %b_32 = Cast[to = Float32](%b)
  %c = Add(%a, %b_32)
  return %c
}
```
""",
)

CLAIM_REFUTED = code(
    "DIR303",
    "refuted-annotation",
    """
An annotation contradicts the inferred type. Annotations are optional, but always checked.

```dir
func @f(%a: Tensor[Float32, (2, 3), 1]) {
  %b: Tensor[Float32, (2, 3), 1] = Transpose(%a)  // error: DIR303
  return %b
}
```

Correct the annotation, or remove it:

```dir
func @f(%a: Tensor[Float32, (2, 3), 1]) {
  %b: Tensor[Float32, (3, 2), 1] = Transpose(%a)
  return %b
}
```
""",
)

RANK_MISMATCH = code(
    "DIR304",
    "rank-mismatch",
    """
A tensor has more or fewer dimensions than the op takes.

```dir
func @f(%a: Tensor[Float32, (2, 3, 4), 1], %b: Tensor[Float32, (4, 5), 1]) {
  %c = Gemm(%a, %b)  // error: DIR304
  return %c
}
```

Use a tensor of the rank in the signature:

```dir
func @f(%a: Tensor[Float32, (6, 4), 1], %b: Tensor[Float32, (4, 5), 1]) {
  %c = Gemm(%a, %b)
  return %c
}
```
""",
)

KIND_MISMATCH = code(
    "DIR305",
    "kind-mismatch",
    """
A tuple is used as a tensor, or a tensor as a tuple.

```dir
func @f(%w: Tuple[Float32[1], Float32[1]], %x: Tensor[Float32, (2,), 1]) {
  %y = Add(%w, %x)  // error: DIR305
  return %y
}
```

Unpack the tuple:

```dir
func @f(%w: Tuple[Float32[1], Float32[1]], %x: Tensor[Float32, (2,), 1]) {
  %a, %b = UnpackTuple(%w)
  %y = Add(%a, %x)
  %z = Add(%b, %y)
  return %z
}
```
""",
)

BAD_VALUE = code(
    "DIR306",
    "bad-value",
    """
An attribute or a host value is invalid for the operands' types: an axis out of range, an invalid permutation, a shape
with another number of elements.

```dir
func @f(%x: Tensor[Float32, (2, 3), 1]) {
  %y = Softmax[axis = 2](%x)  // error: DIR306
  return %y
}
```

Use an axis in range; negative axes count from the end:

```dir
func @f(%x: Tensor[Float32, (2, 3), 1]) {
  %y = Softmax[axis = -1](%x)
  return %y
}
```
""",
)

INDIVISIBLE = code(
    "DIR307",
    "indivisible",
    """
A dimension cannot be split into this number of equal parts.

```dir
func @f(%x: Tensor[Float32, (5,), 1]) {
  %a, %b = MPIScatter[devices = [1, 2]](%x)  // error: DIR307
  return %a, %b
}
```

Choose a number of parts that divides the dimension:

```dir
func @f(%x: Tensor[Float32, (6,), 1]) {
  %a, %b = MPIScatter[devices = [1, 2]](%x)
  return %a, %b
}
```
""",
)

NOT_HOST = code(
    "DIR308",
    "not-a-host-value",
    """
The op needs a value that is known before the program runs (a shape, an axis), but this one is on a device. Host values
come from literals, `Constant`, `Shape`, and ops on only such values.

```dir
func @f(%x: Tensor[Float32, (2, 3), 1], %s: Tensor[Int64, (2,), 1]) {
  %y = Reshape(%x, %s)  // error: DIR308
  return %y
}
```

Use a host value:

```dir
func @f(%x: Tensor[Float32, (2, 3), 1]) {
  %y = Reshape(%x, [3, 2])
  return %y
}
```
""",
)

BAD_DIMENSION = code(
    "DIR309",
    "bad-dimension",
    """
A dimension is negative, or so large that sizes in bytes no longer fit in 64 bits.

```dir
func @f(%x: Tensor[Float32, (4294967296, 4294967296), 1]) {  // error: DIR309
  return %x
}
```

Use smaller sizes:

```dir
func @f(%x: Tensor[Float32, (65536, 65536), 1]) {
  return %x
}
```
""",
)

BAD_CALL = code(
    "DIR310",
    "bad-call",
    """
The function's body has an error for the arguments of this call, though it may be correct for others. The diagnostic is
at the argument that causes the error; the note shows the statement in the function's body.

```dir
func @dense(%x, %w) {
  %y = MatMul(%x, %w)
  return %y
}

func @f(%x: Tensor[Float32, (2, 3), 1], %w: Tensor[Float32, (4, 5), 1]) {
  %y = @dense(%x, %w)  // error: DIR310
  return %y
}
```

Pass arguments that fit the body:

```dir
func @dense(%x, %w) {
  %y = MatMul(%x, %w)
  return %y
}

func @f(%x: Tensor[Float32, (2, 3), 1], %w: Tensor[Float32, (3, 5), 1]) {
  %y = @dense(%x, %w)
  return %y
}
```
""",
)

BAD_ARGUMENT = code(
    "DIR311",
    "bad-argument",
    """
An argument of a call contradicts the type that the function states for its parameter.

```dir
func @dense(%x: Tensor[Float32, (B, 4), 1]) {
  %y = Relu(%x)
  return %y
}

func @f(%x: Tensor[Float32, (2, 3), 1]) {
  %y = @dense(%x)  // error: DIR311
  return %y
}
```

Pass an argument of the annotated type:

```dir
func @dense(%x: Tensor[Float32, (B, 4), 1]) {
  %y = Relu(%x)
  return %y
}

func @f(%x: Tensor[Float32, (2, 4), 1]) {
  %y = @dense(%x)
  return %y
}
```
""",
)
