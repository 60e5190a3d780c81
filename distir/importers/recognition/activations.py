"""Activations that are products with a function of the same operand: Gelu in both forms, and Swish.

The arithmetic around the function is read as a polynomial, so that no way of writing it is another case.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from distir.importers.onnx_nodes import shortest
from distir.importers.recognition.rewriting import MatchedFunction, rule
from distir.ir import Apply

Term = tuple[str, ...]
"""A product of values, in order; none of them for a plain number."""

Polynomial = Mapping[Term, float]

MOST_TERMS = 6
DEEPEST = 8
"""Beyond that, what is read is no activation."""


def _polynomial(
    program: MatchedFunction, name: object, between: set[str], depth: int = DEEPEST, atom_too: str = ""
) -> Polynomial:
    """A value as a polynomial of others; `between`: the values on the way, to which those are added that are read.

    `atom_too`: a value that is not read.
    """
    fixed = program.number(name)
    if fixed is not None:
        return {(): fixed}
    made = program.maker(name)
    atom: Polynomial = {(str(name),): 1.0}
    if made is None or depth == 0 or name == atom_too:
        return atom
    inner: set[str] = {str(name)}
    read: dict[object, Polynomial] = {}

    def operand(i: int) -> Polynomial:
        if made.args[i] not in read:
            read[made.args[i]] = _polynomial(program, made.args[i], inner, depth - 1, atom_too)
        return read[made.args[i]]

    found: Polynomial | None = None
    exponent = program.number(made.args[1]) if len(made.args) == 2 else None
    if made.op == "Neg":
        found = _times(operand(0), {(): -1.0})
    elif made.op in ("Add", "Sub"):
        found = _plus(operand(0), operand(1), 1.0 if made.op == "Add" else -1.0)
    elif made.op == "Mul":
        found = _times(operand(0), operand(1))
    elif made.op == "Div" and exponent:
        found = _times(operand(0), {(): 1 / exponent})
    elif made.op == "Pow" and exponent in (2, 3):
        base = operand(0)
        found = _times(base, base) if exponent == 2 else _times(base, _times(base, base))
    if found is None or len(found) > MOST_TERMS or any(len(term) > DEEPEST for term in found):
        return atom
    between |= inner
    return found


def _times(a: Polynomial, b: Polynomial) -> Polynomial:
    found: dict[Term, float] = {}
    for s, m in a.items():
        for t, n in b.items():
            term = tuple(sorted((*s, *t)))
            found[term] = found.get(term, 0.0) + m * n
    return found


def _plus(a: Polynomial, b: Polynomial, sign: float) -> Polynomial:
    found = dict(a)
    for term, n in b.items():
        found[term] = found.get(term, 0.0) + sign * n
    return found


def _like(found: Polynomial, expected: Polynomial) -> bool:
    return found.keys() == expected.keys() and all(math.isclose(n, expected[t], rel_tol=1e-5) for t, n in found.items())


def _cubic(x: str) -> Polynomial:
    """The argument of the hyperbolic tangent in its approximation of Gelu (Hendrycks and Gimpel)."""
    factor = math.sqrt(2 / math.pi)
    return {(x,): factor, (x, x, x): 0.044715 * factor}


@rule("Mul", "Div", "Add")
def gelu(program: MatchedFunction, root: Apply) -> str | None:
    """`x / 2 * (1 + erf(x / sqrt(2)))`, or with the approximation by `tanh`; `x` may be a sum itself, with a bias."""
    return next(filter(None, (_gelu_of(program, root, x) for x in ("", *_sums(program, root)))), None)


def _sums(program: MatchedFunction, root: Apply) -> list[str]:
    """Sums of two values that a product is made of, but for numbers."""
    found: list[str] = []
    pending = [(str(arg), 0) for arg in root.args] if root.op == "Mul" else []
    while pending:
        name, depth = pending.pop()
        made = program.maker(name)
        if made is None or made.op not in ("Add", "Mul") or depth > 2:
            continue
        if made.op == "Add" and not any(program.number(arg) is not None for arg in made.args):
            found.append(name)
        elif made.op == "Mul":
            pending += [(str(arg), depth + 1) for arg in made.args]
    return found


def _gelu_of(program: MatchedFunction, root: Apply, atom: str) -> str | None:
    between: set[str] = set()
    whole = _polynomial(program, root.results[0], between, atom_too=atom)
    if len(whole) != 2 or {len(term) for term in whole} != {1, 2}:
        return None
    (x,), pair = sorted(whole, key=len)
    if x not in pair or not _like(whole, {(x,): 0.5, pair: 0.5}):
        return None
    curve = next((name for name in pair if name != x), x)
    made = program.maker(curve)
    if made is None or made.op not in ("Erf", "Tanh"):
        return None
    argument = _polynomial(program, made.args[0], between, atom_too=atom)
    exact = made.op == "Erf"
    expected = {(x,): math.sqrt(0.5)} if exact else _cubic(x)
    if not _like(argument, expected) or not program.inner(root, {*between, curve}):
        return None
    return program.apply("Gelu", x, like=x, approximate="none" if exact else "tanh")


@rule("Mul", "Div")
def swish(program: MatchedFunction, root: Apply) -> str | None:
    """`x * sigmoid(alpha * x)`."""
    gate = program.maker(root.args[1])
    if root.op == "Div":
        return _over_one_and_exponential(program, root)
    for x, name in (root.args, root.args[::-1]):
        gate = program.maker(name)
        if gate is None or gate.op != "Sigmoid":
            continue
        between: set[str] = {str(name)}
        argument = _polynomial(program, gate.args[0], between)
        if [*argument] == [(x,)] and program.inner(root, between - {str(x)}):
            return program.apply("Swish", str(x), like=str(x), **_alpha(argument[(str(x),)]))
    return None


def _over_one_and_exponential(program: MatchedFunction, root: Apply) -> str | None:
    """`x / (1 + exp(-alpha * x))`."""
    x = str(root.args[0])
    between: set[str] = set()
    divisor = _polynomial(program, root.args[1], between)
    curve = next((term[0] for term in divisor if len(term) == 1), "")
    made = program.maker(curve)
    if made is None or made.op != "Exp" or not _like(divisor, {(): 1.0, (curve,): 1.0}):
        return None
    argument = _polynomial(program, made.args[0], between)
    if [*argument] != [(x,)] or argument[(x,)] >= 0 or not program.inner(root, ({*between, curve}) - {x}):
        return None
    return program.apply("Swish", x, like=x, **_alpha(-argument[(x,)]))


def _alpha(factor: float) -> dict[str, float]:
    return {} if factor == 1 else {"alpha": shortest(factor)}


@rule("Div")
def sigmoid(program: MatchedFunction, root: Apply) -> str | None:
    """`1 / (1 + exp(-x))`."""
    between: set[str] = set()
    divisor = _polynomial(program, root.args[1], between)
    curve = next((term[0] for term in divisor if len(term) == 1), "")
    made = program.maker(curve)
    if made is None or made.op != "Exp" or not _like(divisor, {(): 1.0, (curve,): 1.0}):
        return None
    negated = program.maker(made.args[0])
    if negated is None or negated.op != "Neg" or program.number(root.args[0]) != 1:
        return None
    if not program.inner(root, {*between, curve, str(made.args[0])}):
        return None
    return program.apply("Sigmoid", str(negated.args[0]), like=str(negated.args[0]))


@rule("Sub")
def log_softmax(program: MatchedFunction, root: Apply) -> str | None:
    """`x - max(x) - log(sum(exp(x - max(x))))` along one dimension."""
    shifted, logarithm = program.maker(root.args[0]), program.maker(root.args[1])
    total = program.maker(logarithm.args[0]) if logarithm is not None and logarithm.op == "Log" else None
    curve = program.maker(total.args[0]) if total is not None and total.op == "ReduceSum" else None
    if shifted is None or logarithm is None or total is None or curve is None or curve.op != "Exp":
        return None
    largest = program.maker(shifted.args[1]) if shifted.op == "Sub" and curve.args[0] == root.args[0] else None
    if largest is None or largest.op != "ReduceMax" or largest.args[0] != shifted.args[0]:
        return None
    axes = program.axes(total)
    if axes is None or len(axes) != 1 or axes != program.axes(largest):
        return None
    made = (*root.args, logarithm.args[0], total.args[0], shifted.args[1])
    if not program.inner(root, set(map(str, made))):
        return None
    return program.apply("LogSoftmax", str(shifted.args[0]), like=str(shifted.args[0]), axis=axes[0])


@rule("Div")
def softmax(program: MatchedFunction, root: Apply) -> str | None:
    """`exp(x - max(x)) / sum(exp(x - max(x)))` along one dimension."""
    exponential, total = program.maker(root.args[0]), program.maker(root.args[1])
    if exponential is None or total is None or exponential.op != "Exp" or total.op != "ReduceSum":
        return None
    shifted = program.maker(exponential.args[0])
    largest = program.maker(shifted.args[1]) if shifted is not None and shifted.op == "Sub" else None
    if shifted is None or largest is None or largest.op != "ReduceMax" or largest.args[0] != shifted.args[0]:
        return None
    axes = program.axes(total)
    if total.args[0] != root.args[0] or axes is None or len(axes) != 1 or axes != program.axes(largest):
        return None
    between = {str(arg) for arg in (*root.args, exponential.args[0], shifted.args[1])}
    if not program.inner(root, between):
        return None
    return program.apply("Softmax", str(shifted.args[0]), like=str(shifted.args[0]), axis=axes[0])


RULES = (gelu, swish, sigmoid, softmax, log_softmax)
