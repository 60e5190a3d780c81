"""DIR4xx: devices and collectives."""

from distir.diagnostics.core import code

DEVICE_MISMATCH = code(
    "DIR401",
    "device-mismatch",
    """
A compute op needs all of its operands on one device. Moving a value is an op, because it takes time.

```dir
func @f(%a: Tensor[Float32, (2,), 1], %b: Tensor[Float32, (2,), 2]) {
  %c = Add(%a, %b)  // error: DIR401
  return %c
}
```

Send one of them:

```dir
func @f(%a: Tensor[Float32, (2,), 1], %b: Tensor[Float32, (2,), 2]) {
  %b_1 = Send[device = 1](%b)
  %c = Add(%a, %b_1)
  return %c
}
```
""",
)

REPEATED_DEVICE = code(
    "DIR402",
    "repeated-device",
    """
A collective has one operand per device; here two operands are on the same device.

```dir
func @f(%a: Tensor[Float32, (2,), 1], %b: Tensor[Float32, (2,), 1]) {
  %c, %d = MPIAllreduce(%a, %b)  // error: DIR402
  return %c, %d
}
```

Combine values on one device without a collective, or place the operands on different devices:

```dir
func @f(%a: Tensor[Float32, (2,), 1], %b: Tensor[Float32, (2,), 2]) {
  %c, %d = MPIAllreduce(%a, %b)
  return %c, %d
}
```
""",
)

ROOT_DEVICE = code(
    "DIR403",
    "root-not-among-devices",
    """
The root of a collective is not one of its devices.

```dir
func @f(%a: Tensor[Float32, (2,), 1], %b: Tensor[Float32, (2,), 2]) {
  %c = MPIReduce[root = 3](%a, %b)  // error: DIR403
  return %c
}
```

Name one of the participating devices:

```dir
func @f(%a: Tensor[Float32, (2,), 1], %b: Tensor[Float32, (2,), 2]) {
  %c = MPIReduce[root = 2](%a, %b)
  return %c
}
```
""",
)

BAD_DEVICE = code(
    "DIR404",
    "bad-device",
    """
A device is not a non-negative number, or a value is sent to its own device.

```dir
func @f(%a: Tensor[Float32, (2,), 1]) {
  %b = Send[device = 1](%a)  // error: DIR404
  return %b
}
```

Name another device, or use the value without a `Send`:

```dir
func @f(%a: Tensor[Float32, (2,), 1]) {
  %b = Send[device = 2](%a)
  return %b
}
```
""",
)

IN_KERNEL = code(
    "DIR405",
    "not-in-a-kernel",
    """
A function that is marked as a `kernel` is one launch on one device: it holds ops that the device does alone, and
neither communication nor calls.

```dir
func @f(%a: Tensor[Float32, (2,), 1]) kernel {
  %b = Relu(%a)
  %c = Send[device = 2](%b)  // error: DIR405
  return %c
}
```

Let the kernel end before it:

```dir
func @f(%a) kernel {
  %b = Relu(%a)
  return %b
}

func @main(%a: Tensor[Float32, (2,), 1]) {
  %b = @f(%a)
  %c = Send[device = 2](%b)
  return %c
}
```
""",
)

BAD_STREAM = code(
    "DIR406",
    "not-on-a-stream",
    """
A stream runs ops, one after the other. A call means what its function's body means, of whose ops each has a stream of
its own; only the call of a `kernel` is one op, and what is in the kernel runs where that runs.

```dir
func @layer(%x) {
  %y = Relu(%x)
  return %y
}

func @main(%x: Tensor[Float32, (2,), 1]) {
  %y = @layer(%x) on side  // error: DIR406
  return %y
}
```

Name the stream at the ops, or make the function a kernel:

```dir
func @layer(%x) kernel {
  %y = Relu(%x)
  return %y
}

func @main(%x: Tensor[Float32, (2,), 1]) {
  %y = @layer(%x) on side
  return %y
}
```
""",
)

ENDS_DISAGREE = code(
    "DIR407",
    "ends-disagree",
    """
`@main.scatter` returns the arguments of `@main`, and `@main` returns those of `@main.gather`: one for each parameter,
of its type and on its device. Nothing calls these functions, so they are compared with each other.

```dir
func @main(%x_1: Tensor[Float32, (4,), 1], %x_2: Tensor[Float32, (4,), 2]) {
  %y_1 = Relu(%x_1)
  %y_2 = Relu(%x_2)
  return %y_1, %y_2
}

func @main.scatter(%x: Tensor[Float32, (8,), 1]) {
  %x_1, %x_2 = MPIScatter[devices = [1, 3], axis = 0](%x)
  return %x_1, %x_2  // error: DIR407
}
```

Write `devices = [1, 2]`, where `@main` has `%x_2`.
""",
)

OFFLOADED_OPERAND = code(
    "DIR408",
    "offloaded-operand",
    """
An offloaded value is in the memory of its device's host. Devices compute with what is in their own memory, and copying
it there is an op, because it takes time.

```dir
func @f(%x: Tensor[Float32, (2,), 1]) {
  %h = Offload(%x)
  %y = Relu(%h)  // error: DIR408
  return %y
}
```

Bring it back first:

```dir
func @f(%x: Tensor[Float32, (2,), 1]) {
  %h = Offload(%x)
  %x_1 = Fetch(%h)
  %y = Relu(%x_1)
  return %y
}
```
""",
)
