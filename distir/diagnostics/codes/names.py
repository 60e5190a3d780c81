"""DIR2xx: names, single assignment, arity, attributes."""

from distir.diagnostics.core import code

UNDEFINED_VALUE = code(
    "DIR201",
    "undefined-value",
    """
No parameter and no earlier statement defines this value. Program order is the schedule, so a definition must come
before its uses.

```dir
func @f(%x: Tensor[Float32, (2,), 1]) {
  %y = Relu(%z)  // error: DIR201
  return %y
}
```

Use the name that was defined:

```dir
func @f(%x: Tensor[Float32, (2,), 1]) {
  %y = Relu(%x)
  return %y
}
```
""",
)

REDEFINED_VALUE = code(
    "DIR202",
    "redefined-value",
    """
A value is defined twice. Programs are in SSA form: every name has one definition.

```dir
func @f(%x: Tensor[Float32, (2,), 1]) {
  %y = Relu(%x)
  %y = Exp(%y)  // error: DIR202
  return %y
}
```

Give the second value another name:

```dir
func @f(%x: Tensor[Float32, (2,), 1]) {
  %y = Relu(%x)
  %z = Exp(%y)
  return %z
}
```
""",
)

UNDEFINED_FUNCTION = code(
    "DIR203",
    "undefined-function",
    """
A call names a function that the module does not define. Functions may be in any order, but must be in the same file.

```dir
func @f(%x: Tensor[Float32, (2,), 1]) {
  %y = @dense(%x)  // error: DIR203
  return %y
}
```

Define the function:

```dir
func @dense(%x) {
  %y = Relu(%x)
  return %y
}

func @f(%x: Tensor[Float32, (2,), 1]) {
  %y = @dense(%x)
  return %y
}
```
""",
)

DUPLICATE_FUNCTION = code(
    "DIR204",
    "duplicate-function",
    """
Two functions have the same name. Every call refers to the first one.

```dir
func @f(%x: Tensor[Float32, (2,), 1]) {
  return %x
}

func @f(%x: Tensor[Float32, (2,), 1]) {  // error: DIR204
  return %x
}
```

Rename one of them:

```dir
func @f(%x: Tensor[Float32, (2,), 1]) {
  return %x
}

func @g(%x: Tensor[Float32, (2,), 1]) {
  return %x
}
```
""",
)

UNKNOWN_OP = code(
    "DIR205",
    "unknown-op",
    """
No op of this name is registered. `distir ops` lists all; a package can register its own under the entry-point group
`distir.plugins`.

```dir
func @f(%x: Tensor[Float32, (2,), 1]) {
  %y = Rleu(%x)  // error: DIR205
  return %y
}
```

Use the op's name:

```dir
func @f(%x: Tensor[Float32, (2,), 1]) {
  %y = Relu(%x)
  return %y
}
```
""",
)

OPERAND_COUNT = code(
    "DIR206",
    "operand-count",
    """
An op or a function has too few or too many operands.

```dir
func @f(%x: Tensor[Float32, (2, 2), 1]) {
  %y = MatMul(%x)  // error: DIR206
  return %y
}
```

Give each operand once:

```dir
func @f(%x: Tensor[Float32, (2, 2), 1]) {
  %y = MatMul(%x, %x)
  return %y
}
```
""",
)

RESULT_COUNT = code(
    "DIR207",
    "result-count",
    """
A statement names more or fewer results than the op or function has. Write `_` for an unused result.

```dir
func @f(%x: Tensor[Float32, (4,), 1]) {
  %a, %b, %c = Split[axis = 0, num_outputs = 2](%x)  // error: DIR207
  return %a, %b, %c
}
```

Name all of them, and no more:

```dir
func @f(%x: Tensor[Float32, (4,), 1]) {
  %a, _ = Split[axis = 0, num_outputs = 2](%x)
  return %a
}
```
""",
)

UNKNOWN_ATTRIBUTE = code(
    "DIR208",
    "unknown-attribute",
    """
The op has no attribute of this name. `distir ops NAME` lists its attributes.

```dir
func @f(%x: Tensor[Float32, (2, 3), 1]) {
  %y = Softmax[axes = 1](%x)  // error: DIR208
  return %y
}
```

Use the attribute's name:

```dir
func @f(%x: Tensor[Float32, (2, 3), 1]) {
  %y = Softmax[axis = 1](%x)
  return %y
}
```
""",
)

MISSING_ATTRIBUTE = code(
    "DIR209",
    "missing-attribute",
    """
An attribute without a default is missing.

```dir
func @f(%x: Tensor[Float32, (2,), 1]) {
  %y = Send(%x)  // error: DIR209
  return %y
}
```

Add it:

```dir
func @f(%x: Tensor[Float32, (2,), 1]) {
  %y = Send[device = 2](%x)
  return %y
}
```
""",
)

ATTRIBUTE_TYPE = code(
    "DIR210",
    "attribute-type",
    """
An attribute's value has the wrong type.

```dir
func @f(%x: Tensor[Float32, (2, 3), 1]) {
  %y = Softmax[axis = "last"](%x)  // error: DIR210
  return %y
}
```

Use a value of the expected type:

```dir
func @f(%x: Tensor[Float32, (2, 3), 1]) {
  %y = Softmax[axis = -1](%x)
  return %y
}
```
""",
)

RECURSION = code(
    "DIR211",
    "recursion",
    """
A function calls itself, directly or through others. Programs are straight-line code without loops or recursion.

```dir
func @f(%x: Tensor[Float32, (2,), 1]) {
  %y = @f(%x)  // error: DIR211
  return %y
}
```

Write out the repetition:

```dir
func @layer(%x) {
  %y = Relu(%x)
  return %y
}

func @f(%x: Tensor[Float32, (2,), 1]) {
  %y = @layer(%x)
  %z = @layer(%y)
  return %z
}
```
""",
)

RETURN_PLACE = code(
    "DIR212",
    "return-place",
    """
Every function ends in one `return`: it is missing, or statements follow it.

```dir
func @f(%x: Tensor[Float32, (2,), 1]) {  // error: DIR212
  _ = Relu(%x)
}
```

Return the results:

```dir
func @f(%x: Tensor[Float32, (2,), 1]) {
  %y = Relu(%x)
  return %y
}
```
""",
)

ROLE = code(
    "DIR213",
    "bad-role",
    """
A role of a parameter is unknown, or its value is invalid. The roles in braces after a parameter's type tell transforms
how to treat it: `{param}` (a weight), `{param, frozen}` (a weight that is not trained), `{buffer}` (a tensor of the
model that is not a weight), `{state}` (optimizer state), `{state, initial = 0.0}` (what it begins as: a number, or the
name of a weight), `{batch = 0}` (the batch dimension), `{remote}` (in the program of one rank: a value of another
rank).

```dir
func @f(%x: Tensor[Float32, (8, 2), 1] {batch = 2}) {  // error: DIR213
  return %x
}
```

Name a dimension that the type has:

```dir
func @f(%x: Tensor[Float32, (8, 2), 1] {batch = 0}) {
  return %x
}
```
""",
)

NO_FUNCTION = code(
    "DIR214",
    "no-function",
    """
The text has no function, so there is nothing to check, run or simulate.

```dir
// All that is left of a program.  // error: DIR214
```

Write a function:

```dir
func @f(%x: Tensor[Float32, (2,), 1]) {
  return %x
}
```
""",
)
