"""Groups of statements as kernels: one function for each distinct form, named after its ops, and its calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from distir.ir import (
    DISCARD,
    UNKNOWN,
    Apply,
    Arg,
    Call,
    Function,
    Literal,
    Param,
    Return,
    Statement,
    Type,
    names,
    operands,
    results,
)
from distir.ir.builder import FunctionBuilder
from distir.ir.rewrite import common, facts_of
from distir.ops.loops import MOVES, SHAPES
from distir.transform.fusion.groups import Grouping, KernelGroup

MOST_NAMED = 5
"""How many ops a kernel's name lists."""

SHORT = {
    "CastGradient": "cast",
    "Optimizer": "sgd",
    "RotaryEmbedding": "rotary",
    "SoftmaxCrossEntropyLoss": "cross_entropy",
    "Sum": "add",
}


@dataclass
class Kernels:
    """The kernels of a module, each form once. `taken` knows the names of all functions."""

    taken: FunctionBuilder
    known: dict[object, Function] = field(default_factory=dict[object, Function])

    def call(self, grouping: Grouping, group: KernelGroup) -> Call:
        """A group as the call of a kernel."""
        body = [grouping.body[i] for i in sorted(group.members)]
        taken, given = grouping.outside(group.members)
        key = _form(body, taken, given)
        kernel = self.known.get(key)
        if kernel is None:
            kernel = self.known[key] = _kernel(self.taken.fresh(name_of(body)), body, taken, given)
        claimed = {n: c for s in body if isinstance(s, Apply) for n, c in zip(s.results, s.claims, strict=False)}
        claims: tuple[Type | None, ...] = tuple(claimed.get(name) for name in given)
        stated = claims if any(claims) else ()
        facts, of = common(map(facts_of, body)), {facts_of(s).of for s in body} - {""}
        facts = replace(facts, of=of.pop() if len(of) == 1 else "")
        return Call(tuple(given), kernel.name, tuple(taken), stated, group.stream, facts)


def _form(body: Sequence[Statement], taken: Sequence[str], given: Sequence[str]) -> object:
    """A key, equal for groups that differ in names alone."""
    numbers = {name: number for number, name in enumerate(taken)}
    for statement in body:
        for name in results(statement):
            if name != DISCARD:
                numbers.setdefault(name, len(numbers))

    def form(arg: Arg) -> object:
        if isinstance(arg, tuple):
            return tuple(map(form, arg))
        return arg if isinstance(arg, Literal) or arg == DISCARD else numbers[arg]

    wanted = set(given) | {name for statement in body for name in names(operands(statement))}
    statements = tuple(
        (s.op, s.attrs, tuple(map(form, s.args)), tuple(name in wanted for name in s.results))
        for s in body
        if isinstance(s, Apply)
    )
    return statements, len(taken), tuple(numbers[name] for name in given)


def _kernel(name: str, body: Sequence[Statement], taken: Sequence[str], given: Sequence[str]) -> Function:
    wanted = set(given) | {n for statement in body for n in names(operands(statement))}
    written = [
        Apply(tuple(n if n in wanted else DISCARD for n in s.results), s.op, s.args, s.attrs)
        for s in body
        if isinstance(s, Apply)
    ]
    params = tuple(Param(n, UNKNOWN) for n in taken)
    return Function(name, params, (*written, Return(tuple(given))), kernel=True)


def name_of(body: Sequence[Statement]) -> str:
    """A name such as `fused_add_rmsnorm`, from the ops that compute; from views and copies if there are no others."""
    ops = [statement.op for statement in body if isinstance(statement, Apply)]
    computing = [op for op in ops if op not in SHAPES and op not in MOVES]
    words: list[str] = []
    for word in map(_short, computing or [op for op in ops if op not in SHAPES]):
        if word not in words[-1:]:
            words.append(word)
    more = ["more"] if len(words) > MOST_NAMED else []
    return "_".join(["fused", *words[:MOST_NAMED], *more])


def _short(op: str) -> str:
    stem = op.removesuffix("Grad")
    word = SHORT.get(stem) or stem.replace("Normalization", "Norm").removeprefix("Reduce").lower()
    return f"{word}_grad" if stem != op else word
