"""Conditions on events, as breakpoints have them: `wait > 1ms and device == 3`. Knows no program.

The notation is that of Python's comparisons, with `and`, `or`, `not`, arithmetic, and times and sizes with units.
Times compare with times and sizes with sizes, so a forgotten unit is an error and no surprise.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from distir.cost import show_bytes, show_seconds
from distir.cost.units import DURATION, MEMORY
from distir.diagnostics.spelling import nearest
from distir.ir.errors import DistirError

ValueKind = Literal["time", "size", "number", "text", "truth"]

IN_WORDS: Mapping[ValueKind, str] = {
    "time": "a time such as `1ms`",
    "size": "a size such as `80GB`",
    "number": "a number",
    "text": 'a text such as `"MatMul"`',
    "truth": "a condition",
}

NAMES: Mapping[str, tuple[ValueKind, str]] = {
    "wait": ("time", "for how long the device idled before the op"),
    "host_wait": ("time", "for how much of that nothing was missing but a host that had yet to issue the op"),
    "duration": ("time", "how long the op takes"),
    "time": ("time", "when the op starts"),
    "slack": ("time", "by how much the op could end later without the program ending later"),
    "critical": ("truth", "whether the op has no slack"),
    "memory": ("size", "what the device's memory holds while the op runs"),
    "capacity": ("size", "what the device's memory has room for"),
    "device": ("number", "the device"),
    "stream": ("text", "the device's stream: `compute`, or the name that a statement gives"),
    "op": ("text", "the op; of a kernel, its function with `@`"),
    "function": ("text", "the function that the op is in, without `@`"),
    "communicates": ("truth", "whether devices exchange data meanwhile"),
    "hits": ("number", "how often the breakpoint has been reached, this time included"),
}
"""The names in conditions: their kinds, and their meaning for an event on one of its streams."""

PER_PROGRAM = frozenset({"duration", "time", "slack", "critical", "op", "function", "communicates", "hits"})
"""The names that say the same for all streams of an event."""


class ConditionError(DistirError, ValueError):
    """A text that is no condition; `help` says what to write instead, if that is known."""

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.help = help


class Described(Protocol):
    """An event on one of its streams: an attribute for each of the `NAMES`."""

    def __getattribute__(self, name: str, /) -> Any: ...


@dataclass(frozen=True, slots=True)
class StopCondition:
    """A condition that has been read.

    `least_wait`: seconds that a device must have waited for it to hold, -1 where none; `device`: the only one for which
    it may hold; None for any.
    """

    text: str
    kind: ValueKind
    names: frozenset[str]
    value: Callable[[Described], Any]
    least_wait: float = -1.0
    device: int | None = None

    @property
    def is_per_stream(self) -> bool:
        """Whether it may differ between the streams of one event."""
        return not self.names <= PER_PROGRAM


def read_condition(text: str) -> StopCondition:
    """Parse the condition of a breakpoint. Raises ConditionError."""
    found = read_expression(text)
    if found.kind != "truth":
        raise ConditionError(f"expected a condition such as `wait > 1ms`, found `{text.strip()}`, {_a(found.kind)}")
    return found


def read_expression(text: str) -> StopCondition:
    """A condition, a time, a size, a number or a text. Raises ConditionError."""
    reader = _Reader()
    try:
        tree = ast.parse(reader.without_units(text.strip()), mode="eval").body
        kind, value = reader.compiled(tree)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        if isinstance(error, ConditionError):
            raise
        raise ConditionError(f"expected a condition such as `wait > 1ms`, found `{_short(text)}`") from None
    waits = [seconds for name, relation, seconds in reader.bounds(tree) if name == "wait" and relation in ("Gt", "GtE")]
    devices = [round(number) for name, relation, number in reader.bounds(tree) if (name, relation) == ("device", "Eq")]
    return StopCondition(
        text.strip(),
        kind,
        frozenset(reader.named),
        value,
        max(waits, default=-1.0),
        devices[0] if devices else None,
    )


@dataclass(frozen=True, slots=True)
class LogMessage:
    """A log message: text, and expressions in braces."""

    parts: tuple[str | StopCondition, ...]

    def filled(self, event: Described) -> str:
        """The message of an event."""
        return "".join(p if isinstance(p, str) else show_of_kind(p.kind, p.value(event)) for p in self.parts)


def read_message(text: str) -> LogMessage:
    """A message with expressions in braces, `waited {wait}`. Raises ConditionError."""
    pieces = re.split(r"\{([^{}]*)\}", text)
    return LogMessage(tuple(read_expression(p) if i % 2 else p for i, p in enumerate(pieces) if p or i % 2))


def show_of_kind(kind: ValueKind, value: Any) -> str:
    """A value as people write it."""
    if kind == "time":
        return show_seconds(value)
    if kind == "size":
        return show_bytes(value)
    return f"{value:g}" if kind == "number" else str(value).lower() if kind == "truth" else str(value)


_UNITS = {unit: quantity for quantity in (DURATION, MEMORY) for unit in quantity.units}
_QUANTITY = re.compile(
    r"""("[^"]*"|'[^']*')|(?<![\w.])((?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*("""
    + "|".join(sorted(_UNITS, key=len, reverse=True))
    + r")\b"
)


def _divided(a: float, b: float) -> float:
    return a / b if b else float("nan")  # which compares with nothing


def _remainder(a: float, b: float) -> float:
    return a % b if b else float("nan")


_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_COMPUTE: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _divided,
    ast.Mod: _remainder,
}

Compiled = tuple[ValueKind, Callable[[Described], Any]]


class _Reader:
    """Reads one text."""

    def __init__(self) -> None:
        self.quantities: dict[str, tuple[ValueKind, float]] = {}
        self.named: set[str] = set()

    def without_units(self, text: str) -> str:
        """The text with a name for each quantity that has a unit."""

        def named(match: re.Match[str]) -> str:
            if match[1]:
                return match[1]
            quantity, name = _UNITS[match[3]], f"_quantity{len(self.quantities)}"
            kind: ValueKind = "time" if quantity is DURATION else "size"
            self.quantities[name] = kind, float(match[2].replace("_", "")) * quantity.units[match[3]]
            return name

        return _QUANTITY.sub(named, text)

    def compiled(self, node: ast.expr) -> Compiled:
        """The kind of an expression, and how its value is found."""
        match node:
            case ast.Name(id=name):
                return self._name(name)
            case ast.Constant(value=bool() as value):
                return "truth", lambda _: value
            case ast.Constant(value=(int() | float()) as value):
                return "number", lambda _: value
            case ast.Constant(value=str() as value):
                return "text", lambda _: value
            case ast.BoolOp(op=op, values=values):
                parts = [self._of(value, "truth") for value in values]
                every = isinstance(op, ast.And)
                return "truth", lambda facts: (all if every else any)(part(facts) for part in parts)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self._of(operand, "truth")
                return "truth", lambda facts: not inner(facts)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                kind, inner = self.compiled(operand)
                self._arithmetic(kind)
                return kind, lambda facts: -inner(facts)
            case ast.Compare():
                return self._comparison(node)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _COMPUTE:
                return self._computation(left, _COMPUTE[type(op)], right)
            case _:
                raise ConditionError("expected comparisons, `and`, `or`, `not` and arithmetic, and nothing else")

    def bounds(self, node: ast.expr) -> Iterator[tuple[str, str, float]]:
        """The necessary conditions: comparisons of names with quantities."""
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
            for value in node.values:
                yield from self.bounds(value)
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.left, ast.Name):
            right = node.comparators[0]
            relation = type(node.ops[0]).__name__
            if isinstance(right, ast.Name) and right.id in self.quantities:
                yield node.left.id, relation, self.quantities[right.id][1]
            elif isinstance(right, ast.Constant):
                value = right.value
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    yield node.left.id, relation, float(value)

    def _name(self, name: str) -> Compiled:
        if name in self.quantities:
            kind, amount = self.quantities[name]
            return kind, lambda _: amount
        if name not in NAMES:
            close = nearest(name, NAMES)
            known = ", ".join(f"`{each}`" for each in NAMES)
            raise ConditionError(f"there is no `{name}`", f"did you mean `{close}`?" if close else f"there are {known}")
        self.named.add(name)
        return NAMES[name][0], lambda facts: getattr(facts, name)

    def _of(self, node: ast.expr, kind: ValueKind) -> Callable[[Described], Any]:
        found, value = self.compiled(node)
        if found != kind:
            raise ConditionError(f"expected {IN_WORDS[kind]}, found {self._shown(node)}, {_a(found)}")
        return value

    def _comparison(self, node: ast.Compare) -> Compiled:
        sides = [node.left, *node.comparators]
        parts = [self.compiled(side) for side in sides]
        for (a, b), op in zip(zip(range(len(sides)), range(1, len(sides)), strict=False), node.ops, strict=True):
            if type(op) not in _COMPARE:
                raise ConditionError("expected `<`, `<=`, `==`, `!=`, `>=` or `>` in a comparison")
            (left, _), (right, _) = parts[a], parts[b]
            if left != right and not self._is_zero(sides[a]) and not self._is_zero(sides[b]):
                named = self._shown(sides[a])
                raise ConditionError(f"{named} is compared with {IN_WORDS[left]}, found {self._shown(sides[b])}")
        relations = [_COMPARE[type(op)] for op in node.ops]

        def value(facts: Described) -> bool:
            found = [part(facts) for _, part in parts]
            return all(holds(found[i], found[i + 1]) for i, holds in enumerate(relations))

        return "truth", value

    def _computation(self, left: ast.expr, compute: Callable[[Any, Any], Any], right: ast.expr) -> Compiled:
        (a, x), (b, y) = self.compiled(left), self.compiled(right)
        self._arithmetic(a)
        self._arithmetic(b)
        scales = compute in (operator.mul, _divided)
        if a != b and not (scales and "number" in ((a, b) if compute is operator.mul else (b,))):
            raise ConditionError(f"{self._shown(left)}, {_a(a)}, and {self._shown(right)}, {_a(b)}, do not go together")
        if a == b and a != "number" and compute is operator.mul:
            raise ConditionError(f"{self._shown(left)} and {self._shown(right)} have no product of a kind to compare")
        kind: ValueKind = "number" if scales and a == b else b if a == "number" else a

        return kind, lambda facts: compute(x(facts), y(facts))

    def _arithmetic(self, kind: ValueKind) -> None:
        if kind in ("text", "truth"):
            raise ConditionError(f"expected a number, a time or a size in arithmetic, found {_a(kind)}")

    def _is_zero(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value == 0

    def _shown(self, node: ast.expr) -> str:
        text = ast.unparse(node)
        for name, (kind, amount) in self.quantities.items():
            text = re.sub(rf"\b{name}\b", show_of_kind(kind, amount), text)
        return f"`{text}`"


def _a(kind: ValueKind) -> str:
    return IN_WORDS[kind].partition(" such")[0]


def _short(text: str) -> str:
    return text.strip() if len(text.strip()) <= 60 else text.strip()[:57] + "…"
