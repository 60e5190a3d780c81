"""Code generation: from the programs of the ranks to one Python module of straight-line PyTorch, a line per statement.

A function is emitted once per rank and instance, with its sizes as literals; instances with the same text share one
function. Values are deleted after their last use. Constants, process groups and the device are globals of the module,
set before it runs. Does not depend on torch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from distir.analysis import Analysis, Checker, Instance
from distir.analysis.liveness import last_uses
from distir.analysis.reached import callee
from distir.ir import (
    DISCARD,
    Apply,
    Arg,
    Call,
    Dense,
    External,
    Function,
    Literal,
    Return,
    Statement,
    names,
    types,
)
from distir.ir.deep import Deep, finish
from distir.lower.naming import FUNCTION, Identifiers
from distir.lower.sharing import Root, Sharing, SharingMap, leaves, stream_of
from distir.lower.statements import NONE, Assignment, lowered
from distir.ops import OPS, Reject, Value, dense, type_of
from distir.ops.torch_form import Unlowerable, items
from distir.ops.tuples import TUPLING

INDENT = "    "


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A line of code. `statement`: the DistIR statement that it implements, if any."""

    text: str
    statement: Statement | None = None


@dataclass(slots=True, eq=False)
class RecordedEvent:
    """A position in the generated code where an event may be recorded, which fires when the lines before it are done.

    `coming`: the expression of a value that another stream produces; its event is used instead. `name`: the event's
    variable; empty where nothing waits for it.
    """

    coming: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class EmittedFunction:
    """The signature of a generated function. `params`, `results`: indices of the DistIR function's that it has."""

    name: str
    params: tuple[int, ...]
    results: tuple[int, ...]
    communicates: bool
    identifiers: tuple[str, ...] = ()
    overwritten: tuple[str, ...] = ()
    """Names of the parameters that the function overwrites."""
    streams: tuple[str, ...] = ()
    """By result: the stream that may still be producing it when the function returns; empty for none."""


@dataclass(frozen=True, slots=True)
class FunctionSource:
    """The code of a generated function. `origin`: the DistIR function."""

    name: str
    origin: str
    rows: tuple[CodeLine, ...]
    communicates: bool


@dataclass(frozen=True, slots=True)
class UnsupportedStatement:
    """A statement of a rank's program without an equivalent in torch, and the reason."""

    function: str
    statement: Statement
    refusal: Unlowerable


@dataclass
class Emission:
    """The contents of the generated module. `ranks`: the devices, in the order of torch's ranks."""

    ranks: tuple[int, ...]
    kernels: dict[str, None] = field(default_factory=dict[str, None])
    constants: dict[Dense | External, int] = field(default_factory=dict["Dense | External", int])
    groups: set[tuple[int, ...]] = field(default_factory=set[tuple[int, ...]])
    functions: list[FunctionSource] = field(default_factory=list[FunctionSource])
    problems: list[UnsupportedStatement] = field(default_factory=list["UnsupportedStatement"])
    texts: dict[tuple[str, ...], FunctionSource] = field(default_factory=dict["tuple[str, ...]", FunctionSource])
    reserved: frozenset[str] = frozenset()
    """Names of the functions of the templates."""

    def __post_init__(self) -> None:
        self.names = Identifiers(self.reserved, prefix=FUNCTION)

    def entry(self, analysis: Analysis, function: Function, args: Sequence[Value], device: int) -> EmittedFunction:
        """Emit the program of one rank. Unsupported statements are added to `problems`."""
        domain = analysis.domain
        instance = domain.entered(function, tuple(args))
        return finish(_Rank(self, domain, device).of(instance, is_entry=True))

    def kernel(self, name: str) -> str:
        """Include a function of the template `kernels`; returns its name."""
        self.kernels[name] = None
        return name

    def constant(self, value: Dense | External) -> str:
        """The expression of a constant, which is stored beside the program."""
        return f"C[{self.constants.setdefault(value, len(self.constants))}]"

    def rank(self, device: int) -> int:
        """The rank of a device, from 0."""
        return self.ranks.index(device)

    def group(self, devices: Sequence[int]) -> str:
        """The expression of the process group of these devices."""
        members = tuple(sorted(map(self.rank, devices)))
        self.groups.add(members)
        return f"GROUP[{', '.join(map(str, members))}]"

    def refuse(self, function: str, statement: Statement, refusal: Unlowerable) -> None:
        """Record a statement without an equivalent in torch."""
        self.problems.append(UnsupportedStatement(function, statement, refusal))


def _packs(statement: Apply | Call) -> bool:
    """Whether it packs a tuple, or unpacks one: neither runs, so neither waits for anything."""
    return isinstance(statement, Apply) and not statement.stream and statement.op in TUPLING


@dataclass
class _Rank:
    """Emits the functions of one rank."""

    emission: Emission
    domain: Checker
    device: int
    done: dict[int, EmittedFunction] = field(default_factory=dict[int, EmittedFunction])
    aside: bool = False
    """Whether some statements run on streams of their own."""

    def __post_init__(self) -> None:
        self.sharing = SharingMap(self.domain)

    def of(self, instance: Instance, is_entry: bool = False) -> Deep[EmittedFunction]:
        if id(instance) not in self.done:
            self.done[id(instance)] = yield from _FunctionEmitter(self, instance, is_entry).emitted()
        return self.done[id(instance)]


class _FunctionEmitter:
    """Emits one function."""

    def __init__(self, rank: _Rank, instance: Instance, is_entry: bool) -> None:
        self.rank, self.instance, self.is_entry = rank, instance, is_entry
        self.rho = instance.state
        self.sharing: Sharing = rank.sharing.of(instance, own_params=is_entry)
        self.names = Identifiers(rank.emission.reserved)
        self.texts: dict[str, str] = {}
        """The expression of each value; constants have none."""
        self.rows: list[CodeLine | RecordedEvent] = []
        self.communicates = False
        self.overwritten: dict[str, None] = {}
        self.donated = ""
        """The variable that donates arguments to a callee, if any."""
        self.last = last_uses(instance.function)
        self.coming: dict[str, str] = {}
        """The streams that produce values which nothing has waited for yet."""
        self.has_streams = any(stream_of(s) for s in instance.function.body)
        self.ready: dict[str, tuple[RecordedEvent, ...]] = {}
        """By value that the compute stream produces, or waited for: the event after which other streams may read it."""
        self.last_used: dict[Root, RecordedEvent] = {}
        """By tensor: the event after the last statement on the compute stream that uses its memory."""
        self.overwrites: list[str] = []
        """The operands that the current statement overwrites."""

    def emitted(self) -> Deep[EmittedFunction]:
        function = self.instance.function
        params = tuple(i for i, v in enumerate(self.instance.args) if self._has_value(v))
        for i, param in enumerate(function.params):
            self.texts[param.name] = self.names.fresh(param.name) if i in params else NONE
        identifiers = tuple(self.texts[function.params[i].name] for i in params)
        self._ends([function.params[i].name for i in params])
        for index, statement in enumerate(function.body):
            if isinstance(statement, (Apply, Call)):
                yield from self._statement(index, statement)
        results = tuple(
            i for i, w in enumerate(self.rho.returned) if self._has_value(w) or (self.is_entry and self._known(w))
        )
        streams = tuple(self._stream(function.returned[i]) for i in results)
        self._return([function.returned[i] for i in results], [self.rho.returned[i] for i in results])
        written = self._shared(function.name, identifiers)
        overwritten = tuple(self.overwritten)
        return EmittedFunction(written.name, params, results, self.communicates, identifiers, overwritten, streams)

    def _stream(self, arg: Arg) -> str:
        return self.coming.get(arg, "") if isinstance(arg, str) and not self.is_entry else ""

    def _shared(self, origin: str, identifiers: Sequence[str]) -> FunctionSource:
        """An earlier function with the same text, or else a new one."""
        emission = self.rank.emission
        rows = self._code()
        key = (origin, ", ".join(identifiers), *(row.text for row in rows))
        if key not in emission.texts:
            stem = origin.partition(".rank")[0]
            hint = f"{stem}_rank_{emission.rank(self.rank.device)}" if self.is_entry or ".rank" in origin else stem
            name = emission.names.fresh(hint)
            head = CodeLine(f"def {name}({', '.join(identifiers)}):")
            written = FunctionSource(name, origin, (head, *rows), self.communicates)
            emission.texts[key] = written
            emission.functions.append(written)
        return emission.texts[key]

    def _has_value(self, v: Value) -> bool:
        """Whether this rank holds a value that is computed at run time, in a variable."""
        if v is None or self._known(v):
            return False
        where = types.devices(type_of(v))
        return not where or self.rank.device in where

    def _known(self, v: Value) -> bool:
        return isinstance(v, (Dense, External, Literal))

    def _statement(self, index: int, statement: Apply | Call) -> Deep[None]:
        vs = self.rho(statement.args)
        wanted = [name for name in statement.results if name != DISCARD and not self._known(self.rho[name])]
        if isinstance(statement, Apply) and not wanted and OPS[statement.op].communication is None:
            return  # a constant, or dead code
        self.overwrites.clear()
        coming = self._coming(statement.args) if _packs(statement) else ""
        if not statement.stream and not coming:
            self._wait(statement.args)
        try:
            is_op = isinstance(statement, Apply)
            lines = self._apply(index, statement, vs) if is_op else (yield from self._call(index, statement, vs))
        except (Unlowerable, Reject) as refusal:
            reason = refusal if isinstance(refusal, Unlowerable) else Unlowerable(refusal.message)
            self.rank.emission.refuse(self.instance.function.name, statement, reason)
            lines = []
        for name in statement.results:
            self.texts.setdefault(name, NONE)
        if coming and isinstance(statement, Apply) and statement.op == "UnpackTuple":
            parts = self.rank.emission.kernel("parts")
            lines = [replace(line, text=f"{parts}({line.text}, {len(statement.results)})") for line in lines]
        self._assign(statement, lines)
        if not statement.stream:
            self._ends([name for name in statement.results if name not in self.coming], statement)
        if coming:
            self.coming.update((name, coming) for name in statement.results if name != DISCARD)
        self._drop(index, statement)

    def _coming(self, args: Sequence[Arg]) -> str:
        """A stream that still produces one of these values; empty if none does."""
        return next((self.coming[name] for name in names(args) if name in self.coming), "")

    def _ends(self, made: Sequence[str], statement: Apply | Call | None = None) -> None:
        """Note where a statement on the compute stream ends, or where the function begins."""
        if not self.has_streams:
            return
        if statement is not None and _packs(statement):
            given = dict.fromkeys(moment for name in names(statement.args) for moment in self.ready.get(name, ()))
            self.ready.update(dict.fromkeys(made, tuple(given)))
            return
        moment = RecordedEvent()
        self.rows.append(moment)
        self.ready.update(dict.fromkeys(made, (moment,)))
        for name in [*made, *(names(statement.args) if statement is not None else ())]:
            if name in self.sharing.trees:
                self.last_used.update(dict.fromkeys(self._roots(name), moment))

    def _apply(self, index: int, op: Apply, vs: tuple[Value, ...]) -> list[Assignment]:
        definition = OPS[op.op]
        raw = self.rank.domain.answer(op, vs)
        ws = [type_of(w if name == DISCARD else self.rho[name]) for name, w in zip(op.results, raw, strict=True)]
        if definition.communication is not None:
            self.communicates = True

        def overwritable(operand: int) -> bool:
            if not self.sharing.overwritable(index, operand):
                return False
            arg = op.args[operand]
            if isinstance(arg, str):
                self.overwrites.append(arg)
            if self.is_entry and isinstance(arg, str):
                for name, _ in self._roots(arg):
                    if any(p.name == name for p in self.instance.function.params):
                        self.overwritten[name] = None
            return True

        texts = [self._text(arg) for arg in op.args]
        return lowered(op, texts, vs, ws, self.rank.emission, self.rank.device, overwritable)

    def _roots(self, name: str) -> list[tuple[str, tuple[int, ...]]]:
        return [root for leaf in leaves(self.sharing.trees[name]) for root in leaf.roots]

    def _call(self, index: int, call: Call, vs: tuple[Value, ...]) -> Deep[list[Assignment]]:
        found: EmittedFunction = yield self.rank.of(callee(self.rank.domain, self.instance, call))
        self.communicates |= found.communicates
        texts = [self._passed(call.args[i], vs[i]) for i in found.params]
        if not call.stream:  # other streams may not have read their arguments when the call returns
            texts = self._donated(index, call, [call.args[i] for i in found.params], texts)
        given = zip((call.results[i] for i in found.results), found.streams, strict=True)
        self.coming.update((name, stream) for name, stream in given if stream and name != DISCARD)
        args = ", ".join(texts)
        return [Assignment(found.results, f"{found.name}({args})", unpacks=len(found.results) > 1)]

    def _donated(self, index: int, call: Call, args: Sequence[Arg], texts: Sequence[str]) -> list[str]:
        """The arguments of a call; those whose last use this is are donated: only the callee holds a reference to them.

        They are passed with `list.pop`, because a local variable would keep a tensor alive until the callee returns.
        """
        mentioned = list(names(call.args))
        own = self._own_params()
        gone = [
            arg
            for arg in args
            if isinstance(arg, str) and self.last.get(arg) == index and mentioned.count(arg) == 1 and arg not in own
        ]
        variables = {self.texts[arg]: arg for arg in gone if self.texts.get(arg, NONE) != NONE}
        if not variables:
            return list(texts)
        if not self.donated:
            self.donated = self.names.fresh("donated")
        self.rows.append(CodeLine(f"{self.donated} = [{', '.join(variables)}]"))
        self.rows.append(CodeLine(f"del {', '.join(variables)}"))
        for arg in variables.values():
            self.texts[arg] = NONE
        return [f"{self.donated}.pop(0)" if text in variables else text for text in texts]

    def _own_params(self) -> frozenset[str]:
        """Parameters that are not deleted: the caller owns those of the entry."""
        return frozenset(p.name for p in self.instance.function.params) if self.is_entry else frozenset()

    def _passed(self, arg: Arg, v: Value) -> str:
        """The expression of an argument of a call, constants included."""
        if isinstance(arg, tuple):
            parts = v if isinstance(v, tuple) else (None,) * len(arg)
            return items([self._passed(a, w) for a, w in zip(arg, parts, strict=True)])
        return self._value(arg, v)

    def _value(self, arg: Arg, v: Value) -> str:
        """The expression of a value as a tensor."""
        if isinstance(v, Literal):
            v = dense(v.value)
        if isinstance(v, (Dense, External)):
            if isinstance(v, Dense) and v.symbolic:
                raise Unlowerable("a size is not known when the program is lowered")
            return self.rank.emission.constant(v)
        return str(self._text(arg))

    def _text(self, arg: Arg) -> object:
        if isinstance(arg, tuple):
            return [self._text(item) for item in arg]
        return self.texts.get(arg, NONE) if isinstance(arg, str) else NONE

    def _assign(self, statement: Apply | Call, lines: Sequence[Assignment]) -> None:
        """Append the lines of a statement, with its text as a comment on the first."""
        shown: Statement | None = statement
        parts = self.names.fresh("parts") if any("{parts}" in line.text for line in lines) else ""
        for line in lines:
            targets = [self._target(statement.results[i]) for i in line.targets]
            text = self._aside(statement, line, targets) if statement.stream else line.text
            text = text.replace("{parts}", parts) if parts else text
            if targets and (line.unpacks or len(targets) > 1):
                comma = "," if len(targets) == 1 else ""
                text = f"{', '.join(targets)}{comma} = {text}"
            elif targets and targets != ["_"]:
                text = f"{targets[0]} = {text}"
            elif targets and isinstance(statement, Apply) and OPS[statement.op].communication is None:
                continue
            self.rows.append(CodeLine(text, shown))
            shown = None
        if parts:
            self.rows.append(CodeLine(f"del {parts}"))

    def _aside(self, statement: Apply | Call, line: Assignment, targets: Sequence[str]) -> str:
        """The expression of a line that runs on a side stream, which produces its results later."""
        if line.text == NONE:
            return line.text
        self.rank.aside = self.communicates = True
        kernel = self.rank.emission.kernel
        assigned, is_parts, text = line.text.rpartition("{parts} = ")
        known = (self.texts.get(name, NONE) for name in names(statement.args))
        taken = [v for v in dict.fromkeys(known) if v != NONE and re.search(rf"\b{re.escape(v)}\b", text)]
        taking = f"lambda {', '.join(taken)}: {text}" if taken else f"lambda: {text}"
        events = items([self._event(moment) for moment in self._needed(statement, taken)])
        begun = f"{kernel('on')}({', '.join([json.dumps(statement.stream), events, taking, *taken])})"
        if is_parts:
            return f"{assigned}{is_parts}{kernel('wait')}({begun})"
        if "{parts}" in text:
            return line.text
        self.coming.update((statement.results[i], statement.stream) for i in line.targets if statement.results[i])
        return f"{kernel('parts')}({begun}, {len(targets)})" if len(targets) > 1 else begun

    def _needed(self, statement: Apply | Call, taken: Sequence[str]) -> list[RecordedEvent]:
        """The events of the compute stream that a statement on a side stream waits for.

        Its operands must be there; where it overwrites one, no statement may still use that memory.
        """
        found: dict[RecordedEvent, None] = {}
        for name in names(statement.args):
            text = self.texts.get(name, NONE)
            if name in self.coming and text not in (NONE, *taken):
                self.rows.append(moment := RecordedEvent(text))
                found[moment] = None
            elif text != NONE:
                found.update(dict.fromkeys(self.ready.get(name, ())))
        for name in self.overwrites:
            found.update((self.last_used[root], None) for root in self._roots(name) if root in self.last_used)
        return list(found)

    def _event(self, moment: RecordedEvent) -> str:
        if not moment.name:
            self.rank.emission.kernel("here")
            moment.name = self.names.fresh("made")
        return moment.name

    def _code(self) -> list[CodeLine]:
        """The lines, with events recorded where something waits for them."""
        found: list[CodeLine] = []
        for row in self.rows:
            if isinstance(row, CodeLine):
                found.append(row)
            elif row.name:
                found.append(CodeLine(f"{row.name} = here({row.coming})"))
        return found

    def _wait(self, args: Sequence[Arg]) -> None:
        """Make the compute stream wait for the values of other streams that it is about to use."""
        for name in dict.fromkeys(names(args)):
            if self.coming.pop(name, ""):
                text = self.texts[name]
                if self.has_streams:
                    self.rows.append(moment := RecordedEvent(text))
                    self.ready[name] = (moment,)
                self.rows.append(CodeLine(f"{text} = {self.rank.emission.kernel('wait')}({text})"))

    def _target(self, name: str) -> str:
        if name == DISCARD:
            return "_"
        if self._known(self.rho[name]):
            return "_"
        self.texts[name] = self.names.fresh(name)
        return self.texts[name]

    def _drop(self, index: int, statement: Apply | Call) -> None:
        """Delete the variables whose last use this is, to free their memory. The caller owns the entry's parameters."""
        params = self._own_params()
        mentioned = dict.fromkeys([*names(statement.args), *statement.results])
        gone = [n for n in mentioned if n != DISCARD and self.last.get(n) == index and n not in params]
        variables = [self.texts[n] for n in gone if self.texts.get(n, NONE) != NONE]
        if variables:
            self.rows.append(CodeLine(f"del {', '.join(variables)}"))

    def _return(self, args: Sequence[Arg], vs: Sequence[Value]) -> None:
        self._wait(args if self.is_entry else [arg for arg in args if not isinstance(arg, str)])
        if self.is_entry and self.rank.aside:
            self.rows.append(CodeLine(f"{self.rank.emission.kernel('settle')}()"))
        try:
            texts = [self._passed(arg, v) for arg, v in zip(args, vs, strict=True)]
        except Unlowerable as refusal:
            self.rank.emission.refuse(self.instance.function.name, Return(tuple(args)), refusal)
            return
        result = texts[0] if len(texts) == 1 and not self.is_entry else items(texts)
        self.rows.append(CodeLine(f"return {result}" if texts or self.is_entry else "return None"))
