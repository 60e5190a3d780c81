"""DIR1xx: syntax errors."""

from distir.diagnostics.core import Severity, code

UNEXPECTED = code(
    "DIR101",
    "unexpected-token",
    """
The parser found an unexpected token.

```dir
func @f(%x: Float32[1]) {
  %y Relu(%x)  // error: DIR101
  return %y
}
```

A statement is `%result, … = Op[attribute = value](%operand, …)`, `%result, … = @function(%operand, …)` or `return
%value`, each on its own line. Only inside brackets may a statement continue on the next line.

```dir
func @f(%x: Float32[1]) {
  %y = Relu(%x)
  return %y
}
```
""",
)

BAD_CHARACTER = code(
    "DIR102",
    "bad-character",
    """
The character is not allowed outside strings and comments.

```dir
func @f(%x: Float32[1]) {
  %y = Relu(%x);  // error: DIR102
  return %y
}
```

Statements end with their line, so `;` is not needed. Names consist of the letters `a` to `z` and `A` to `Z`, digits,
`_`, `.` and `-`.
""",
)

UNCLOSED_BRACKET = code(
    "DIR103",
    "unclosed-bracket",
    """
A bracket is opened and never closed.

```dir
func @f(%x: Float32[1]) {
  %y = Relu(%x  // error: DIR103
  return %y
}
```

The diagnostic is at the opening bracket. All other statements are parsed normally.
""",
)

MISSING_BRACE = code(
    "DIR104",
    "missing-brace",
    """
A function's body does not end: the next function, or the end of the text, comes before its `}`.

```dir
func @f(%x: Float32[1]) {  // error: DIR104
  return %x

func @g(%x: Float32[1]) {
  return %x
}
```
""",
)

OUTSIDE_FUNCTION = code(
    "DIR105",
    "outside-function",
    """
There is text outside of functions. A program consists only of functions.

```dir
%y = Relu(%x)  // error: DIR105

func @f(%x: Float32[1]) {
  return %x
}
```
""",
)

ELIDED = code(
    "DIR106",
    "elided",
    """
The body is elided as `...`, as in papers, so it cannot be checked or run.

```dir
func @f(%x: Float32[1]) { ... }  // error: DIR106
```

Write the statements that belong there.
""",
)

STRAY_BRACE = code(
    "DIR107",
    "stray-brace",
    """
A `}` closes nothing; it is ignored.

```dir
func @f(%x: Float32[1]) {
  return %x
  }
}  // warning: DIR107
```
""",
    Severity.WARNING,
)

UNCLOSED_COMMENT = code(
    "DIR108",
    "unclosed-comment",
    """
A `/*` comment is not closed: `*/` is missing. The rest of the text is part of the comment.

```dir
func @f(%x: Float32[1]) {
  return %x
}
/* and so on  // error: DIR108
```
""",
)

BAD_STRING = code(
    "DIR109",
    "bad-string",
    r"""
A string is not closed on its line, or has an invalid `\` escape.

```dir
func @f(%x: Float32[1]) {
  %y = Gelu[approximate = "tanh](%x)  // error: DIR109
  return %y
}
```

Strings are written as in JSON: `\"` is a quotation mark, `\\` a backslash, `\n` a newline.
""",
)

BAD_DIMENSION = code(
    "DIR110",
    "bad-dimension",
    """
A dimension is an integer from 0, a name (`B`), such names with `+`, `-`, `*` and `/` an integer (`(B+1)/2`), or `?`.

```dir
func @f(%x: Tensor[Float32, (-1, 8), 1]) {  // error: DIR110
  return %x
}
```

Write `?` for a dimension that is not known:

```dir
func @f(%x: Tensor[Float32, (?, 8), 1]) {
  return %x
}
```
""",
)

LARGE_NUMBER = code(
    "DIR111",
    "large-number",
    """
A number does not fit in 64 bits.

```dir
func @f(%x: Tensor[Float32, (100000000000000000000,), 1]) {  // error: DIR111
  return %x
}
```
""",
)

BAD_DENSE = code(
    "DIR112",
    "bad-dense",
    """
The values of a `dense` tensor do not fit its element type or its shape: rows differ in length, an integer is outside
the element type's range, or a tensor of integers has a floating-point number.

```dir
func @f() {
  %y = Constant[value = dense<Int64, [[1, 2], [3]]>]()  // error: DIR112
  return %y
}
```

`dense<T, value>` takes its shape from the nesting; `dense<T, (2, 3), 0.5>` states it and repeats one value.

```dir
func @f() {
  %y = Constant[value = dense<Int64, [[1, 2], [3, 4]]>]()
  return %y
}
```
""",
)

BAD_REFERENCE = code(
    "DIR113",
    "bad-reference",
    """
The path of an `external` tensor is outside the program's folder: it is absolute, or has `..`, a drive or backslashes.

```dir
func @f() {
  %y = Constant[value = external<Float32, (8, 8), "../model.safetensors#w">]()  // error: DIR113
  return %y
}
```

Put the file beside the program. An untrusted program must not be able to read any other file.
""",
)

UNKNOWN_TYPE = code(
    "DIR114",
    "unknown-type",
    """
A word is used as a type or element type, but does not name one.

```dir
func @f(%x: Tensor[float32, (2,), 1]) {  // error: DIR114
  return %x
}
```

Element types have their ONNX names: `Float32`, `Int64`, `Bool`.
""",
)

UNKNOWN_WORD = code(
    "DIR115",
    "unknown-word",
    """
A word is used as a constant, but is not one. Often a `%` or quotation marks are missing.

```dir
func @f(%x: Float32[1]) {
  %y = Relu(x)  // error: DIR115
  return %y
}
```
""",
)

DUPLICATE_ATTRIBUTE = code(
    "DIR116",
    "duplicate-attribute",
    """
An attribute, or a role of a parameter, is given twice.

```dir
func @f(%x: Tensor[Float32, (4,), 1]) {
  %y = Softmax[axis = 0, axis = 0](%x)  // error: DIR116
  return %y
}
```
""",
)

TOO_DEEP = code(
    "DIR118",
    "too-deep",
    """
Brackets are nested more than 100 deep. No program needs this; the text is probably damaged.
""",
)

NOT_TEXT = code(
    "DIR119",
    "not-text",
    """
The file is not UTF-8 text: it has an invalid byte, or NUL bytes, as binary files do.

Save it as UTF-8. Other commands read safetensors and ONNX files.
""",
)

BAD_FACT = code(
    "DIR120",
    "bad-fact",
    """
What is in braces behind a statement, or behind a function's head, are facts: the phase of a training step
(`forward`, `backward`, `weight`, `optimizer`); `stage`, `microbatch` and `layer`, each with a number counted from 1;
`of` with the name of a parameter. Each is stated once at most.

```dir
func @f(%x: Tensor[Float32, (4,), 1]) {
  %y = Relu(%x) {forward, stage = 0}  // error: DIR120
  return %y
}
```

Facts change nothing of what a program means or costs:

```dir
func @f(%x: Tensor[Float32, (4,), 1]) {
  %y = Relu(%x) {forward, stage = 1}
  return %y
}
```
""",
)

BAD_COUNTED_CALL = code(
    "DIR121",
    "bad-counted-call",
    """
A counted statement, `@f(…) 4 times` or `repeat 4 times { … }`, is done several times, one time after the other. What
does not say what is given each time is refused: a list that has more or fewer items; an operand `%x then %y` where `%y`
is no result of the statement; an item that is made later; facts that do not count on evenly.

```dir
func @layer(%x: Tensor[Float32, (4, 4), 1], %w: Tensor[Float32, (4, 4), 1]) {
  %y = MatMul(%x, %w)
  return %y
}

func @main(%x: Tensor[Float32, (4, 4), 1], %w_{1..3}: Tensor[Float32, (4, 4), 1]) {
  %y = @layer(%x then %y, [%w_{1..3}]) 4 times  // error: DIR121
  return %y
}
```

A list has an item for each call:

```dir
func @layer(%x: Tensor[Float32, (4, 4), 1], %w: Tensor[Float32, (4, 4), 1]) {
  %y = MatMul(%x, %w)
  return %y
}

func @main(%x: Tensor[Float32, (4, 4), 1], %w_{1..3}: Tensor[Float32, (4, 4), 1]) {
  %y = @layer(%x then %y, [%w_{1..3}]) 3 times
  return %y
}
```

The same code tells of ranges of names, `%w_{1..4}`, that mean more names than a text may write out, or are where
one name is needed.
""",
)
