"""The routers of mixtures of experts as one op: scores, the choice of the greatest, the weights of the chosen.

Read back from where the experts' results are added up: that has the weights, and the places that follow from the
choice. So a choice of the greatest that leads to no experts stays what it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from distir.importers.onnx_nodes import shortest
from distir.importers.recognition.rewriting import MatchedFunction, rule
from distir.ir import Apply, Constant, Shape

EPSILON = 1e-20
"""What `Route` adds to a sum of sigmoids: where as little or nothing is added, the weights are the same."""


@dataclass(slots=True)
class _Router:
    """What is known of a router, while it is read from its weights back."""

    experts: Apply
    """The choice of the greatest, which gives the experts."""
    between: set[str] = field(default_factory=set[str])
    attrs: dict[str, Constant] = field(default_factory=dict[str, Constant])
    logits: str = ""
    bias: str = ""


@rule("Unpermute")
def router(program: MatchedFunction, root: Apply) -> dict[str, str] | None:
    """The weights and the experts by which the results of experts are added up."""
    dispatch = program.maker(root.args[1])
    if dispatch is None or dispatch.op != "Dispatch" or len(root.args) < 3:
        return None
    *_, choice = _viewed(program, str(dispatch.args[0]), "Reshape", "Cast")
    chosen = program.maker(choice)
    if chosen is None or not _is_choice(program, chosen) or chosen.results[1] != choice:
        return None
    for weights in _viewed(program, str(root.args[2]), "Reshape", "Cast", "Mul"):
        found = _Router(chosen)
        if _weights(program, weights, found):
            return _written(program, weights, choice, found)
    return None


def _written(program: MatchedFunction, weights: str, experts: str, found: _Router) -> dict[str, str] | None:
    whole = program.maker(weights)
    if whole is None or not program.inner(whole, found.between - {experts}, found.experts):
        return None
    logits = _before_cast(program, found.logits, weights)
    operands = [logits, found.bias] if found.bias else [logits]
    new = program.several("Route", 2, *operands, like=weights, **found.attrs)
    return dict(zip((weights, experts), new, strict=True))


def _before_cast(program: MatchedFunction, logits: str, weights: str) -> str:
    """The logits, before they were cast to wider elements if the weights have theirs: the op computes in these."""
    made = program.maker(logits)
    if made is None or made.op != "Cast" or program.dtype(logits) == program.dtype(weights):
        return logits
    return str(made.args[0])


def _viewed(program: MatchedFunction, name: str, *ops: str) -> Iterator[str]:
    """A value, and what it is another view of by these ops."""
    yield name
    while (made := program.maker(name)) is not None and made.op in ops:
        if made.op == "Mul" and program.number(made.args[1]) is None:
            return
        name = str(made.args[0])
        yield name


def _is_choice(program: MatchedFunction, made: Apply) -> bool:
    """Whether a statement gives the greatest elements along the last dimension, and where they are."""
    last = len(program.shape(made.args[0]) or ()) - 1
    greatest = made.op == "TopK" and len(made.results) == 2 and made.attrs.get("largest", True)
    return bool(greatest) and made.attrs.get("axis", -1) in (-1, last) and program.listed(made) is not None


def _count(program: MatchedFunction, made: Apply) -> int:
    """How many elements a choice gives."""
    (count,) = program.listed(made) or (0,)
    return count


def _along_last(program: MatchedFunction, made: Apply) -> bool:
    return made.attrs.get("axis", -1) in (-1, len(program.shape(made.args[0]) or ()) - 1)


def _weights(program: MatchedFunction, name: str, found: _Router) -> bool:
    """Whether a value is the weights of the chosen experts: scaled, divided by their sum, or a softmax of their own."""
    found.attrs["top_k"] = _count(program, found.experts)
    made = program.maker(name)
    if made is None:
        return False
    found.between.add(name)
    narrowed = made if made.op == "Cast" else None
    if narrowed is not None:
        made = _next(program, narrowed, found)
    if made is not None and made.op == "Mul" and (factor := program.number(made.args[1])) is not None:
        found.attrs["scale"] = shortest(factor)
        made = _next(program, made, found)
    if made is None or not (_softmax_of_chosen(program, made, found) or _of_scores(program, made, found)):
        return False
    return narrowed is None or _widened(program, found.logits, narrowed)


def _next(program: MatchedFunction, made: Apply, found: _Router) -> Apply | None:
    found.between.add(str(made.args[0]))
    return program.maker(made.args[0])


def _widened(program: MatchedFunction, logits: str, narrowed: Apply) -> bool:
    """Whether logits were cast to wider elements from those that the weights are cast to."""
    made = program.maker(logits)
    before = None if made is None or made.op != "Cast" else program.dtype(made.args[0])
    wide = program.dtype(logits)
    if before is None or wide is None or before.kind != "float" or wide.name != "Float32":
        return False
    return before == narrowed.attrs.get("to") and before.bytes < wide.bytes


def _softmax_of_chosen(program: MatchedFunction, made: Apply, found: _Router) -> bool:
    """Whether it is the softmax of the greatest logits: of all, divided by the sum of the chosen."""
    if made.op != "Softmax" or made.args[0] != found.experts.results[0] or not _along_last(program, made):
        return False
    found.between.add(str(made.args[0]))
    found.logits = str(found.experts.args[0])
    return True


def _of_scores(program: MatchedFunction, made: Apply, found: _Router) -> bool:
    """Whether it is the scores of the chosen, perhaps divided by their sum."""
    chosen = made
    divided = made.op == "Div"
    epsilon = _over_sum(program, made, found) if divided else None
    if divided:
        if epsilon is None:
            return False
        chosen = _next(program, made, found)
    else:
        found.attrs["normalize"] = False
    if chosen is None:
        return False
    scores = _taken(program, chosen, found)
    if scores is None or not _scores(program, scores, found):
        return False
    if epsilon is not None and epsilon > EPSILON:
        found.attrs["epsilon"] = shortest(epsilon)
        return found.attrs.get("score") == "sigmoid"
    return True


def _over_sum(program: MatchedFunction, made: Apply, found: _Router) -> float | None:
    """What is added to the sum by which a value is divided, where that is its own along the last dimension."""
    total, epsilon = program.maker(made.args[1]), 0.0
    found.between.add(str(made.args[1]))
    if total is not None and total.op == "Add":
        addend = program.number(total.args[1])
        if addend is None or addend < 0:
            return None
        epsilon, total = addend, _next(program, total, found)
    if total is None or total.op != "ReduceSum" or total.args[0] != made.args[0]:
        return None
    return epsilon if program.axes(total) == (len(program.shape(made.args[0]) or ()) - 1,) else None


def _taken(program: MatchedFunction, made: Apply, found: _Router) -> str | None:
    """The scores of all experts, of which a statement gives those of the chosen."""
    experts = found.experts
    if made is experts:
        found.between.add(experts.results[0])
        return str(experts.args[0])
    if made.op != "GatherElements" or made.args[1] != experts.results[1] or not _along_last(program, made):
        return None
    scores = str(made.args[0])
    return scores if _chosen_by(program, str(experts.args[0]), scores, found) else None


def _scores(program: MatchedFunction, name: str, found: _Router) -> bool:
    """Whether a value is the softmax or the sigmoid of logits."""
    made = program.maker(name)
    if made is not None and made.op == "Where":  # the scores of other groups are 0
        scores = None if found.bias or "n_group" in found.attrs else _in_groups(program, made, found, fill=0.0)
        if scores is None:
            return False
        found.between.add(name)
        name, made = scores, program.maker(scores)  # which a loss that balances the experts may need, too
    elements = program.dtype(name)
    if made is None or made.op not in ("Softmax", "Sigmoid") or elements is None or elements.bytes < 4:
        return False  # narrow scores are rounded before the choice: some may be equal then
    if made.op == "Sigmoid":
        found.attrs["score"] = "sigmoid"
    elif not _along_last(program, made):
        return False
    found.logits = str(made.args[0])
    return True


def _chosen_by(program: MatchedFunction, name: str, scores: str, found: _Router) -> bool:
    """Whether a value ranks experts by their scores: perhaps with a bias, perhaps those of the best groups only."""
    if name == scores:
        return True
    found.between.add(name)
    made = program.maker(name)
    if made is not None and made.op == "Where":
        within = _in_groups(program, made, found, fill=float("-inf"))
        if within is None:
            return False
        name, made = within, program.maker(within)
        found.between.add(name)
    if name == scores:
        return True
    if made is None or made.op != "Add" or scores not in made.args:
        return False
    (bias,) = [str(arg) for arg in made.args if arg != scores] or [scores]
    if program.shape(bias) != (program.shape(scores) or ())[-1:]:
        return False
    found.bias = bias
    return True


def _in_groups(program: MatchedFunction, made: Apply, found: _Router, fill: float) -> str | None:
    """The values of which those of all but the best groups are replaced by `fill`."""
    condition, *ways = map(str, made.args)
    inside = program.maker(condition)
    if inside is None:
        return None
    found.between.add(condition)
    if inside.op == "Not":
        ways, inside = ways[::-1], _next(program, inside, found)
    values, other = ways
    number = program.number(other)
    if number is None or number != fill or inside is None:
        return None
    best = _groups_of_mask(program, inside, found, program.shape(values))
    grouped = None if best is None else _ranked(program, str(best.args[0]), found)
    if best is None or grouped is None or grouped.args[0] != values:
        return None
    groups = (program.shape(best.args[0]) or (None,))[-1]
    if not isinstance(groups, int) or (program.shape(grouped.results[0]) or ())[-2:-1] != (groups,):
        return None
    found.attrs.update(n_group=groups, topk_group=_count(program, best))
    return values


def _groups_of_mask(program: MatchedFunction, made: Apply | None, found: _Router, shape: Shape | None) -> Apply | None:
    """The choice of groups that a mask over experts shows: ones put into zeros, for each expert of a group."""
    for op in ("Reshape", "Expand", "Unsqueeze"):
        while made is not None and made.op == "Cast":
            made = _next(program, made, found)
        if made is None or made.op != op or (op == "Reshape" and program.shape(made.results[0]) != shape):
            return None
        if op == "Unsqueeze" and program.listed(made) not in ((-1,), (len(program.shape(made.args[0]) or ()),)):
            return None
        made = _next(program, made, found)
    if made is None or made.op != "ScatterElements" or not _along_last(program, made):
        return None
    zeros, index, ones = map(str, made.args)
    best = program.maker(index)
    if best is None or not _is_choice(program, best) or best.results[1] != index:
        return None
    if not (_is_all(program, zeros, 0, found) and _is_all(program, ones, 1, found)):
        return None
    found.between.add(index)
    return best


def _is_all(program: MatchedFunction, name: str, number: float, found: _Router) -> bool:
    """Whether all elements of a value are this number."""
    made = program.maker(name)
    if made is not None and made.op == "Expand":
        found.between.update((name, str(made.args[1])))
        name = str(made.args[0])
    known = program.known(name)
    return known is not None and all(value == number for value in known.values)


def _ranked(program: MatchedFunction, name: str, found: _Router) -> Apply | None:
    """The view of scores by group whose greatest ones are added up to rank the groups."""
    made = program.maker(name)
    found.between.add(name)
    axes = None if made is None else program.listed(made)
    if made is None or axes not in ((-1,), (len(program.shape(made.args[0]) or ()) - 1,)):
        return None
    greatest = made
    if made.op == "ReduceSum":
        best = _next(program, made, found)
        if best is None or not _is_choice(program, best) or best.results[0] != made.args[0]:
            return None
        found.attrs["topk_in_group"] = _count(program, best)
        greatest = best
    elif made.op == "ReduceMax":
        found.attrs["topk_in_group"] = 1
    else:
        return None
    view = _next(program, greatest, found)
    return view if view is not None and view.op == "Reshape" else None


RULES = (router,)
