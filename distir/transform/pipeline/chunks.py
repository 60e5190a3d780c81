"""Sequences cut into chunks that follow each other through a pipeline (Sun et al., Seq1F1B, arXiv:2406.03488).

A chunk is a device's part of a sequence in context parallelism, but chunks run in turn on one device: so the program is
that of `cp` with its devices folded into one. Collectives become values passed between chunks: a chunk's queries attend
to keys and values of the chunks up to it; in the backward pass, from the last chunk to the first, gradients of keys,
values and weights are accumulated.

Data flow determines a statement's chunk: forward that of its latest operand, backward that of its earliest. So a
statement that depends on all chunks runs with the last one, and every order is valid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.ir import DISCARD, Apply, Arg, Attributes, Call, Function, Module, Return, Site, Statement, names, types
from distir.ir.builder import FunctionBuilder
from distir.ir.per_thread import kept_per_thread
from distir.ir.rewrite import stating, with_operands
from distir.transform.common_subexpressions import cse
from distir.transform.dead_code import live
from distir.transform.entry import entry_of
from distir.transform.inline import inline
from distir.transform.pipeline.microbatches import is_sum
from distir.transform.pipeline.passes import Pass
from distir.transform.pipeline.placement import Place
from distir.transform.pipeline.reading import Phase, Reading, Work
from distir.transform.pipeline.stages import Stages
from distir.transform.sharding.context import cp


@dataclass(frozen=True)
class Chunks:
    """The chunks of a program whose sequences are cut."""

    count: int
    inputs: Mapping[str, int]
    """By part of an input: its chunk."""
    totals: Mapping[str, tuple[str, ...]]
    """By sum over the chunks: each chunk's term."""
    layers: Mapping[str, int]
    """By weight, and by value that a layer makes of its weights alone: the statement of the uncut entry function that
    uses it first, mostly a layer's call."""


ATTENTION = frozenset({"Attention", "AttentionGrad"})


@kept_per_thread(8)
def in_chunks(module: Module, count: int) -> tuple[Module, Chunks]:
    """The entry function with its sequences in `count` chunks.

    Raises ProgramError where attention is not causal, or the sequence does not divide.
    """
    entry = entry_of(module)
    for function in module:
        for index, statement in enumerate(function.body):
            if isinstance(statement, Apply) and statement.op in ATTENTION and not statement.attrs.get("is_causal"):
                message = "this attention is not causal: the first chunk of a sequence would wait for the last one"
                raise ProgramError([Diagnostic(codes.BAD_SPLIT, Site(function.name, index), message)])
    spread = inline(cp(module, count, zigzag=False))
    folding = _Folding(spread, entry.name, count)
    flat = replace(entry, body=tuple(folding.body()), result_types=entry.result_types)
    distinct = next(iter(cse(Module([flat]))))
    body = live([s for s in distinct.body if not isinstance(s, Return)], names(distinct.returned))
    cut = Module([replace(distinct, body=(*body, distinct.body[-1]))])
    return cut, Chunks(count, folding.inputs, folding.totals, _layers(entry, body))


class _Folding:
    """Folds the functions of several devices onto one."""

    def __init__(self, module: Module, name: str, count: int) -> None:
        self.module, self.name, self.count = module, name, count
        self.out = FunctionBuilder(name)
        for param in module.functions[f"{name}.scatter"].params:
            self.out.fresh(param.name)
        self.called: dict[str, Arg] = {}
        """By value of the current function: its name in the new one."""
        self.inputs: dict[str, int] = {}
        self.totals: dict[str, tuple[str, ...]] = {}
        self.whole: dict[Arg, tuple[Arg, int]] = {}
        """By part of an input: the input and the axis along which it is cut."""
        self.cuts: dict[Arg, Apply] = {}
        """By part of an input that has no use so far: the statement that cuts the input."""

    def body(self) -> Iterator[Statement]:
        """Cuts of the inputs, the program, and concatenation of its results."""
        scatter, main, gather = (self.module.functions[self.name + end] for end in (".scatter", "", ".gather"))
        given: Sequence[Arg] = [p.name for p in scatter.params]
        for function in (scatter, main, gather):
            self.called = dict(zip((p.name for p in function.params), given, strict=True))
            for statement in function.body:
                if isinstance(statement, Apply):
                    facts = replace(statement.facts, of=str(self._arg(statement.facts.of)))
                    named = replace(statement, facts=facts)
                    yield from stating(facts, [*self._ahead(named), *self._folded(named)])
            given = [self._arg(arg) for arg in function.returned]
        yield Return(tuple(given))

    def _ahead(self, statement: Apply) -> Iterator[Statement]:
        """The cuts of a statement's inputs, placed before it, so that each stage cuts its own inputs."""
        for arg in map(self._arg, names(statement.args)):
            if arg in self.cuts:
                cut = self.cuts[arg]
                for part in cut.results:
                    self.cuts.pop(part)
                yield cut

    def _arg(self, arg: Arg) -> Arg:
        if isinstance(arg, str):
            return self.called.get(arg, arg)
        return tuple(map(self._arg, arg)) if isinstance(arg, tuple) else arg

    def _new(self, hint: Arg, op: str, *args: Arg, **attrs: int) -> tuple[str, Statement]:
        name = self.out.fresh(hint if isinstance(hint, str) else "chunk")
        return name, Apply((name,), op, args, Attributes(attrs))

    def _folded(self, statement: Apply) -> Iterator[Statement]:
        args = [self._arg(arg) for arg in statement.args]
        match statement.op:
            case "Send" | "MPIBroadcast":
                self.called.update(dict.fromkeys(statement.results, args[0]))
            case "MPIScatter":
                axis = statement.attrs["axis"]
                assert isinstance(axis, int)
                parts = tuple(self.out.fresh(name) for name in statement.results)
                self.inputs.update((name, chunk) for chunk, name in enumerate(parts))
                cut = Apply(parts, "Split", (args[0],), Attributes({"axis": axis, "num_outputs": self.count}))
                self.cuts.update(dict.fromkeys(parts, cut))
                self.whole.update(dict.fromkeys(parts, (args[0], axis)))
                self.called.update(zip(statement.results, parts, strict=True))
            case "MPIAllreduce":
                total, adding = self._total(args)
                yield from adding
                if all(isinstance(arg, str) for arg in (total, *args)):
                    self.totals[str(total)] = tuple(map(str, args))
                self.called.update(dict.fromkeys(statement.results, total))
            case "MPIAllgather" | "MPIGather":
                yield from self._gathered(statement, args)
            case "MPIReduceScatter":
                yield from self._scattered(statement, args)
            case "Positions" if args[0] in self.whole and self.whole[args[0]][1] != statement.attrs.get("axis", 0):
                yield from self._written(statement, [self.whole[args[0]][0]])
            case op if op.startswith("MPI"):
                raise AssertionError(f"`cp` by all-gather writes no {op}")
            case _:
                yield from self._written(statement, args)

    def _written(self, statement: Apply, args: Sequence[Arg]) -> Iterator[Statement]:
        made = tuple(DISCARD if n == DISCARD else self.out.fresh(n) for n in statement.results)
        self.called.update((n, m) for n, m in zip(statement.results, made, strict=True) if n != DISCARD)
        yield replace(statement, results=made, args=tuple(args), claims=())

    def _total(self, terms: Sequence[Arg]) -> tuple[Arg, list[Statement]]:
        """The sum of the chunks' terms in the order of backward passes, last chunk first: so few terms are alive."""
        total, adding = terms[-1], list[Statement]()
        for term in reversed(terms[:-1]):
            total, statement = self._new(term, "Sum", total, term)
            adding.append(statement)
        return total, adding

    def _gathered(self, statement: Apply, args: Sequence[Arg]) -> Iterator[Statement]:
        """The gathered value of each chunk: keys and values up to its own; all parts of anything else."""
        axis = statement.attrs["axis"]
        assert isinstance(axis, int)
        behind = all(self._attended(name) for name in statement.results)
        cut = {self.whole.get(arg) for arg in args}
        if not behind and len(cut) == 1 and (of := cut.pop()) is not None and of[1] == axis:
            self.called.update(dict.fromkeys(statement.results, of[0]))
            return
        for number, name in enumerate(statement.results, 1):
            upto = args[:number] if behind else args
            if len(upto) == 1:
                self.called[name] = upto[0]
                continue
            self.called[name], joined = self._new(name, "Concat", *upto, axis=axis)
            yield joined

    def _attended(self, name: str) -> bool:
        main = self.module.functions[self.name]
        users = [s for s in main.body if name in names(getattr(s, "args", ()))]
        return bool(users) and all(
            isinstance(s, Apply) and s.op in ATTENTION and name in s.args[1 : 3 + (s.op == "AttentionGrad")]
            for s in users
        )

    def _scattered(self, statement: Apply, args: Sequence[Arg]) -> Iterator[Statement]:
        """Each chunk's part of the gradients, from its own queries and those of later chunks."""
        axis = statement.attrs["axis"]
        assert isinstance(axis, int)
        parts: list[list[Arg]] = [[] for _ in args]
        for number, arg in enumerate(args, 1):
            made: tuple[Arg, ...] = (arg,)
            if number > 1:
                cut = tuple(self.out.fresh(f"{arg}_part") for _ in range(number))
                yield Apply(cut, "Split", (arg,), Attributes({"axis": axis, "num_outputs": number}))
                made = cut
            for chunk, part in enumerate(made):
                parts[chunk].append(part)
        for name, terms in zip(statement.results, parts, strict=True):
            self.called[name], adding = self._total(terms)
            yield from adding


def _layers(entry: Function, body: Sequence[Statement]) -> Mapping[str, int]:
    """`body`: that of the cut entry function, whose microbatches may use a weight as its layer prepares it."""
    given = {p.name for p in entry.params if "batch" not in p.roles and types.devices(p.type)}
    found: dict[str, int] = {}
    for number, statement in enumerate(entry.body):
        for name in given.intersection(names(getattr(statement, "args", ()))):
            found.setdefault(name, number)
    of_calls = {name: number for name, number in found.items() if isinstance(entry.body[number], Call)}
    for statement in body:
        numbers = {of_calls.get(name) for name in names(getattr(statement, "args", ()))}
        if isinstance(statement, Apply) and len(numbers) == 1 and (number := numbers.pop()) is not None:
            of_calls.update(dict.fromkeys(statement.results, number))
    return found | of_calls


def by_chunk(reading: Reading, stages: Stages, chunks: Chunks) -> Stages:
    """The stages with each pass cut into chunks: those of stage `s` are numbered from `s * chunks.count` on.

    Forward, a statement belongs to the chunk of its latest operand, backward to that of its earliest; a statement
    without such operands, on sizes alone, to the chunk that first uses it.
    """
    count = chunks.count
    back = {i for (_, kind), numbers in stages.passes.items() if kind is Pass.BACKWARD for i in numbers}
    stage_of = {i: stage for (stage, _), numbers in stages.passes.items() for i in numbers}
    chunk_of, made_back, found = dict(chunks.inputs), set[str](), dict[int, int]()
    for number in sorted(stage_of):
        statement = reading.statements[number][0]
        given = [n for n in names(statement.args) if n in chunk_of]
        own = [chunk_of[n] for n in given if n in made_back]
        if given:
            found[number] = min(own) if own else max(chunk_of[n] for n in given)
            made = [n for n in statement.results if n != DISCARD]
            chunk_of |= {n: chunk_of.get(n, found[number]) for n in made}
            made_back.update(made if number in back else ())
    first: dict[str, int] = {}
    for number in sorted(stage_of, reverse=True):
        statement, is_back = reading.statements[number][0], number in back
        if number not in found:
            turn = min((first[n] for n in statement.results if n in first), default=count)
            found[number] = max(0, min(count - 1, 2 * count - 1 - turn if is_back else turn))
        turn = 2 * count - 1 - found[number] if is_back else found[number]
        for name in names(statement.args):
            first[name] = min(turn, first.get(name, turn))
    passes: dict[tuple[int, Pass], list[int]] = {}
    for number in sorted(stage_of):
        kind = Pass.BACKWARD if number in back else Pass.FORWARD
        passes.setdefault((stage_of[number] * count + found[number], kind), []).append(number)
    return replace(stages, count=stages.count * count, passes=passes)


def with_joint_sums(reading: Reading, bodies: Mapping[Place, Sequence[Work]], chunks: Chunks) -> Reading:
    """The reading in which the chunks of a stage add to one sum in turn, not to separate sums."""
    where = {name: place for place, body in bodies.items() for s in body for name in s.results}
    joint, called = dict[str, str](), dict[str, Arg]()
    for total, terms in chunks.totals.items():
        places = [where[name] for name in terms if name in where]
        alike = len({(stage // chunks.count, kind) for stage, kind in places}) == 1
        if alike and len(set(places)) == len(terms) and all(is_sum(reading.values[n].shares) for n in terms):
            joint.update(dict.fromkeys(terms, terms[0]))
            called[total] = terms[0]
    wanted = {called.get(n, n) for n in names(reading.entry.returned)}
    kept: list[tuple[Work, Phase]] = []
    for statement, phase in reversed(reading.statements):
        if phase is not Phase.AFTER or wanted.intersection(statement.results):
            statement = with_operands(statement, called)
            wanted.update(names(statement.args))
            kept.append((statement, phase))
    returned = tuple(called.get(arg, arg) if isinstance(arg, str) else arg for arg in reading.entry.returned)
    entry = replace(reading.entry, body=(*reading.entry.body[:-1], Return(returned)))
    return replace(reading, entry=entry, statements=kept[::-1], joint=joint)
