"""Statements in order, each shown to the rules: what they see of the program, and how they write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from distir.ir import DTYPES, Apply, Attributes, Call, Constant, Dense, DType, Shape, TensorType, names
from distir.ir.builder import FunctionBuilder
from distir.ir.rewrite import with_operands
from distir.ops import OPS, Value, dense, to_array, type_of
from distir.ops.attributes import bind
from distir.ops.infer import run
from distir.ops.numeric import Array


class Making(Protocol):
    """A function in the making: what has been appended, and what is known of the values by name."""

    builder: FunctionBuilder
    values: dict[str, Value]
    statements: list[Apply | Call]
    makers: dict[str, Apply]

    def known(self, name: str) -> Dense | None:
        """The value of a name, where all of it is known."""
        ...

    def append(self, statement: Apply | Call) -> None:
        """Add a statement, and what is known of its results."""
        ...


Rewrite = Callable[["MatchedFunction", Apply], str | Mapping[str, str] | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """What to do with statements of these ops: `rewrite` gives the name of a value that is their result, or None.

    It may give values instead for several that exist, by the names of these: of the statement, or of others that lead
    to it. Those in their place are the results of what it writes last, which then stands where the first of them was.
    What a rule writes on the way is taken back where it gives None, or a value of another type.
    """

    ops: tuple[str, ...]
    rewrite: Rewrite


def rule(*ops: str) -> Callable[[Rewrite], Rule]:
    """A function as a rule for statements of these ops."""
    return lambda rewrite: Rule(ops, rewrite)


def rewritten(into: Making, returned: Iterable[str], rules: Sequence[Rule]) -> None:
    """Apply rules to the statements of a translation that what is `returned` depends on."""
    program = MatchedFunction(into, tuple(returned))
    by_op: dict[str, list[Rule]] = {}
    for one in rules:
        for op in one.ops:
            by_op.setdefault(op, []).append(one)
    statements, into.statements = program.live(into.statements), []
    program.count(statements)
    for statement in statements:
        statement = program.renamed(statement)
        into.statements.append(statement)
        while isinstance(statement, Apply):
            found = next(filter(None, (program.tried(r, statement) for r in by_op.get(statement.op, ()))), None)
            if found is None:
                break
            statement = found


class MatchedFunction:
    """A function in the making, as rules see it: who makes a value, what is known of it, how often it is used."""

    def __init__(self, into: Making, returned: tuple[str, ...]) -> None:
        self._into, self._returned = into, returned
        self._uses: Counter[str] = Counter()
        self._same: dict[str, str] = {}
        """Values that turned out to be others."""

    # what a rule sees

    def maker(self, name: object) -> Apply | None:
        """The statement that gives a value; None for parameters, constants and results of calls."""
        return self._into.makers.get(name) if isinstance(name, str) else None

    def listed(self, made: Apply) -> tuple[int, ...] | None:
        """The known list of integers that is an op's second operand."""
        return self.ints(made.args[1]) if len(made.args) == 2 else None

    def axes(self, reduced: Apply) -> tuple[int, ...] | None:
        """The dimensions, from the front, that an op reduces and leaves as 1; None where it does something else."""
        axes, rank = self.listed(reduced), len(self.shape(reduced.args[0]) or ())
        if axes is None or not rank or not reduced.attrs.get("keepdims", True):
            return None
        return tuple(sorted(axis % rank for axis in axes))

    def type(self, name: object) -> TensorType | None:
        """The tensor type of a value, where it has one."""
        found = type_of(self._into.values.get(name)) if isinstance(name, str) and name else None
        return found if isinstance(found, TensorType) else None

    def shape(self, name: object) -> Shape | None:
        """The shape of a value, where its rank is known."""
        found = self.type(name)
        return None if found is None else found.shape

    def dtype(self, name: object) -> DType | None:
        """The element type of a value, where it is known."""
        found = self.type(name)
        return None if found is None else found.dtype

    def known(self, name: object) -> Dense | None:
        """A value that is known before the program runs."""
        return self._into.known(name) if isinstance(name, str) else None

    def number(self, name: object) -> float | None:
        """The number that a value is: known, and of one element."""
        found = self.known(name)
        if found is None or found.symbolic or len(found.values) != 1:
            return None
        return float(to_array(found).item())

    def ints(self, name: object) -> tuple[int, ...] | None:
        """A known list of integers, as axes or sizes."""
        found = self.known(name)
        if found is None or found.dtype.kind != "int":
            return None
        values = tuple([value for value in found.values if isinstance(value, int)])
        return values if len(values) == len(found.values) else None  # else some are names of sizes

    def computed(self, name: str, most: int) -> Array | None:
        """The array that a value is, where it depends on no parameter and has no more elements than `most`."""
        fixed = self.known(name)
        if fixed is not None:
            return to_array(fixed)
        made, shape = self.maker(name), self.shape(name)
        elements = 1
        for size in shape if shape is not None else (None,):
            elements = elements * size if isinstance(size, int) and elements is not None else None
        if made is None or made.op not in OPS or elements is None or elements > most or len(made.results) > 1:
            return None
        operands = [self.computed(arg, most) if arg else None for arg in map(str, made.args)]
        if not operands or any(value is None and arg for value, arg in zip(operands, made.args, strict=True)):
            return None
        op = OPS[made.op]
        return run(op, operands, bind(op, made.attrs), 1)[0]

    def inner(self, root: Apply, between: Iterable[str], *others: Apply) -> bool:
        """Whether values are needed for nothing but each other and what `root` and `others` give."""
        inside = set(between) - set(root.results)
        made = (*map(self.maker, inside), root, *others)
        statements = {id(one): one for one in made if one is not None}
        within = Counter(n for s in statements.values() for n in names(s.args))
        return all(self._uses[name] == within[name] for name in inside)

    # how a rule writes

    def apply(self, op: str, *operands: str, like: str = "", **attrs: Constant) -> str:
        """Append an op of one result; what it is called is derived from the value `like`."""
        (given,) = self.several(op, 1, *operands, like=like, **attrs)
        return given

    def several(self, op: str, count: int, *operands: str, like: str = "", **attrs: Constant) -> tuple[str, ...]:
        """Append an op of so many results."""
        given = tuple(self._into.builder.fresh(f"{like or operands[0]}.{op.lower()}") for _ in range(count))
        self._into.append(Apply(given, op, operands, Attributes(attrs)))
        return given

    def constant(self, value: Constant, dtype: DType | None = None, like: str = "constant") -> str:
        """A known value."""
        given = self._into.builder.fresh(f"{like}.known")
        self._into.values[given] = dense(value, dtype)
        return given

    def sizes(self, sizes: Sequence[int], like: str) -> str:
        """A list of integers, as axes or sizes."""
        return self.constant(Dense(DTYPES["Int64"], (len(sizes),), tuple(sizes)), like=like)

    def squeezed(self, name: str, axis: int) -> str:
        """A tensor without a dimension of 1."""
        made = self.maker(name)
        given = self.ints(made.args[1]) if made is not None and made.op == "Unsqueeze" else None
        rank = len(self.shape(name) or ())
        if made is None or given is None or axis not in (new := [one % rank for one in given]):
            return self.apply("Squeeze", name, self.sizes([axis], name))
        left = [one - (one > axis) for one in new if one != axis]
        source = str(made.args[0])
        return self.apply("Unsqueeze", source, self.sizes(left, source)) if left else source

    # what the walk does

    def tried(self, one: Rule, root: Apply) -> Apply | None:
        """The statement in the place of `root`, the last one that there is, if the rule has another one for it."""
        into = self._into
        before = len(into.statements)
        found = one.rewrite(self, root)
        made = into.statements[before:]
        last = made[-1] if made else None
        if isinstance(found, Mapping):
            del into.statements[before:]
            fits = all(self._fits(old, new) for old, new in found.items())
            return self._in_place_of(found, made) if fits else None
        if found is None or not self._fits(root.results[0], found):
            del into.statements[before:]
            return None
        if not isinstance(last, Apply) or last.results != (found,):
            del into.statements[before:]
            return self._left_out(root, found)
        renamed = Apply(root.results, last.op, last.args, last.attrs)
        into.statements[before - 1 :] = [*made[:-1], renamed]
        into.makers[root.results[0]] = renamed
        for statement in (*made[:-1], renamed):
            self._uses.update(n for n in names(statement.args))
        self._released(root)
        return renamed

    def _in_place_of(self, found: Mapping[str, str], made: Sequence[Apply | Call]) -> Apply:
        """Put statements where the first of the values was made that the last of them gives anew. Gives that one."""
        into = self._into
        former = [s for s in into.statements if isinstance(s, Apply) and not found.keys().isdisjoint(s.results)]
        at = into.statements.index(former[0])
        into.statements = [s for s in into.statements if s not in former]
        called = {new: old for old, new in found.items()}
        last = made[-1]
        assert isinstance(last, Apply), "a rule writes ops"
        renamed = replace(last, results=tuple(called.get(name, name) for name in last.results))
        into.statements[at:at] = [*made[:-1], renamed]
        for statement in (*made[:-1], renamed):
            self._uses.update(n for n in names(statement.args))
        for statement in former:
            self._released(statement)
        into.makers.update(dict.fromkeys(renamed.results, renamed))
        return renamed

    def _left_out(self, root: Apply, found: str) -> None:
        """Use a value that exists already in place of `root`'s result, unless that is needed by its name."""
        (result,) = root.results
        if result not in self._returned:
            self._same[result] = found
            self._uses[found] += self._uses[result]
            self._into.statements.pop()
            self._released(root)

    def renamed(self, statement: Apply | Call) -> Apply | Call:
        """A statement of values that are still there."""
        made = with_operands(statement, self._same)
        if made is not statement and isinstance(made, Apply):
            self._into.makers.update(dict.fromkeys(made.results, made))
        return made

    def _fits(self, replaced: str, found: str) -> bool:
        """Whether a value has the type of what it replaces."""
        new, old = self.type(found), self.type(replaced)
        return new is not None and old is not None and (new.dtype, new.shape) == (old.dtype, old.shape)

    def _released(self, statement: Apply) -> None:
        """Count the uses no longer that a statement made; likewise of what is used by nothing then."""
        pending = [statement]
        while pending:
            for name in names(pending.pop().args):
                self._uses[name] -= 1
                made = self.maker(name)
                if self._uses[name] == 0 and made is not None and not any(self._uses[n] for n in made.results):
                    pending.append(made)

    def live(self, statements: Sequence[Apply | Call]) -> list[Apply | Call]:
        """The statements that what is returned depends on."""
        needed, kept = set(self._returned), list[Apply | Call]()
        for statement in reversed(statements):
            if not needed.isdisjoint(statement.results):
                kept.append(statement)
                needed.update(names(statement.args))
        return kept[::-1]

    def count(self, statements: Iterable[Apply | Call]) -> None:
        """Count who uses what."""
        self._uses = Counter(n for s in statements for n in names(s.args))
        self._uses.update(self._returned)
