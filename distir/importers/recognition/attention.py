"""Attention as one op: products, scales, caps, masks, sinks and softmax of any of the usual spellings.

Read from the last product back: a product of weights and values; weights that are a softmax; scores that are masked,
capped and scaled products of queries and keys. Heads of keys and values that are repeated for groups of queries are not
repeated, and a mask that hides what comes later is a word.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from distir.importers.onnx_nodes import shortest
from distir.importers.recognition.masks import LOWEST, Masking, joined, looking_back, moved, seen_by
from distir.importers.recognition.rewriting import MatchedFunction, rule
from distir.importers.recognition.views import parting, reshaped
from distir.ir import DISCARD, Apply, Constant, Shape


@dataclass(frozen=True, slots=True)
class _View:
    """A tensor with its dimensions in another order, times a number; None where a dimension of 1 is new."""

    name: str
    order: tuple[int | None, ...]
    factor: float = 1.0

    def shape(self, program: MatchedFunction) -> Shape | None:
        found = program.shape(self.name)
        return None if found is None else tuple(1 if i is None else found[i] for i in self.order)

    def written(self, program: MatchedFunction) -> str:
        """The tensor, without the number."""
        kept = tuple(i for i in self.order if i is not None)
        name = self.name
        if kept != tuple(range(len(kept))):
            name = program.apply("Transpose", name, perm=kept)
        new = [axis for axis, i in enumerate(self.order) if i is None]
        return program.apply("Unsqueeze", name, program.sizes(new, name)) if new else name


@dataclass(frozen=True, slots=True)
class _Scores:
    """What a softmax is taken of."""

    q: _View
    k: _View
    scale: float = 1.0
    softcap: float = 0.0
    dropout: float = 0.0
    masks: tuple[Masking, ...] = ()
    sinks: str | None = None
    between: frozenset[str] = frozenset()

    def through(self, name: str, **changed: Any) -> _Scores:
        return replace(self, between=self.between | {name}, **changed)


@rule("MatMul", "Einsum")
def attention(program: MatchedFunction, root: Apply) -> str | None:
    """`softmax(scores) @ v`."""
    for weights, v, order in _mixtures(program, root):
        for scores in _weights(program, weights):
            if program.inner(root, scores.between):
                return _written(program, root, scores, v, order)
    return None


def _written(program: MatchedFunction, root: Apply, scores: _Scores, v: _View, order: tuple[int, ...]) -> str | None:
    scores, v, order = _with_groupslooking_back(program, _of_elements(program, scores, v), v, order)
    shapes = [view.shape(program) for view in (scores.q, scores.k, v)]
    q, k, values = shapes
    dtypes = {program.dtype(view.name) for view in (scores.q, scores.k, v)}
    if q is None or k is None or values is None or len(dtypes) > 1 or len({len(q), len(k), len(values)}) > 1:
        return None
    if k[-2] != values[-2] or k[:-2] != values[:-2]:
        return None
    heads = _heads(program, scores, v, q, k)
    if heads is None:
        return None
    operands, attrs = heads
    known, mask = joined(program, scores.masks, program.dtype(scores.q.name), q)
    if not known:
        return None
    operands.append(mask)
    if scores.sinks is not None:
        operands.append(scores.sinks)
    while operands[-1] == "":
        operands.pop()
    attrs["scale"] = shortest(scores.scale * scores.q.factor * scores.k.factor)
    if scores.softcap:
        attrs["softcap"] = shortest(scores.softcap)
    if scores.dropout:
        attrs["dropout"] = shortest(scores.dropout)
    if not math.isclose(v.factor, 1.0):
        return None
    name = program.apply("Attention", *operands, like=root.results[0], **attrs)
    if len(q) == 5:
        sizes = [size if isinstance(size, int) else -1 for size in (*q[:-1], values[-1])]
        if sizes.count(-1) > 1:
            return None
        name = program.apply("Reshape", name, program.sizes(sizes, name))
    return name if order == tuple(range(len(q))) else program.apply("Transpose", name, perm=order)


def _of_elements(program: MatchedFunction, scores: _Scores, v: _View) -> _Scores:
    """Queries and keys before they were converted, where they are then of the elements of the values.

    The op computes in wide elements itself.
    """
    views: list[_View] = []
    for view in (scores.q, scores.k):
        made, dtype = program.maker(view.name), program.dtype(v.name)
        if made is None or made.op != "Cast" or program.dtype(made.args[0]) != dtype or view.factor != 1:
            return scores
        views.append(_composed(program, str(made.args[0]), view.order))
    q, k = views
    return replace(scores, q=q, k=k)


def _with_groupslooking_back(
    program: MatchedFunction, scores: _Scores, v: _View, order: tuple[int, ...]
) -> tuple[_Scores, _View, tuple[int, ...]]:
    """The same with the dimension that keys and values lack, of the heads that share them, as the last one of heads."""
    rank = len(scores.q.order)
    shared = [i for i in range(rank - 2) if scores.k.order[i] is None and v.order[i] is None]
    if len(shared) != 1 or shared[0] == rank - 3:
        return scores, v, order
    perm = (*(i for i in range(rank - 2) if i != shared[0]), shared[0], rank - 2, rank - 1)
    views = (_View(view.name, tuple(view.order[i] for i in perm), view.factor) for view in (scores.q, scores.k, v))
    q, k, values = views
    masks = tuple([replace(step, mask=moved(program, step.mask, perm)) for step in scores.masks])
    return replace(scores, q=q, k=k, masks=masks), values, tuple(perm.index(i) for i in order)


def _heads(
    program: MatchedFunction, scores: _Scores, v: _View, q: Shape, k: Shape
) -> tuple[list[str], dict[str, Constant]] | None:
    """Queries, keys and values as the op wants them: of rank 4, or without heads of rank 3."""
    views = (scores.q, scores.k, v)
    if len(q) == 3 and q[0] == k[0] and scores.sinks is None:
        return [view.written(program) for view in views], {"q_num_heads": 1, "kv_num_heads": 1}
    if len(q) == 4 and q[0] == k[0] and (k[1] == q[1] or k[1] == 1):
        return [view.written(program) for view in views], {}
    if len(q) == 5 and q[:2] == k[:2] and k[2] == 1 and scores.sinks is None:
        return _of_groups(program, views, q)
    return None


def _of_groups(
    program: MatchedFunction, views: Sequence[_View], q: Shape
) -> tuple[list[str], dict[str, Constant]] | None:
    """Queries by the group of heads that share keys and values: (batch, groups, heads, sequence, size)."""
    count = [size for size in q[1:3] if isinstance(size, int)]
    sizes = [size if isinstance(size, int) else -1 for size in q]
    if len(count) < 2 or sizes.count(-1) > 1:
        return None
    merged = [sizes[0], count[0] * count[1], *sizes[3:]]
    queries = _of_one_dimension(program, views[0], merged)
    shared = [_View(view.name, (*view.order[:2], *view.order[3:])) for view in views[1:]]
    if all(view.order[2] is None for view in views[1:]):
        return [queries, *(view.written(program) for view in shared)], {}
    return [queries, *(program.squeezed(view.written(program), 2) for view in views[1:])], {}


def _of_one_dimension(program: MatchedFunction, q: _View, sizes: Sequence[int]) -> str:
    """Queries whose heads were parted in groups, as before that; else brought into this shape."""
    made = program.maker(q.name)
    if made is not None and made.op == "Reshape":
        at = parting(program.shape(made.args[0]), program.shape(q.name))
        if at is not None and q.order[1:3] == (at, at + 1):
            order = tuple(None if i is None else i - (i > at) for i in q.order if i != at + 1)
            return _composed(program, str(made.args[0]), order).written(program)
    return reshaped(program, q.written(program), sizes)


# the product of weights and values


def _mixtures(program: MatchedFunction, root: Apply) -> Iterator[tuple[str, _View, tuple[int, ...]]]:
    """Weights, values, and the order of the result's dimensions, where those of weights and values come first."""
    left, right = (str(arg) for arg in root.args[:2]) if len(root.args) == 2 else ("", "")
    rank = len(program.shape(left) or ())
    if root.op == "MatMul" and rank == len(program.shape(right) or ()) and rank > 2:
        yield left, _view(program, right, rank), tuple(range(rank))
    if root.op == "Einsum" and right:
        for weights, values, swapped in ((left, right, False), (right, left, True)):
            found = _einsum_of_values(root, swapped)
            if found is not None:
                a, b, out = found
                (size,) = [label for label in b if label not in a]
                view = _composed(program, values, tuple(b.index(x) if x in b else None for x in (*a[:-2], a[-1], size)))
                yield weights, view, tuple((*a[:-1], size).index(x) for x in out)


def _einsum_of_values(made: Apply, swapped: bool) -> tuple[str, str, str] | None:
    """The labels of two factors, and of the result, where the last label of the first factor is summed alone."""
    equation = made.attrs.get("equation")
    if not isinstance(equation, str) or len(made.args) != 2 or "..." in equation:
        return None
    given, _, out = equation.replace(" ", "").partition("->")
    labels = given.split(",")
    if len(labels) != 2 or any(len(set(part)) < len(part) for part in (*labels, out)):
        return None
    a, b = labels[::-1] if swapped else labels
    own = [label for label in b if label not in a]
    fits = len(a) > 2 and a[-1] in b and a[-1] not in out and len(own) == 1 and a[-2] not in b
    return (a, b, out) if fits and set(out) == {*a[:-1], *own} else None


def _view(program: MatchedFunction, name: str, rank: int) -> _View:
    return _composed(program, name, tuple(range(rank)))


def _composed(program: MatchedFunction, name: str, order: tuple[int | None, ...]) -> _View:
    """A view of what a value is a view of: transposed, or times a number."""
    factor = 1.0
    while (made := program.maker(name)) is not None:
        if made.op == "Transpose" and (perm := made.attrs.ints("perm")) is not None:
            order = tuple(None if i is None else perm[i] for i in order)
            name = str(made.args[0])
            continue
        step = _times_number(program, made)
        if step is None or program.shape(step[0]) != program.shape(name):
            break
        name, factor = step[0], factor * step[1]
    return _View(name, order, factor)


def _times_number(program: MatchedFunction, made: Apply | None) -> tuple[str, float] | None:
    """What is multiplied with a number, and the number."""
    if made is None or made.op not in ("Mul", "Div"):
        return None
    a, b = (str(arg) for arg in made.args)
    by = program.number(b)
    if made.op == "Div":
        return None if not by else (a, 1 / by)
    if by is not None:
        return a, by
    by = program.number(a)
    return None if by is None else (b, by)


# weights and scores


def _weights(program: MatchedFunction, name: str) -> Iterator[_Scores]:
    """Weights: a softmax, perhaps without its last column, perhaps in other elements, perhaps with dropout."""
    made = program.maker(name)
    if made is None:
        return
    if made.op == "Dropout":
        ratio = _dropped(program, made)
        if ratio is not None:
            found = _weights(program, str(made.args[0]))
            yield from (scores.through(name, dropout=ratio) for scores in found if not scores.dropout)
        return
    if made.op in ("Cast", "Identity"):
        yield from (found.through(name) for found in _weights(program, str(made.args[0])))
    elif made.op in ("Slice", "Split"):
        source = str(made.args[0])
        softmax = program.maker(source)
        if softmax is not None and _but_the_last(program, name, made):
            found = _softmax(program, source, softmax)
            yield from (scores.through(name) for scores in found if scores.sinks is not None)
    else:
        yield from (found for found in _softmax(program, name, made) if found.sinks is None)


def _dropped(program: MatchedFunction, made: Apply) -> float | None:
    """How much a `Dropout` in training drops, whose mask nothing else uses and that has no key yet."""
    mode = program.known(made.args[2]) if len(made.args) == 3 else None
    if mode is None or not mode.values[0] or any(name != DISCARD for name in made.results[1:]):
        return None
    return program.number(made.args[1]) if made.args[1] != "" else 0.5


def _softmax(program: MatchedFunction, name: str, made: Apply) -> Iterator[_Scores]:
    if made.op in ("Cast", "Identity"):
        inner = program.maker(made.args[0])
        if inner is not None:
            yield from (found.through(name) for found in _softmax(program, str(made.args[0]), inner))
        return
    rank = len(program.shape(name) or ())
    if made.op == "Softmax" and rank and made.attrs.get("axis", -1) in (-1, rank - 1):
        yield from (found.through(name) for found in _logits(program, str(made.args[0])))


def _but_the_last(program: MatchedFunction, name: str, made: Apply) -> bool:
    """Whether a value is another one without the last element of its last dimension."""
    before, after = program.shape(made.args[0]), program.shape(name)
    if before is None or after is None or before[:-1] != after[:-1]:
        return False
    if not isinstance(before[-1], int) or after[-1] != before[-1] - 1:
        return False
    if made.op == "Split":
        return made.results[0] == name
    starts, steps = program.ints(made.args[1]), program.ints(made.args[4]) if len(made.args) > 4 else (1,)
    return starts is not None and not any(starts) and steps is not None and set(steps) == {1}


def _logits(program: MatchedFunction, name: str) -> Iterator[_Scores]:
    """What a softmax is taken of: scores, perhaps with a sink as their last column, perhaps less their largest."""
    made = program.maker(name)
    if made is None:
        return
    if made.op == "Cast":
        yield from (found.through(name) for found in _logits(program, str(made.args[0])))
        return
    if made.op == "Sub":
        largest = program.maker(made.args[1])
        if largest is not None and largest.op == "ReduceMax" and largest.args[0] == made.args[0]:
            if program.axes(largest) == (len(program.shape(name) or ()) - 1,):
                through = {name, str(made.args[1])}
                found = _logits(program, str(made.args[0]))
                yield from (replace(scores, between=scores.between | through) for scores in found)
            return
    rank = len(program.shape(name) or ())
    if made.op == "Concat" and len(made.args) == 2 and made.attrs.get("axis") in (-1, rank - 1):
        sinks = _sinks(program, str(made.args[1]))
        if sinks is not None:
            yield from (found.through(name, sinks=sinks) for found in _masked(program, str(made.args[0])))
        return
    yield from _masked(program, name)


def _sinks(program: MatchedFunction, name: str) -> str | None:
    """A score for each head, where a value is that for each query: (batch, heads, queries, 1)."""
    shape = program.shape(name)
    if shape is None or len(shape) != 4 or shape[-1] != 1:
        return None
    made = program.maker(name)
    while made is not None and made.op in ("Expand", "Cast", "Identity"):
        if made.op == "Cast":
            return None
        name = str(made.args[0])
        made = program.maker(name)
    found = program.shape(name) or ()
    padded = (*(1,) * (4 - len(found)), *found)
    if padded[0] != 1 or padded[1] != shape[1] or padded[2:] != (1, 1):
        return None
    while made is not None and made.op in ("Reshape", "Unsqueeze", "Squeeze"):
        name = str(made.args[0])
        if program.shape(name) == (shape[1],):
            return name
        made = program.maker(name)
    if not isinstance(shape[1], int):
        return None
    return program.apply("Reshape", name, program.sizes([shape[1]], name))


def _masked(program: MatchedFunction, name: str) -> Iterator[_Scores]:
    """Masked logits: masks are added, or put in their place; the first one first."""
    made = program.maker(name)
    if made is not None and made.op == "Cast":
        yield from (found.through(name) for found in _masked(program, str(made.args[0])))
        return
    if made is not None and made.op == "Add":
        a, b = (str(arg) for arg in made.args)
        for scores, mask in ((a, b), (b, a)):
            if program.shape(scores) == program.shape(name):
                found = _masked(program, scores)
                yield from (s.through(name, masks=(*s.masks, Masking(mask))) for s in found)
        return
    if made is not None and made.op == "Sub":
        scores, mask = (str(arg) for arg in made.args)
        if program.shape(scores) == program.shape(name):
            found = _masked(program, scores)
            yield from (s.through(name, masks=(*s.masks, Masking(mask, negated=True))) for s in found)
        return
    if made is not None and made.op == "Where":
        condition, *ways = (str(arg) for arg in made.args)
        for scores, other, negated in ((*ways, False), (*ways[::-1], True)):
            fill = program.number(other)
            if fill is not None and fill <= LOWEST and program.shape(scores) == program.shape(name):
                step = Masking(*_plain(program, condition, fill, negated))
                found = _masked(program, scores)
                yield from (s.through(name, masks=(*s.masks, step)) for s in found)
        return
    yield from _capped(program, name)


def _plain(program: MatchedFunction, condition: str, fill: float, negated: bool) -> tuple[str, float, bool]:
    """A condition without `Not`."""
    while (made := program.maker(condition)) is not None and made.op == "Not":
        condition, negated = str(made.args[0]), not negated
    return condition, fill, negated


def _capped(program: MatchedFunction, name: str) -> Iterator[_Scores]:
    """`cap * tanh(scores / cap)`, or no softcap."""
    made = program.maker(name)
    step = _times_number(program, made)
    tanh = program.maker(step[0]) if step is not None else made
    if tanh is not None and tanh.op == "Tanh":
        cap = 1.0 if step is None else step[1]
        between = {name, tanh.results[0]}
        for found in _scaled(program, str(tanh.args[0])):
            if cap > 0:
                yield replace(found, scale=found.scale * cap, softcap=cap, between=found.between | between)
        return
    yield from _scaled(program, name)


def _scaled(program: MatchedFunction, name: str, order: tuple[int, ...] | None = None) -> Iterator[_Scores]:
    """Products of queries and keys times a number, with the dimensions of the value in this order."""
    made = program.maker(name)
    step = _times_number(program, made)
    if step is not None:
        if program.shape(step[0]) == program.shape(name):
            found = _scaled(program, step[0], order)
            yield from (s.through(name, scale=s.scale * step[1]) for s in found)
    elif made is not None and made.op == "Cast":
        yield from (found.through(name) for found in _scaled(program, str(made.args[0]), order))
    elif made is not None and made.op == "Transpose" and (perm := made.attrs.ints("perm")) is not None:
        inner = tuple(perm[i] for i in order or range(len(perm)))
        yield from (found.through(name) for found in _scaled(program, str(made.args[0]), inner))
    elif made is not None:
        yield from (found.through(name) for found in _products(program, made, order))


def _products(program: MatchedFunction, made: Apply, order: tuple[int, ...] | None) -> Iterator[_Scores]:
    """Queries times keys."""
    if made.op == "MatMul":
        left, right = (str(arg) for arg in made.args)
        rank = len(program.shape(left) or ())
        heads = (order or tuple(range(rank)))[:-2]
        plain = order is None or order[-2:] == (rank - 2, rank - 1)
        if rank > 2 and rank == len(program.shape(right) or ()) and plain:
            keys = _composed(program, right, (*heads, rank - 1, rank - 2))
            yield _Scores(_composed(program, left, (*heads, rank - 2, rank - 1)), keys)
    elif made.op == "Einsum":
        for swapped in (False, True):
            labels = _einsum_of_scores(made, swapped, order)
            if labels is not None:
                a, b, out = labels
                (summed,) = set(a) & set(b) - set(out)
                q = tuple(a.index(x) for x in (*out[:-1], summed))
                k = tuple(b.index(x) if x in b else None for x in (*out[:-2], out[-1], summed))
                first, second = made.args[::-1] if swapped else made.args
                yield _Scores(_composed(program, str(first), q), _composed(program, str(second), k))


def _einsum_of_scores(made: Apply, swapped: bool, order: tuple[int, ...] | None) -> tuple[str, str, str] | None:
    """The labels of queries, keys and scores in an order.

    One is summed, and the last two of the scores are of one factor each.
    """
    equation = made.attrs.get("equation")
    if not isinstance(equation, str) or len(made.args) != 2 or "..." in equation:
        return None
    given, _, out = equation.replace(" ", "").partition("->")
    labels = given.split(",")
    out = out if order is None else "".join(out[i] for i in order)
    if len(labels) != 2 or len(out) < 3 or any(len(set(part)) < len(part) for part in (*labels, out)):
        return None
    a, b = labels[::-1] if swapped else labels
    summed = set(a) & set(b) - set(out)
    fits = len(summed) == 1 and set(a) == {*out[:-1], *summed} and {*out[-1:], *summed} <= set(b) <= {*out, *summed}
    return (a, b, out) if fits and out[-2] not in b else None


# what attention says itself


@rule("Attention")
def of_shared_heads(program: MatchedFunction, root: Apply) -> str | None:
    """Keys and values whose heads are repeated for groups of queries: the op does that."""
    q, k, v = (str(arg) for arg in root.args[:3])
    shape = program.shape(q)
    if shape is None or len(shape) != 4:
        return None
    keys, values = _once(program, k), _once(program, v)
    if keys is None or values is None:
        return None
    before, after = keys.shape(program), values.shape(program)
    if before is None or after is None or before[1] != after[1]:
        return None
    operands = (q, keys.written(program), values.written(program), *map(str, root.args[3:]))
    return program.apply("Attention", *operands, like=root.results[0], **root.attrs)


def _once(program: MatchedFunction, name: str) -> _View | None:
    """What a tensor of (batch, heads, sequence, size) is, of which each head is repeated."""
    view = _composed(program, name, (0, 1, 2, 3))
    repeated, heads = view.name, view.order[1]
    made = program.maker(repeated)
    if made is None or heads is None or view.factor != 1:
        return None
    if made.op == "Expand":  # one head for all
        before, after = program.shape(made.args[0]), program.shape(repeated)
        if before is None or after is None or len(before) != 4 or before[heads] != 1:
            return None
        others = [(a, b) for i, (a, b) in enumerate(zip(before, after, strict=True)) if i != heads]
        return _View(str(made.args[0]), view.order) if all(a == b for a, b in others) else None
    expand = program.maker(made.args[0]) if made.op == "Reshape" else None
    if expand is None or expand.op != "Expand":
        return None
    wide, narrow = program.shape(made.args[0]), program.shape(expand.args[0])
    after, source = program.shape(repeated), str(expand.args[0])
    if wide is None or narrow is None or after is None or len(wide) != 5 or len(narrow) != 5:
        return None
    apart = (
        narrow[heads + 1] == 1 and narrow[: heads + 1] == wide[: heads + 1] and narrow[heads + 2 :] == wide[heads + 2 :]
    )
    together = after[:heads] == wide[:heads] and after[heads + 1 :] == wide[heads + 2 :]
    if not apart or not together:
        return None
    parted = program.maker(source)
    wanted = (*narrow[: heads + 1], *narrow[heads + 2 :])
    if parted is not None and parted.op in ("Unsqueeze", "Reshape") and program.shape(parted.args[0]) == wanted:
        return _composed(program, str(parted.args[0]), view.order)
    return _View(program.squeezed(source, heads + 1), view.order)


@rule("Attention")
def causal(program: MatchedFunction, root: Apply) -> str | None:
    """A mask that hides what comes later, or also what is long ago."""
    if len(root.args) < 4 or not root.args[3] or root.attrs.get("is_causal"):
        return None
    mask, shape = str(root.args[3]), program.shape(root.args[3])
    if shape is None or len(shape) < 2 or shape[-1] != shape[-2] or any(size != 1 for size in shape[:-2]):
        return None
    rank = len(program.shape(root.args[0]) or ())
    queries, keys = ((program.shape(arg) or (None,) * 4)[2 if rank == 4 else 1] for arg in root.args[:2])
    if queries is None or queries != keys or queries != shape[-1]:
        return None
    seen = seen_by(program, mask)
    if seen is None:
        return None
    size = seen.shape[-1]
    first = [bool(sees) for sees in seen[:, 0]]
    window = first.index(False) if False in first else size
    if not (seen == looking_back(size, window)).all():
        return None
    attrs: dict[str, Any] = {**root.attrs, "is_causal": True}
    if window < size:
        attrs["window"] = window
    operands = [*map(str, root.args[:3]), "", *map(str, root.args[4:])]
    while operands[-1] == "":
        operands.pop()
    return program.apply("Attention", *operands, like=root.results[0], **attrs)


RULES = (attention, of_shared_heads, causal)
