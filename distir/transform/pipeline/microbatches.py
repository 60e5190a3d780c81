"""Derives, for each value, its type for one of K microbatches and how the microbatches' values compose it.

A domain for Algorithm 1. A value has two types, one for the whole batch and one for a microbatch, and a `Share`:
whether the microbatches' values are concatenated, summed, or equal. The rules follow from the ops' layouts: the letters
of their signatures along which they may be split. Independent of devices, stages and schedules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from distir.analysis import Checker, Domain, algorithm_1, lookup
from distir.analysis.parameters import parameters
from distir.diagnostics.codes import transforms as codes
from distir.ir import HOST, Apply, Arg, Call, Dim, Literal, Module, TensorType, TupleType, dims, types
from distir.ir.deep import Deep
from distir.ops import OPS, Op, Reject, Value, type_of
from distir.ops.infer import leaf_calls, tuple_structure
from distir.ops.layout import Letters
from distir.ops.splitting import layout, linear_operands


@dataclass(frozen=True, slots=True)
class Share:
    """How the values of K microbatches compose a tensor: concatenated along `axis`; None: summed.

    The result is `K ** scale` times the tensor: a mean over a microbatch has `scale` 1, as it divides by K times too
    little.
    """

    axis: int | None = None
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Whole:
    """Every microbatch has the whole tensor. `sized`: a host value that depends on the size of the microbatch."""

    sized: bool = False


WHOLE = Whole()


class Unlocated(Reject):
    """An op depends on the positions of examples in the batch, and has no operand that holds them."""

    def __init__(self, op: Apply, shares: Sequence[Shares]) -> None:
        message = f"`{op.op}` cannot be computed by microbatches: it depends on positions in the whole batch"
        super().__init__(codes.NOT_IN_MICROBATCHES, message, help="let it take `Positions` of an input as its `rows`")
        self.shares = shares
        """The shares of its results."""


SOME_SIZE = 1009 * math.lcm(*range(1, 33), 1024)
"""The size assumed for named dimensions: divisible by all likely divisors, and larger than any other size."""

Shares = Union[Share, Whole, "tuple[Shares, ...]"]
"""One for each leaf of a type."""


@dataclass(frozen=True, slots=True)
class Held:
    """A value for the whole batch, the value for one microbatch, and the shares that relate them."""

    full: Value
    micro: Value
    shares: Shares


def leaf_shares(shares: Shares) -> list[Share | Whole]:
    """The shares of the leaves of a tuple, in order."""
    if isinstance(shares, tuple):
        return [leaf for item in shares for leaf in leaf_shares(item)]
    return [shares]


def is_whole(shares: Shares) -> bool:
    """Whether the value does not depend on the batch."""
    return all(isinstance(s, Whole) for s in leaf_shares(shares))


def is_plain(shares: Shares) -> bool:
    """Whether all leaves of a value are whole, and none is a size of a microbatch."""
    return all(isinstance(s, Whole) and not s.sized for s in leaf_shares(shares))


def is_sum(shares: Shares) -> bool:
    """Whether the microbatches' values are to be summed, leaf by leaf."""
    found = leaf_shares(shares)
    return bool(found) and all(isinstance(s, Share) and s.axis is None for s in found)


def holds_sum(shares: Shares) -> bool:
    """Whether a leaf is a sum over microbatches."""
    return any(isinstance(s, Share) and s.axis is None for s in leaf_shares(shares))


def scale_of(shares: Shares) -> int:
    """The scale of all leaves. Raises ValueError where they differ."""
    (scale,) = {s.scale for s in leaf_shares(shares) if isinstance(s, Share)}
    return scale


def whole_like(type: types.Type) -> Shares:
    """The shares of a type all of whose leaves are whole."""
    return tuple(map(whole_like, type.items)) if isinstance(type, TupleType) else WHOLE


@dataclass
class Microbatches(Domain):
    """The domain. Raises Reject for ops that cannot run on microbatches, with DIR641 or the checker's code."""

    module: Module
    checker: Checker
    count: int
    """How many microbatches there are."""
    symbols: Collection[str]
    """The named dimensions of the batch."""
    calls: dict[tuple[str, tuple[Any, ...]], tuple[Held, ...]] = field(
        default_factory=dict[tuple[str, tuple[Any, ...]], tuple[Held, ...]]
    )

    def constant(self, arg: Arg) -> Held:
        """A literal is the same for the batch and for a microbatch."""
        assert isinstance(arg, Literal)
        return Held(arg, arg, WHOLE)

    def called(self, call: Call, vs: tuple[Any, ...]) -> Deep[Sequence[Held]]:
        """The results of a call, for the batch and for a microbatch."""
        key = (call.function, vs)
        if key not in self.calls:
            function = self.module.functions[call.function]
            held: list[Held] = [v for v in vs if isinstance(v, Held)]
            full, _ = parameters(function, [v.full for v in held])
            micro, _ = parameters(function, [v.micro for v in held])
            args = [Held(f, m, v.shares) for f, m, v in zip(full, micro, held, strict=True)]
            self.calls[key] = (yield algorithm_1(function, args, self)).returned
        return self.calls[key]

    def apply(self, op: Apply, vs: tuple[Any, ...]) -> Sequence[Held]:
        """The results of an op, for the batch and for a microbatch. Raises ProgramError where they do not fit."""
        if any(isinstance(v, tuple) for v in vs):
            raise _cannot(op, "it takes a list of values")
        full = self.checker.answer(op, tuple(v and v.full for v in vs))
        micro = self.checker.answer(op, tuple(v and v.micro for v in vs))
        shares = self._shares(op, vs, full, micro)
        held = [Held(f, m, s) for f, m, s in zip(full, micro, shares, strict=True)]
        if not all(self._fits(type_of(v.full), type_of(v.micro), v.shares) for v in held):
            raise _cannot(op, "a size in it is that of the whole batch")
        return held

    def shape_operand(self, op: Apply, vs: tuple[Any, ...]) -> int | None:
        """The position of the operand that states the shape of the result, if one does."""
        definition = lookup(op.op)
        args = [v and v.full for v in vs]
        if any(isinstance(v, tuple) for v in vs) or tuple_structure(definition, args) is not None:
            return None
        return _stated(definition, op, args, self.checker.answer(op, tuple(args)))

    def along_batch(self, op: Apply, vs: tuple[Any, ...]) -> dict[int, int]:
        """By operand that is a host value of all examples, whole in each microbatch: its dimension of the batch."""
        if any(isinstance(v, tuple) for v in vs):
            return {}
        full = [v and v.full for v in vs]
        answers = [type_of(_numbered(w)) for w in self.checker.answer(op, tuple(full))]
        definition = lookup(op.op)
        if tuple_structure(definition, full) is not None:
            return {}
        found = layout(definition, list(map(_numbered, full)), answers, op.attrs)
        if found is None:
            return {}
        axes = [v.shares.axis if v is not None and isinstance(v.shares, Share) else None for v in vs]
        letters = {own[axis] for own, axis in zip(found.operands, axes, strict=True) if axis is not None} - {None}
        whole = [
            i
            for i, v in enumerate(vs)
            if v is not None and v.shares == WHOLE and types.device_of(type_of(v.full)) == HOST
        ]
        return {i: axis for i in whole for axis, letter in enumerate(found.operands[i]) if letter in letters}

    def _fits(self, full: types.Type, micro: types.Type, shares: Shares) -> bool:
        """Whether a microbatch's value has the expected shape, as far as that is known."""
        if isinstance(shares, tuple):
            whole, part = full, micro
            assert isinstance(whole, TupleType)
            assert isinstance(part, TupleType)
            return all(map(self._fits, whole.items, part.items, shares))
        if not (isinstance(full, TensorType) and isinstance(micro, TensorType)) or types.device_of(full) == HOST:
            return True
        if full.shape is None or micro.shape is None:
            return True
        axis = shares.axis if isinstance(shares, Share) else None
        expected = (dims.multiply(n, self.count if i == axis else 1) for i, n in enumerate(micro.shape))
        return all(n == m or None in (n, m) for n, m in zip(full.shape, expected, strict=True))

    def _shares(
        self, op: Apply, vs: tuple[Held | None, ...], full: Sequence[Value], micro: Sequence[Value]
    ) -> Sequence[Shares]:
        definition = lookup(op.op)
        if all(v is None or is_plain(v.shares) for v in vs):
            return [whole_like(type_of(w)) for w in full]
        if definition.awaits and vs[0] is not None:  # the others are waited for, and not read
            return [vs[0].shares]
        if definition.name == "MakeTuple":
            return [tuple(v.shares for v in vs if v is not None)]
        if definition.name == "UnpackTuple":
            assert vs[0] is not None
            assert isinstance(vs[0].shares, tuple)
            return vs[0].shares
        args = [None if v is None else v.full for v in vs]
        shares = [WHOLE if v is None else v.shares for v in vs]
        items = tuple_structure(definition, args)
        if items is None:
            return self._leaf(definition, op, args, shares, full, micro)
        by_leaf: list[Sequence[Shares]] = []
        for i, call in enumerate(leaf_calls(args, items)):
            inner = [s[i] if isinstance(s, tuple) else s for s in shares]
            leaf_of = ([_item(w, i) for w in answers] for answers in (full, micro))
            by_leaf.append(self._leaf(definition, op, call, inner, *leaf_of))
        return [tuple(column) for column in zip(*by_leaf, strict=True)]

    def _leaf(
        self,
        definition: Op,
        op: Apply,
        args: Sequence[Value],
        shares: Sequence[Shares],
        full: Sequence[Value],
        micro: Sequence[Value],
    ) -> Sequence[Shares]:
        """The shares of the results where all are tensors."""
        pairs = [(type_of(f), type_of(m)) for f, m in zip(full, micro, strict=True)]
        grown = all(types.device_of(f) != HOST or f != m for f, m in pairs)
        if any(isinstance(s, Share) for s in shares) or not grown:
            return leaf_rule(definition, op, args, shares, full, self._part_of)
        stated = _stated(definition, op, args, full)
        if any(share == Whole(sized=True) and i != stated for i, share in enumerate(shares)):
            raise _cannot(op, "its result depends on the size of the batch")
        return [self._grown(op, f, m) for f, m in pairs]

    def _part_of(self, dim: Dim) -> Dim:
        """The size of a microbatch's part, in terms of the size of a microbatch instead of the batch."""
        whole = {name: dims.multiply(dims.named(name), self.count) for name in self.symbols}
        return dims.substitute(dims.divide(dim, self.count), whole)

    def _grown(self, op: Apply, full: types.Type, micro: types.Type) -> Share | Whole:
        """The share of a value with the size of the batch that was computed from no part of the batch."""
        if not (isinstance(full, TensorType) and isinstance(micro, TensorType) and full.shape and micro.shape):
            raise _cannot(op, "its result depends on the size of the batch")
        longer = [i for i, (n, m) in enumerate(zip(full.shape, micro.shape, strict=True)) if n != m]
        if len(longer) > 1 or not (OPS[op.op].linear or op.op == "ConstantOfShape"):  # all rows are alike
            raise _cannot(op, "its result depends on the size of the batch")
        return Share(longer[0]) if longer else WHOLE


def _item(w: Value, i: int) -> Value:
    t = type_of(w)
    assert isinstance(t, TupleType)
    return t.items[i]


def _stated(definition: Op, op: Apply, args: Sequence[Value], answers: Sequence[Value]) -> int | None:
    """The position of the operand that states the shape of the result, if one does."""
    if definition.name == "ConstantOfShape":
        return 0
    found = layout(definition, list(map(_numbered, args)), [type_of(_numbered(w)) for w in answers], op.attrs)
    return None if found is None else found.stated


def leaf_rule(
    definition: Op,
    op: Apply,
    args: Sequence[Value],
    shares: Sequence[Shares],
    answers: Sequence[Value],
    part_of: Callable[[Dim], Dim],
) -> list[Shares]:
    """The shares of an op's results, tensors all. Raises Reject. `part_of`: the size of a microbatch's part."""
    if any(isinstance(s, tuple) for s in shares):
        raise _cannot(op, "it takes a tuple of parts of the batch")
    of_parts = any(
        isinstance(s, Share) and types.device_of(type_of(v)) == HOST for v, s in zip(args, shares, strict=True)
    )
    if all(types.device_of(type_of(w)) == HOST for w in answers) and not (of_parts and _keeps_devices(definition)):
        of_sums = reads_sizes(definition) and not any(isinstance(s, Share) and s.axis is not None for s in shares)
        return [Whole(sized=not of_sums)] * len(answers)
    given = [s for s in shares if isinstance(s, Share)]
    if any(s.axis is None for s in given):
        return [_sum_rule(definition, op, args, shares)] * len(answers)
    return _part_rule(definition, op, args, shares, answers, part_of)


def reads_sizes(definition: Op) -> bool:
    """Whether an op reads the sizes of its operands alone, as `Shape` and `Size` do; a sum has those of its terms."""
    patterns = [operand.pattern for signature in definition.signatures for operand in signature.operands]
    return not _keeps_devices(definition) and any(pattern.device != "host" for pattern in patterns)


def _keeps_devices(definition: Op) -> bool:
    """Whether the results are on the operands' device; results of `Shape` are on the host."""
    patterns = [result.pattern for signature in definition.signatures for result in signature.results]
    return not any(pattern.device == "host" for pattern in patterns)


def _sum_rule(definition: Op, op: Apply, args: Sequence[Value], shares: Sequence[Shares]) -> Share:
    """Partial sums yield partial sums if the op is linear in them."""
    given = [s for s in shares if isinstance(s, Share)]
    names = [definition.operand_name(i) for i, s in enumerate(shares) if isinstance(s, Share)]
    others = [i for i, s in enumerate(shares) if isinstance(s, Whole)]
    if any(s != given[0] for s in given):
        raise _cannot(op, "its operands are sums over the batch and parts of it")
    if definition.linear == "jointly":
        on_devices = [i for i in others if types.device_of(type_of(args[i])) != HOST]
        if on_devices and given[0].scale != 1:  # a mean may have a term that all microbatches share; a sum may not
            raise _cannot(op, "it adds a sum over the batch and something else")
        return given[0]
    if len(given) == 1 and names[0] in _linear(definition, args):
        return given[0]
    raise _cannot(op, "it needs the sum over the batch, of which a microbatch has only a term")


def _part_rule(
    definition: Op,
    op: Apply,
    args: Sequence[Value],
    shares: Sequence[Shares],
    answers: Sequence[Value],
    part_of: Callable[[Dim], Dim],
) -> list[Shares]:
    """Parts along an axis: its letter determines the axis of the results."""
    found = layout(definition, list(map(_numbered, args)), [type_of(_numbered(w)) for w in answers], op.attrs)
    if found is None:
        raise _cannot(op, "nothing says how it can be split along the batch")
    letters = {found.operands[i][s.axis] for i, s in enumerate(shares) if isinstance(s, Share) and s.axis is not None}
    letter = letters.pop() if len(letters) == 1 else None
    if letter is None:
        raise _cannot(op, "it mixes the examples of a batch")
    for i, share in enumerate(shares):
        if isinstance(share, Whole) and letter in found.operands[i]:
            raise _cannot(op, "one of its operands is as long as the batch, but is no part of it")
        if share == Whole(sized=True) and i != found.stated:
            raise _cannot(op, "its result depends on the size of the batch")
    if letter in found.divided or letter in found.divided_operands:
        raise _cannot(op, "the size of the batch is written down in it")
    blocks = [_letter(found.operands, place) for place in found.operand_blocks]
    blocks += [_letter(found.results, place) for place in found.result_blocks]
    if letter in blocks:
        raise _cannot(op, "it takes the batch apart, or joins several")
    grain = found.grains.get(letter)
    parts = [part_of(dim) for dim in _sizes_along(letter, found.operands, args)] if grain else []
    if grain and not any(dims.is_multiple(dim, grain) for dim in parts):
        raise _cannot(op, f"microbatches of {parts[0]} places cut blocks of {grain}, each of which has one scale")
    if letter in found.parted or any(letter not in found.results[j] for j in found.greatest):
        raise _cannot(op, "what it gives depends on all examples of the batch", found.instead)
    if letter in found.located:
        raise Unlocated(op, [Share(own.index(letter)) if letter in own else WHOLE for own in found.results])
    scale = _scale(definition, op, args, shares)
    results: list[Shares] = []
    for j, own in enumerate(found.results):
        if j in found.whole and letter not in own:
            results.append(WHOLE)
        elif letter in own:
            results.append(Share(own.index(letter), scale + (letter in found.averaged and found.scaled is not None)))
        else:
            results.append(Share(None, scale + (letter in found.averaged)))
    return results


def _sizes_along(letter: str, operands: Sequence[Letters], args: Sequence[Value]) -> list[Dim]:
    """The sizes of the operands' dimensions with a letter."""
    kinds = [None if arg is None else type_of(arg) for arg in args]
    shapes = [kind.shape or () if isinstance(kind, TensorType) else () for kind in kinds]
    return [
        shape[axis]
        for own, shape in zip(operands, shapes, strict=True)
        for axis, found in enumerate(own)
        if found == letter and axis < len(shape)
    ]


def _numbered(value: Value) -> Value:
    """A type with numbers for named dimensions, so that the op's dimensions divide as it needs; blocks may not."""
    if not isinstance(value, (TensorType, TupleType)):
        return value
    return types.substitute(value, dict.fromkeys(types.dim_names(value), SOME_SIZE))


def _scale(definition: Op, op: Apply, args: Sequence[Value], shares: Sequence[Shares]) -> int:
    """The scale of the results due to the operands."""
    scaled = [i for i, s in enumerate(shares) if isinstance(s, Share) and s.scale]
    if not scaled:
        return 0
    scales = {s.scale for s in shares if isinstance(s, Share)}
    if definition.linear == "jointly" and len(scales) == 1 and not any(_on_device(s) for s in shares):
        return scales.pop()
    names = _linear(definition, args)
    if definition.linear != "jointly" and all(definition.operand_name(i) in names for i in scaled):
        return sum(s.scale for s in shares if isinstance(s, Share))
    raise _cannot(op, "it takes a mean over a microbatch for one over the batch")


def _on_device(share: Shares) -> bool:
    return isinstance(share, Whole) and not share.sized


def _linear(definition: Op, args: Sequence[Value]) -> tuple[str, ...]:
    """The operands in which an op is linear, each by itself. Gradient ops are linear in `dy`."""
    return (*linear_operands(definition, args), *(o.name for o in definition.operands if o.name == "dy"))


def _letter(values: Sequence[Sequence[str | None]], place: tuple[int, int]) -> str | None:
    value, axis = place
    return values[value][axis] if axis < len(values[value]) else None


def _cannot(op: Apply, reason: str, help: str | None = None) -> Reject:
    return Reject(codes.NOT_IN_MICROBATCHES, f"`{op.op}` cannot be computed by microbatches: {reason}", help=help)
