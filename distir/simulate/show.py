"""A program annotated with what is inferred of it: types, devices, known values, and when each op runs.

Types that hold for every call of a function become annotations, so the annotated program checks as before. Types,
values and times of a single call become comments: for each function, those of its first call in program order. Knows
no terminal; the editor uses `occurrences` and `moment`, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from distir.analysis import Checker, Instance, State
from distir.analysis.program import Program
from distir.analysis.provenance import with_facts, without_facts
from distir.cost import show_bytes, show_seconds
from distir.ir import (
    DISCARD,
    NO_FACTS,
    UNKNOWN,
    Apply,
    Call,
    Dense,
    Function,
    Statement,
    SymbolicDim,
    TensorType,
    Type,
    names,
    types,
)
from distir.ir.counted import CountedStatement, Result, as_call, as_counted, times_in
from distir.ops import Value, canonical, type_of
from distir.simulate.body import Body
from distir.simulate.descent import EventPlace, Run
from distir.simulate.effects import to_seconds
from distir.simulate.simulation import Simulation
from distir.simulate.timeline import Timeline
from distir.syntax import FunctionSyntax, Syntax, format, parse, print_literal, print_statement  # noqa: A004

WIDEST_ALIGNED = 110
"""The longest statement after which comments are aligned."""

LARGE = 8
"""The most tensors of a type, or results of a statement, that are annotated one by one."""

VALUES_SHOWN = 16
"""Known values of more elements are not written out."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A function as one call runs it. `body` is None where nothing was simulated, `caller` for the entry function."""

    instance: Instance
    body: Body | None
    first_event: int
    """The number of its first event on the timeline."""
    caller: tuple[Function, int] | None
    """The function and the statement that calls it."""
    depth: int = 0
    """How many calls lead to it."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When a statement runs, in seconds from the start of the program, and on which devices. For a call: all of it."""

    start: float
    seconds: float
    devices: tuple[int, ...]

    def __str__(self) -> str:
        return f"{show_seconds(self.seconds)} @{show_seconds(self.start)} on {', '.join(map(str, self.devices))}"


def occurrences(domain: Checker, entry: Instance, body: Body | None) -> dict[str, Occurrence]:
    """The first occurrence of each function that is reached from the entry function, by name."""
    found: dict[str, Occurrence] = {}
    seen: set[int] = set()
    waiting = [Occurrence(entry, body, 0, None)]
    while waiting:
        current = waiting.pop()
        found.setdefault(current.instance.function.name, current)
        if id(current.instance) not in seen:  # its callees were found already
            seen.add(id(current.instance))
            waiting += reversed(list(_called(domain, current)))
    return found


def moment(timeline: Timeline, occurrence: Occurrence, index: int) -> Moment | None:
    """When a statement runs; None for one that takes no time on any device."""
    found = run_of(timeline, occurrence)
    step = found.body.steps[index] if found is not None else None
    if found is None or step is None:
        return None
    if isinstance(step, Body):
        if not step.events:
            return None
        start, end = found.span(index)
        return Moment(to_seconds(start), to_seconds(end - start), step.devices) if end > start else None
    if not step.devices or not step.ticks:
        return None
    return Moment(to_seconds(EventPlace(found, index).start), step.cost.seconds, step.devices)


def run_of(timeline: Timeline, occurrence: Occurrence) -> Run | None:
    """The run that an occurrence is; None where it has no events."""
    body = occurrence.body
    if body is None or not body.events:
        return None
    return timeline.descent.reach(occurrence.first_event, body, occurrence.depth)


def show_value(value: Dense) -> str | None:
    """A known value as people write it, `[256, 8, 768]`, `[B, 768]`; None for one that is too large."""
    if len(value.values) > VALUES_SHOWN:
        return None
    return _nested([str(v) if isinstance(v, SymbolicDim) else print_literal(v) for v in value.values], value.shape)


def annotated(program: Program, entry: Instance, simulation: Simulation | None, facts: bool = False) -> str:
    """The text of a program without errors, canonical and with its comments, with what is known written in.

    `entry`: the entry function for the arguments it is shown for. Without a simulation there are no times. `facts`:
    with the facts of statements, those that follow from data flow, too. The text parses to the same program with
    annotations added, and with or without facts.
    """
    analysis = program.analysis
    found = occurrences(analysis.domain, entry, simulation.body if simulation is not None else None)
    states = analysis.states
    module = with_facts(program.module, entry.function) if facts else without_facts(program.module)
    functions = (replace(f, function=module.functions[f.function.name]) for f in program.syntax.functions)
    counted: dict[str, Function] = {}
    functions = tuple(
        _with_claims(f, states[f.function.name], _Counting(program.syntax, counted, facts)) for f in functions
    )
    shown = replace(program.syntax, functions=functions, counted=counted)
    text = format(shown).replace("\r\n", "\n").replace("\r", "\n")
    timeline = simulation.timeline() if simulation is not None else None
    syntax = parse(text, program.source.path, canonical)
    lines = text.split("\n")
    above: dict[int, list[str]] = {}
    for written in syntax.functions:
        name = written.function.name
        occurrence = found.get(name) or Occurrence(analysis.domain.own[name], None, 0, None)
        notes = {
            syntax.source.position(end)[0] - 1: note
            for index, end in enumerate(written.ends)
            if (note := _note(_whole(written.function.body[index], syntax), index, occurrence, timeline))
        }
        _put_behind(lines, notes)
        above[syntax.source.position(written.span.start)[0] - 1] = _introduction(occurrence, found, simulation)
    return "\n".join(line for number, line in enumerate(lines) for line in (*above.get(number, ()), line))


def _nested(values: Sequence[str], shape: tuple[int, ...]) -> str:
    if not shape:
        return values[0]
    step = len(values) // shape[0] if shape[0] else 0
    return f"[{', '.join(_nested(values[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0]))}]"


def _called(domain: Checker, caller: Occurrence) -> Iterator[Occurrence]:
    instance, body = caller.instance, caller.body
    if not domain.structure.names[instance.function.name].calls:
        return
    for index, statement in enumerate(instance.function.body):
        if isinstance(statement, Call):
            callee = domain.instance(statement.function, instance.state(statement.args))
            step = body.steps[index] if body is not None else None
            first = caller.first_event + (body.first_events[index] if body is not None else 0)
            made = step if isinstance(step, Body) else None
            yield Occurrence(callee, made, first, (instance.function, index), caller.depth + 1)


@dataclass(frozen=True, slots=True)
class _Counting:
    """The text, and what its counted calls call once they are annotated, with facts or without them."""

    syntax: Syntax
    made: dict[str, Function]
    facts: bool

    def claimed(self, function: str, index: int, statement: Statement, own: State) -> Statement:
        """A statement with annotations; a counted call with those of what each of its calls gives."""
        if not isinstance(statement, Call) or statement.function not in self.syntax.counted:
            return _claimed(statement, own)
        stated = statement if self.facts else self.syntax.by_name[function].function.body[index]
        assert isinstance(stated, Call)
        written = as_counted(stated, self.syntax.counted[statement.function])
        if written is None:
            return _claimed(statement, own)
        made, callee = as_call(replace(written, statements=tuple(self._annotated(e, own) for e in written.statements)))
        self.made[callee.name] = callee
        return made

    def _annotated(self, each: CountedStatement, own: State) -> CountedStatement:
        claims = tuple([_claim_of_all(own, r) for r in each.results]) if len(each.results) <= LARGE else ()
        each = replace(each, claims=claims if any(claims) else ())
        return each if self.facts else replace(each, facts=NO_FACTS, last=NO_FACTS, of=())


def _with_claims(written: FunctionSyntax, own: State, counting: _Counting) -> FunctionSyntax:
    """The function with annotations of all types inferred from its declared parameters."""
    function = written.function
    body = tuple(counting.claimed(function.name, n, statement, own) for n, statement in enumerate(function.body))
    result_types = function.result_types
    returned = tuple(map(type_of, own.returned))
    if returned and all(map(_is_known, returned)) and sum(map(types.width, returned)) <= LARGE:
        result_types = returned
    return replace(written, function=replace(function, body=body, result_types=result_types))


def _claimed(statement: Statement, own: State) -> Statement:
    if not isinstance(statement, (Apply, Call)):
        return statement
    if len(statement.results) > LARGE:
        return statement
    stated = statement.claims or (None,) * len(statement.results)
    claims = tuple(_claim(own, name) or claim for name, claim in zip(statement.results, stated, strict=True))
    return replace(statement, claims=claims if any(claims) else ())


def _claim(own: State, name: str) -> Type | None:
    found = type_of(own[name]) if name != DISCARD else UNKNOWN
    return found if _is_known(found) and types.width(found) <= LARGE else None


def _claim_of_all(own: State, result: Result) -> Type | None:
    """The type that a result has each time, on no device where they differ; None where a time's is not known.

    Of a result that is no list, the last time's alone is.
    """
    found = [_claim(own, name) for name in result] if isinstance(result, tuple) else [None]
    if len(set(found)) > 1 and None not in found:
        found = [types.on_device(claim, None) for claim in found if claim is not None]
    return found[0] if len(set(found)) == 1 else None


def _is_known(type: Type) -> bool:
    """Whether nothing is open but perhaps the device."""
    return all(
        isinstance(leaf, TensorType) and leaf.dtype is not None and leaf.shape is not None and None not in leaf.shape
        for leaf in types.leaves(type)
    )


def _whole(statement: Statement, syntax: Syntax) -> Statement:
    """The statement; a counted call with what its results are annotated with."""
    callee = syntax.counted.get(statement.function) if isinstance(statement, Call) else None
    if callee is None or not isinstance(statement, Call):
        return statement
    claims = {
        name: claim
        for inner in callee.body
        if isinstance(inner, (Apply, Call))
        for name, claim in zip(inner.results, inner.claims, strict=False)
    }
    return replace(statement, claims=tuple(claims.get(name) for name in names(callee.returned)))


def _note(statement: Statement, index: int, occurrence: Occurrence, timeline: Timeline | None) -> str:
    """The comment after a statement: types that are not annotated, known values, the time."""
    if not isinstance(statement, (Apply, Call)):
        return ""
    state = occurrence.instance.state
    stated = statement.claims or (None,) * len(statement.results)
    parts: list[str] = []
    if len(statement.results) > LARGE:
        parts.append(_brief([type_of(state[name]) for name in statement.results if name != DISCARD]))
    for name, claim in zip(statement.results, stated, strict=True) if not parts else ():
        shown = _known(state[name], claim, statement) if name != DISCARD else None
        if shown is not None:
            parts.append(f"%{name}: {shown}" if len(statement.results) > 1 else shown)
    when = moment(timeline, occurrence, index) if timeline is not None else None
    parts += [str(when)] if when is not None else []
    return "; ".join(parts)


def _known(value: Value, claim: Type | None, statement: Statement) -> str | None:
    """Known facts about a result beyond its annotation."""
    if isinstance(value, Dense) and not (isinstance(statement, Apply) and statement.op == "Constant"):
        shown = show_value(value)
        if shown is not None:
            return shown
    found = type_of(value)
    return None if found in (claim, UNKNOWN) else _shown(found)


def _shown(type: Type) -> str:
    return str(type) if types.width(type) <= LARGE else _brief([type])


def _brief(found: Sequence[Type]) -> str:
    """What types of many tensors amount to: `81 tensors, 1.25GB`, or `64 of Tensor[Int64, (1, 8192), 1]`."""
    if len(set(found)) == 1 and len(found) > 1 and types.width(found[0]) == 1:
        return f"{len(found)} of {found[0]}"
    leaves = [leaf for each in found for leaf in types.leaves(each)]
    sizes = [leaf.nbytes for leaf in leaves if isinstance(leaf, TensorType)]
    known = [size for size in sizes if isinstance(size, int)]
    amount = f", {show_bytes(sum(known))}" if len(known) == len(leaves) else ""
    return f"{len(leaves)} tensors{amount}"


def _introduction(occurrence: Occurrence, found: Mapping[str, Occurrence], simulation: Simulation | None) -> list[str]:
    """The comments above a function: the call for which it is shown. `found`: by function, its first occurrence."""
    function, args = occurrence.instance.function, occurrence.instance.args
    lines: list[str] = []
    is_special = any(type_of(v) != p.type for p, v in zip(function.params, args, strict=True))
    if occurrence.caller is None:
        if simulation is not None and occurrence.body is simulation.body:
            of = " with these arguments:" if is_special else ""
            lines.append(f"// Takes {show_seconds(simulation.latency_s)} on {simulation.hardware.name}{of}")
        elif is_special:
            lines.append("// Shown for these arguments:")
    elif is_special:
        caller, index = occurrence.caller
        counted: dict[str, Function] = {}
        while times_in(caller) and (outer := found[caller.name].caller) is not None:  # as the text has it
            counted[caller.name] = caller
            caller, index = outer
        call = caller.body[index]
        assert isinstance(call, Call)
        (first, *more) = print_statement(replace(call, claims=()), counted).split("\n")
        lines.append(f"// Shown as first called, by @{caller.name}: {first}{' …' if more else ''}")
    return lines + [
        f"//   %{param.name}: {_shown(type_of(value))}{_shown_argument(value)}"
        for param, value in zip(function.params, args, strict=True)
        if type_of(value) != param.type
    ]


def _shown_argument(value: Value) -> str:
    shown = show_value(value) if isinstance(value, Dense) else None
    return f" = {shown}" if shown is not None else ""


def _put_behind(lines: list[str], notes: dict[int, str]) -> None:
    """Write comments after lines, aligned where lines are short enough."""
    column = _column([len(lines[number]) for number in notes])
    for number, note in notes.items():
        lines[number] = f"{lines[number]:<{column}}  // {note}"


def _column(widths: Sequence[int]) -> int:
    return max((width for width in widths if width <= WIDEST_ALIGNED), default=0)
