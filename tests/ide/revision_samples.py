"""Programs, and edits of their texts: random ones, described by a few numbers so that they shrink."""

import re

CALLS = """func @layer(%w, %x) {
  %h = MatMul(%x, %w)
  %r = Relu(%h)
  %s = Add(%r, %x)
  return %s, %h
}

func @two(%w, %x) {
  %a, _ = @layer(%w, %x)
  %b, %c = @layer(%w, %a)
  %d = Relu(%c)
  return %b
}

func @main(%w: Tensor[Float32, (8, 8), 1], %x: Tensor[Float32, (8, 8), 1], %v: Tensor[Float32, (8, 8), 2]) {
  %y = @two(%w, %x)
  %y2: Tensor[Float32, (8, 8), 2] = Send[device = 2](%y)
  %z, _ = @layer(%v, %y2)
  %q = Reshape(%z, [4, 16])
  %q2 = Relu(%q)
  %p = Mul(%z, 2.0)
  %p2 = Add(%p, 1.0)
  %k, %l = Split[axis = 0, num_outputs = 2](%p2)
  %m = Concat[axis = 0]([%k, %l])
  return %m, %q2
}
"""

SHAPES = """func @a(%x, %y) {
  %h = Relu(%x)
  %z = Add(%h, %y)
  return %z
}

func @b(%x: Tensor[Float32, (4, 4), 1]) {
  %p = @a(%x, %x)
  %q = @a(%p, %x)
  %s = Shape(%q)
  return %q, %s
}

func @main(%x: Tensor[Float32, (4, 4), 1], %y: Tensor[Float32, (4, 4), 2]) {
  %u, %v = @b(%x)
  %w = @a(%y, %y)
  %t = Reshape(%u, %v)
  return %t, %w
}
"""

TRAINED = """func @main(%w: Tensor[Float32, (64,), 1] {param}, %g: Tensor[Float32, (64,), 1], %m: Tensor[Float32, (64,), 1] {state}) {
  %g2 = Mul(%g, 0.5)
  %m1 = Add(%m, %g2)
  %s = Mul(%m1, 0.1)
  %w1 = Sub(%w, %s)
  %far = Send[device = 2](%w1)
  %near = Relu(%far)
  return %w1, %m1, %near
}
"""  # noqa: E501 - one head, one line


def flat(statements, devices):
    """One function of many statements, over several devices."""
    parameters = ", ".join(
        f"%w{d}: Tensor[Float32, (8, 8), {d}], %x{d}: Tensor[Float32, (4, 8), {d}]" for d in range(devices)
    )
    lines = [f"func @main({parameters}) {{"]
    now = [f"%x{d}" for d in range(devices)]
    before = list(now)
    for i in range(statements):
        d = i % devices
        x, y = now[d], f"%a{i}"
        lines += {
            0: [f"  {y} = MatMul({x}, %w{d})"],
            1: [f"  {y} = Relu({x})"],
            2: [f"  {y} = Add({x}, {before[d]})"],
            3: [f"  {y} = Mul({x}, 1.{i % 8})"],
            4: [f"  {y}s = Send[device = {(d + 1) % devices}]({x})", f"  {y} = Send[device = {d}]({y}s)"],
        }[i // devices % 5]
        before[d], now[d] = x, y
    return "\n".join([*lines, f"  return {', '.join(now)}", "}", ""])


PROGRAMS = [CALLS, SHAPES, TRAINED, flat(30, 2), flat(300, 3)]

NAME = re.compile(r"[%@][A-Za-z_]\w*")
OP = re.compile(r"\b(?:Relu|Add|Mul|MatMul|Sub)\b|@\w+(?=\()")
DIGIT = re.compile(r"\d")
PIECES = ["%a", "(", ")", "{", "}", "1", "%x", "//", "/*", "\n", "= ", "func @q(%x) {\n  return %x\n}\n", " ", "…"]


def edited(text, kind, a, b):
    """The text after one edit: `kind` says which, `a` and `b` where and what."""
    lines = text.split("\n")
    i, j = a % len(lines), b % len(lines)
    match kind:
        case "delete":
            del lines[i]
        case "copy":
            lines.insert(i, lines[j])
        case "replace":
            lines[i] = lines[j]
        case "swap":
            lines[i], lines[j] = lines[j], lines[i]
        case "insert":
            at = a % (len(text) + 1)
            return text[:at] + PIECES[b % len(PIECES)] + text[at:]
        case "cut":
            at = a % (len(text) + 1)
            return text[:at] + text[at + b % 6 :]
        case "rename":
            return _changed(text, NAME, a, lambda: NAME.findall(text)[b % len(NAME.findall(text))])
        case "retype":
            return _changed(text, DIGIT, a, lambda: str(b % 10))
        case "rename all":
            found = NAME.findall(text)
            if found:
                return re.sub(rf"{found[a % len(found)]}\b", found[b % len(found)] + "_2", text)
        case "every op":
            found = OP.findall(text)
            if found:
                return re.sub(rf"{found[a % len(found)]}\b", ["Relu", "Add", "Exp"][b % 3], text)
        case "some":
            lines[a % 3 :: 3] = (re.sub(r"[01]\.", f"{b % 7 + 2}.", line) for line in lines[a % 3 :: 3])
        case "op":
            ops = ["Relu", "Add", "Mul", "MatMul", "Softmax", "Send[device = 2]", "@a", "@b", "@layer", "@main"]
            return _changed(text, OP, a, lambda: ops[b % len(ops)])
    return "\n".join(lines)


SINGLE = ["delete", "copy", "replace", "swap", "insert", "cut", "rename", "retype", "op"]
MANY = ["rename all", "every op", "some"]
"""What changes a text in many places at once."""

KINDS = SINGLE + MANY


def _changed(text, pattern, number, new):
    found = list(pattern.finditer(text))
    if not found:
        return text
    match = found[number % len(found)]
    return text[: match.start()] + new() + text[match.end() :]
