"""From the programs of ranks to the text of one Python module: straight-line torch, a line per statement.

A function is written once per rank and per instance (its sizes are numbers in the text); instances whose texts are the
same share one. Values are dropped after their last use. Constants, process groups and the device are the module's
globals, filled before anything runs. Knows no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from distir.analysis import Analysis, Checker, Instance
from distir.analysis.liveness import last_uses
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
from distir.lower.naming import FUNCTION, Names
from distir.lower.projection import callee
from distir.lower.sharing import Sharing, SharingMap, leaves
from distir.lower.statements import NONE, Line, lowered
from distir.ops import OPS, Reject, Value, dense, type_of
from distir.ops.torch_form import Unlowerable, items

INDENT = "    "


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a function. `statement`: which statement of the DistIR function it is, if it is one."""

    text: str
    statement: Statement | None = None


@dataclass(frozen=True, slots=True)
class Emitted:
    """A function in torch. `params`, `results`: which of the DistIR function's it has."""

    name: str
    params: tuple[int, ...]
    results: tuple[int, ...]
    communicates: bool
    identifiers: tuple[str, ...] = ()
    overwritten: tuple[str, ...] = ()
    """Parameters that are overwritten."""


@dataclass(frozen=True, slots=True)
class Written:
    """The text of a function."""

    name: str
    origin: str
    rows: tuple[Row, ...]
    communicates: bool


@dataclass(frozen=True, slots=True)
class Problem:
    """A statement of a rank's program that cannot be written."""

    function: str
    statement: Statement
    refusal: Unlowerable


@dataclass
class Emission:
    """Everything that one module of Python will hold. `ranks`: the devices, in the order of torch's ranks."""

    ranks: tuple[int, ...]
    kernels: dict[str, None] = field(default_factory=dict[str, None])
    constants: dict[Dense | External, int] = field(default_factory=dict["Dense | External", int])
    groups: set[tuple[int, ...]] = field(default_factory=set[tuple[int, ...]])
    functions: list[Written] = field(default_factory=list[Written])
    problems: list[Problem] = field(default_factory=list["Problem"])
    texts: dict[tuple[str, ...], Written] = field(default_factory=dict["tuple[str, ...]", Written])
    reserved: frozenset[str] = frozenset()
    """The names of the templates' functions."""

    def __post_init__(self) -> None:
        self.names = Names(self.reserved, prefix=FUNCTION)

    def entry(self, analysis: Analysis, function: Function, args: Sequence[Value], device: int) -> Emitted:
        """Write the program of one rank. What cannot be written is added to `problems`."""
        domain = analysis.domain
        instance = domain.entered(function, tuple(args))
        return finish(_Rank(self, domain, device).of(instance, is_entry=True))

    def kernel(self, name: str) -> str:
        """The name of a function of the template `kernels`, which is written into the program."""
        self.kernels[name] = None
        return name

    def constant(self, value: Dense | External) -> str:
        """An expression for a tensor that is stored beside the program."""
        return f"C[{self.constants.setdefault(value, len(self.constants))}]"

    def rank(self, device: int) -> int:
        """The rank of a device, counted from 0."""
        return self.ranks.index(device)

    def group(self, devices: Sequence[int]) -> str:
        """An expression for the process group of some devices."""
        members = tuple(sorted(map(self.rank, devices)))
        self.groups.add(members)
        return f"GROUP[{', '.join(map(str, members))}]"

    def refuse(self, function: str, statement: Statement, refusal: Unlowerable) -> None:
        """Note what cannot be written."""
        self.problems.append(Problem(function, statement, refusal))


@dataclass
class _Rank:
    """Writes the functions of one rank."""

    emission: Emission
    domain: Checker
    device: int
    done: dict[int, Emitted] = field(default_factory=dict[int, Emitted])

    def __post_init__(self) -> None:
        self.sharing = SharingMap(self.domain)

    def of(self, instance: Instance, is_entry: bool = False) -> Deep[Emitted]:
        if id(instance) not in self.done:
            self.done[id(instance)] = yield from _Body(self, instance, is_entry).emitted()
        return self.done[id(instance)]


class _Body:
    """One function as it is written."""

    def __init__(self, rank: _Rank, instance: Instance, is_entry: bool) -> None:
        self.rank, self.instance, self.is_entry = rank, instance, is_entry
        self.rho = instance.state
        self.sharing: Sharing = rank.sharing.of(instance, own_params=is_entry)
        self.names = Names(rank.emission.reserved)
        self.texts: dict[str, str] = {}
        """By value: its expression. Values that are known have none."""
        self.rows: list[Row] = []
        self.communicates = False
        self.overwritten: dict[str, None] = {}
        self.moved = ""
        """The variable that hands arguments over, if there is one."""
        self.last = last_uses(instance.function)

    def emitted(self) -> Deep[Emitted]:
        function = self.instance.function
        params = tuple(i for i, v in enumerate(self.instance.args) if self._has_value(v))
        for i, param in enumerate(function.params):
            self.texts[param.name] = self.names.fresh(param.name) if i in params else NONE
        identifiers = tuple(self.texts[function.params[i].name] for i in params)
        for index, statement in enumerate(function.body):
            if isinstance(statement, (Apply, Call)):
                yield from self._statement(index, statement)
        results = tuple(
            i for i, w in enumerate(self.rho.returned) if self._has_value(w) or (self.is_entry and self._known(w))
        )
        self._return([function.returned[i] for i in results], [self.rho.returned[i] for i in results])
        written = self._shared(function.name, identifiers)
        return Emitted(written.name, params, results, self.communicates, identifiers, tuple(self.overwritten))

    def _shared(self, origin: str, identifiers: Sequence[str]) -> Written:
        """The function under the name of an earlier one with the same text, or a name of its own."""
        emission = self.rank.emission
        key = (origin, ", ".join(identifiers), *(row.text for row in self.rows))
        if key not in emission.texts:
            stem = origin.partition(".rank")[0]
            hint = f"{stem}_rank_{emission.rank(self.rank.device)}" if self.is_entry or ".rank" in origin else stem
            name = emission.names.fresh(hint)
            head = Row(f"def {name}({', '.join(identifiers)}):")
            written = Written(name, origin, (head, *self.rows), self.communicates)
            emission.texts[key] = written
            emission.functions.append(written)
        return emission.texts[key]

    def _has_value(self, v: Value) -> bool:
        """Whether this rank holds a value that is not known before: a variable, in the program."""
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
            return  # known before the program runs, or of no use
        try:
            is_op = isinstance(statement, Apply)
            lines = self._apply(index, statement, vs) if is_op else (yield from self._call(index, statement, vs))
        except (Unlowerable, Reject) as refusal:
            told = refusal if isinstance(refusal, Unlowerable) else Unlowerable(refusal.message)
            self.rank.emission.refuse(self.instance.function.name, statement, told)
            lines = []
        for name in statement.results:
            self.texts.setdefault(name, NONE)
        self._assign(statement, lines)
        self._drop(index, statement)

    def _apply(self, index: int, op: Apply, vs: tuple[Value, ...]) -> list[Line]:
        definition = OPS[op.op]
        raw = self.rank.domain.answer(op, vs)
        ws = [type_of(w if name == DISCARD else self.rho[name]) for name, w in zip(op.results, raw, strict=True)]
        if definition.communication is not None:
            self.communicates = True

        def overwritable(operand: int) -> bool:
            if not self.sharing.overwritable(index, operand):
                return False
            arg = op.args[operand]
            if self.is_entry and isinstance(arg, str):
                for name, _ in self._roots(arg):
                    if any(p.name == name for p in self.instance.function.params):
                        self.overwritten[name] = None
            return True

        texts = [self._text(arg) for arg in op.args]
        return lowered(op, texts, vs, ws, self.rank.emission, self.rank.device, overwritable)

    def _roots(self, name: str) -> list[tuple[str, tuple[int, ...]]]:
        return [root for leaf in leaves(self.sharing.trees[name]) for root in leaf.roots]

    def _call(self, index: int, call: Call, vs: tuple[Value, ...]) -> Deep[list[Line]]:
        found = yield self.rank.of(callee(self.rank.domain, self.instance, call))
        self.communicates |= found.communicates
        texts = [self._passed(call.args[i], vs[i]) for i in found.params]
        args = ", ".join(self._moved(index, call, [call.args[i] for i in found.params], texts))
        return [Line(found.results, f"{found.name}({args})", unpacks=len(found.results) > 1)]

    def _moved(self, index: int, call: Call, args: Sequence[Arg], texts: Sequence[str]) -> list[str]:
        """The arguments of a call, those that are needed no more handed over: the callee alone holds them then.

        An argument that a list gives up goes to the callee without a trace here; a variable would keep it until the
        callee returns.
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
        if not self.moved:
            self.moved = self.names.fresh("moved")
        self.rows.append(Row(f"{self.moved} = [{', '.join(variables)}]"))
        self.rows.append(Row(f"del {', '.join(variables)}"))
        for arg in variables.values():
            self.texts[arg] = NONE
        return [f"{self.moved}.pop(0)" if text in variables else text for text in texts]

    def _own_params(self) -> frozenset[str]:
        """Parameters that are not dropped: those of the entry are the caller's."""
        return frozenset(p.name for p in self.instance.function.params) if self.is_entry else frozenset()

    def _passed(self, arg: Arg, v: Value) -> str:
        """An argument of a call, known values too."""
        if isinstance(arg, tuple):
            parts = v if isinstance(v, tuple) else (None,) * len(arg)
            return items([self._passed(a, w) for a, w in zip(arg, parts, strict=True)])
        return self._value(arg, v)

    def _value(self, arg: Arg, v: Value) -> str:
        """A value as a tensor."""
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

    def _assign(self, statement: Apply | Call, lines: Sequence[Line]) -> None:
        """Append the lines of a statement, its text as a comment on the first."""
        shown: Statement | None = statement
        parts = self.names.fresh("parts") if any("{parts}" in line.text for line in lines) else ""
        for line in lines:
            targets = [self._target(statement.results[i]) for i in line.targets]
            text = line.text.replace("{parts}", parts) if parts else line.text
            if targets and (line.unpacks or len(targets) > 1):
                comma = "," if len(targets) == 1 else ""
                text = f"{', '.join(targets)}{comma} = {text}"
            elif targets and targets != ["_"]:
                text = f"{targets[0]} = {text}"
            elif targets and isinstance(statement, Apply) and OPS[statement.op].communication is None:
                continue
            self.rows.append(Row(text, shown))
            shown = None
        if parts:
            self.rows.append(Row(f"del {parts}"))

    def _target(self, name: str) -> str:
        if name == DISCARD:
            return "_"
        if self._known(self.rho[name]):
            return "_"
        self.texts[name] = self.names.fresh(name)
        return self.texts[name]

    def _drop(self, index: int, statement: Apply | Call) -> None:
        """Drop what is used no more: a variable would keep its memory. The entry's parameters are the caller's."""
        params = self._own_params()
        mentioned = dict.fromkeys([*names(statement.args), *statement.results])
        gone = [n for n in mentioned if n != DISCARD and self.last.get(n) == index and n not in params]
        variables = [self.texts[n] for n in gone if self.texts.get(n, NONE) != NONE]
        if variables:
            self.rows.append(Row(f"del {', '.join(variables)}"))

    def _return(self, args: Sequence[Arg], vs: Sequence[Value]) -> None:
        try:
            texts = [self._passed(arg, v) for arg, v in zip(args, vs, strict=True)]
        except Unlowerable as refusal:
            self.rank.emission.refuse(self.instance.function.name, Return(tuple(args)), refusal)
            return
        result = texts[0] if len(texts) == 1 and not self.is_entry else items(texts)
        self.rows.append(Row(f"return {result}" if texts or self.is_entry else "return None"))
