"""The canonical text of modules, functions, statements and constants. `parse` reads all of it back to equal values."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from distir.ir import (
    DISCARD,
    HOST,
    Apply,
    Arg,
    Attributes,
    Call,
    Constant,
    Dense,
    DType,
    External,
    Facts,
    Function,
    Literal,
    Module,
    Param,
    Return,
    Scalar,
    Statement,
    SymbolicDim,
    TensorType,
    Type,
    types,
)
from distir.ir.counted import Counted, CountedStatement, Operand, Then, as_counted, times_in
from distir.ir.notebook import PRINTERS
from distir.ir.places import Meshes
from distir.ir.rolling import rolled
from distir.ir.types import UNKNOWN, show_shape
from distir.syntax.ranges import MANY, SHORTEST, period_of, range_of, shortened, spread_of
from distir.syntax.tokens import KERNEL, REPEAT_WORD, STREAM_WORD, THEN_WORD, TIMES_WORD

WIDTH = 100
"""A function's head that is longer gets a line per parameter."""

INDENT = "  "
NONE_COUNTED: Mapping[str, Function] = {}
_SPLAT_FROM = 9
"""From how many equal values on a dense tensor is written with one."""


def print_module(module: Module) -> str:
    """The text of a module; it ends with a newline."""
    counted = unwritten(module)
    return "\n".join(print_function(function, counted) for function in module if function.name not in counted)


def print_rolled(module: Module) -> str:
    """The text of a module, with what it does several times as counted statements; it ends with a newline."""
    return print_module(rolled(module))


def print_function(function: Function, counted: Mapping[str, Function] = NONE_COUNTED) -> str:
    """The text of a function; it ends with a newline. `counted`: functions that are written where they are called."""
    body = (INDENT + print_statement(statement, counted) for statement in function.body)
    return "\n".join((print_head(function) + " {", *body, "}\n"))


def unwritten(module: Module) -> dict[str, Function]:
    """By name: the functions that are written where they are called, as counted statements, alone."""
    found = {function.name: function for function in module if times_in(function)}
    if not found:
        return found
    called = [s for function in module for s in function.body if isinstance(s, Call) and s.function in found]
    shown = {call.function for call in called}
    shown -= {call.function for call in called if as_counted(call, found[call.function]) is None}
    entry = module.entry()
    return {name: function for name, function in found.items() if name in shown and function is not entry}


def print_head(function: Function) -> str:
    """A function's head without the `{`: on one line, or with a line per parameter or range of them."""
    start, end = _around_params(function)
    if sum(len(param.name) for param in function.params) <= WIDTH:  # else they are not written for this alone
        line = f"{start}{', '.join(map(print_param, function.params))}{end}"
        if len(line) + 2 <= WIDTH or not function.params:
            return line
    return "\n".join((start, ",\n".join(INDENT + param for param in _ranges(function.params)), end))


def _ranges(params: Sequence[Param]) -> list[str]:
    """Parameters as they are written, those whose names count on together: in brackets where they are several."""
    lines: list[str] = []
    said = [(param.name, (param.type, _named_by(param, lambda behind: f"*{behind}"))) for param in params]
    spread = [(name, (_on_no_device(stated), roles)) for name, (stated, roles) in said]
    index = 0
    while index < len(params):
        together = _together(params, spread, index) or _together(params, said, index)
        if together:
            shown, count = together
            lines.append(shown[0] if len(shown) == 1 else f"[{BETWEEN.join(shown)}]")
            index += count
        else:
            lines.append(print_param(params[index]))
            index += 1
    return lines


def _together(params: Sequence[Param], said: Sequence[tuple[str, object]], index: int) -> tuple[list[str], int] | None:
    """Parameters from one on that count on together, as they are written, and how many they are; None if they do not.

    `said`: by parameter, its name and what is the same of those of one range.
    """
    period, times = period_of(said, index)
    shown: list[str] = []
    for number in range(index, index + period):
        column = params[number : index + period * times : period]
        devices = [types.device_of(param.type) for param in column]
        over = None if len(set(devices)) == 1 else spread_of(devices)
        if over is None and len(set(devices)) > 1:
            return None
        shown.append(print_param(_as_range(column[0], range_of(column[0].name, column[1].name, times)), over))
    return (shown, period * times) if shown else None


def _on_no_device(type: Type) -> Type:
    """The type of a tensor on any device, whichever that is."""
    return replace(type, device=None) if isinstance(type, TensorType) and type.device not in (None, HOST) else type


def _as_range(param: Param, name: str) -> Param:
    return replace(param, name=name, roles=_named_by(param, lambda behind: name[: len(name) - len(behind)]))


def _named_by(param: Param, named: Callable[[str], str]) -> Attributes:
    """The roles; one that names what the parameter's name begins with is `named` by the rest of it."""
    follows = {
        role: named(param.name[len(value) :])
        for role, value in param.roles.items()
        if isinstance(value, str) and value and param.name.startswith(value)
    }
    return Attributes({**param.roles, **follows}) if follows else param.roles


BETWEEN = f",\n{INDENT} "
"""What stands between the parameters of a group."""


def head_parts(function: Function) -> tuple[str, list[str], str]:
    """`func @f(`, its parameters, and `)` with the result types and marks."""
    start, end = _around_params(function)
    return start, list(map(print_param, function.params)), end


def _around_params(function: Function) -> tuple[str, str]:
    """`func @f(`, and `)` with the result types and marks."""
    results = ""
    if function.result_types is not None:
        results = f" -> ({', '.join(map(str, function.result_types))})"
    mesh = [str(Meshes(function.mesh, function.stages))] if function.mesh else []
    marks = ", ".join(([KERNEL] if function.kernel else []) + mesh + _facts(function.facts))
    return f"func @{function.name}(", f"){results}{marks and f' {marks}'}"


def print_param(param: Param, devices: str | None = None) -> str:
    """A parameter as it is written in a signature, with type and roles.

    `devices`: those over which the parameters of a range are spread.
    """
    text = f"%{param.name}"
    if isinstance(param.type, TensorType) and devices:
        text += f": {param.type.on(devices)}"
    elif param.type != UNKNOWN:
        text += f": {param.type}"
    if param.roles:
        roles = (k if v is True else f"{k} = {print_literal(v)}" for k, v in param.roles.items())
        text += f" {{{', '.join(roles)}}}"
    return text


def print_statement(statement: Statement, counted: Mapping[str, Function] = NONE_COUNTED) -> str:
    """One statement, without indentation and newline. A broken one is what is left of it, and does not parse.

    `counted`: functions that are not written, but what their calls mean. What is several statements each time has lines
    of its own, indented as in a function.
    """
    if isinstance(statement, Call) and statement.function in counted:
        written = as_counted(statement, counted[statement.function])
        if written is not None:
            return _counted(written)
    match statement:
        case Apply(names, op, args, attrs, claims, stream, facts):
            return f"{_results(names, claims)}{op}{_attributes(attrs)}({_args(args)}){_stream(stream)}{_braced(facts)}"
        case Call(names, function, args, claims, stream, facts):
            return f"{_results(names, claims)}@{function}({_args(args)}){_stream(stream)}{_braced(facts)}"
        case Return(args):
            return f"return {_returned(args)}" if args else "return"
        case _:
            return f"{_results(statement.results, ())}..."


def print_type(type: Type) -> str:
    """A type as it is written."""
    return str(type)


def print_literal(value: Constant) -> str:
    """A constant: `[1, 2]`, `1.0`, `dense<Int64, [2, 3]>`, `Float16`."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return _number(value)
        case str():
            return _string(value)
        case tuple():
            return f"[{', '.join(map(print_literal, value))}]"
        case DType():
            return value.name
        case Dense():
            return _dense(value)
        case External(dtype, shape, reference):
            return f"external<{dtype}, {show_shape(shape)}, {_string(reference)}>"


def _counted(written: Counted) -> str:
    times = f"{written.times} {TIMES_WORD}"
    if len(written.statements) == 1:
        return _each(written.statements[0], f" {times}")
    lines = (INDENT * 2 + _each(each) for each in written.statements)
    return "\n".join((f"{REPEAT_WORD} {times} {{", *lines, f"{INDENT}}}"))


def _each(each: CountedStatement, times: str = "") -> str:
    claims = each.claims or (None,) * len(each.results)
    shown = [f"[{_names(r)}]" if isinstance(r, tuple) else _name(r) for r in each.results]
    results = ", ".join(s if claim is None else f"{s}: {claim}" for s, claim in zip(shown, claims, strict=True))
    operands = ", ".join(map(_operand, each.operands))
    facts = _facts(each.facts, each.last or each.facts)
    facts += [f"of = [{_names(each.of)}]"] if each.of else []
    stated = f" {{{', '.join(facts)}}}" if facts else ""
    does = f"@{each.name}" if each.attrs is None else f"{each.name}{_attributes(each.attrs, each.last_attrs)}"
    done = f"{does}({operands}){times}{_stream(each.stream)}{stated}"
    return f"{results} = {done}" if results else done


def _operand(operand: Operand) -> str:
    match operand:
        case Then(first, result):
            return f"{_arg(first)} {THEN_WORD} %{result}"
        case tuple():
            return f"[{_listed(operand)}]"
        case _:
            return _arg(operand)


def _listed(items: Sequence[Arg], least: int = SHORTEST) -> str:
    """Operands, with ranges of names."""
    if len(items) < least:
        return ", ".join(map(_arg, items))
    parts: list[str] = []
    for is_name, group in groupby(items, key=lambda item: isinstance(item, str) and item != DISCARD):
        together = list(group)
        parts += [_names([str(item) for item in together], least)] if is_name else map(_arg, together)
    return ", ".join(parts)


def _names(names: Sequence[str], least: int = SHORTEST) -> str:
    return ", ".join(map(_name, shortened(names, least)))


def _name(name: str) -> str:
    return f"%{name}" if name else "_"


def _results(names: Sequence[str], claims: Sequence[Type | None]) -> str:
    if not names:
        return ""
    if not claims:
        return f"{_names(names, MANY)} = "
    stated = claims
    parts = (_name(name) + ("" if claim is None else f": {claim}") for name, claim in zip(names, stated, strict=True))
    return f"{', '.join(parts)} = "


def _attributes(attrs: Attributes, last: Attributes | None = None) -> str:
    """Attributes as they are written; `last`: those of the last of several times."""
    if not attrs:
        return ""
    written = [
        f"{name} = {print_literal(value)}" + ("" if last is None or last[name] == value else f"..{last[name]}")
        for name, value in attrs.items()
    ]
    return f"[{', '.join(written)}]"


def _stream(name: str) -> str:
    return f" {STREAM_WORD} {name}" if name else ""


def _braced(facts: Facts) -> str:
    return f" {{{', '.join(_facts(facts))}}}" if facts else ""


def _facts(facts: Facts, last: Facts | None = None) -> list[str]:
    """Facts as they are written; `last`: those of the last of several calls."""
    said = [facts.phase] if facts.phase else []
    for name in ("stage", "microbatch", "layer"):
        first, final = getattr(facts, name), getattr(last or facts, name)
        if first:
            said.append(f"{name} = {first}" if first == final else f"{name} = {first}..{final}")
    return said + ([f"of = %{facts.of}"] if facts.of else [])


def _returned(args: Sequence[Arg]) -> str:
    """What is returned, in brackets what counts on together."""
    said = [(arg, None) if isinstance(arg, str) else ("", arg) for arg in args]
    parts: list[str] = []
    index = start = 0
    while index < len(args):
        period, times = period_of(said, index)
        if period > 1:
            parts += [_args(args[start:index])] if index > start else []
            firsts, following = said[index : index + period], said[index + period : index + 2 * period]
            names = [
                f"%{range_of(name, after, times)}" for (name, _), (after, _) in zip(firsts, following, strict=True)
            ]
            parts.append(f"[{', '.join(names)}]")
            start = index = index + period * times
        else:
            index += max(1, times)
    return ", ".join([*parts, *([_args(args[start:])] if start < len(args) else [])])


def _args(args: Sequence[Arg]) -> str:
    return _listed(args, MANY)


def _arg(arg: Arg) -> str:
    if isinstance(arg, str):
        return f"%{arg}" if arg else "_"  # an operand that is left out
    return print_literal(arg.value) if isinstance(arg, Literal) else f"[{_args(arg)}]"


def _number(value: Scalar | SymbolicDim) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, SymbolicDim):  # an inferred constant, which no text can hold, is shown all the same
        return str(value)
    return repr(value)  # `inf` and `nan` are spelled as Python does; other floats keep a point or an exponent


def _string(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    if not quoted.isprintable():
        quoted = "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in quoted)
    return quoted


def _dense(dense: Dense) -> str:
    values, shape = dense.values, dense.shape
    if len(values) >= _SPLAT_FROM and len(set(map(repr, values))) == 1:
        return f"dense<{dense.dtype}, {show_shape(shape)}, {_number(values[0])}>"
    if not values and (shape[-1:] != (0,) or shape.count(0) > 1 or math.prod(shape[:-1]) >= _SPLAT_FROM):
        return f"dense<{dense.dtype}, {show_shape(shape)}, []>"
    return f"dense<{dense.dtype}, {_nested(list(map(_number, values)), shape)}>"


def _nested(values: Sequence[str], shape: tuple[int, ...]) -> str:
    if not shape:
        return values[0]
    if len(shape) == 1:
        return f"[{', '.join(values)}]"
    stride = math.prod(shape[1:])
    rows = (_nested(values[i * stride : (i + 1) * stride], shape[1:]) for i in range(shape[0]))
    return f"[{', '.join(rows)}]"


PRINTERS.update(Module=print_module, Function=print_function)
