"""What a measured step is made of: torch's ops as pieces that do not overlap, and the communication beside them.

A *piece* is an op of torch with all that it calls: the outermost one whose name is wanted, or else the outermost one
of torch's own. On a GPU it takes as long as its kernels, on a CPU as long as itself. Each communication is a piece of
its own: of NCCL the kernel, of gloo what its threads do. Times are in seconds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from distir.traces.collectives import C10D, RecordedCollective, Shape, called, collective, communicates, nbytes_of
from distir.traces.records import MODULE, RankTrace, RecordedKernel, RecordedOp, covered, walk

FORWARD, BACKWARD, OPTIMIZER = "forward", "backward", "optimizer"

UPDATES = "optimizer step"
"""What all ops of an optimizer are called together: torch runs them tensor by tensor, or all at once."""

PRODUCTS = frozenset(
    ["mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "addmm_activation", "scaled_mm", "linear", "matmul", "_linear"]
)
"""Torch's matrix products, without underscores around their names. The last ones are made of others, mostly."""

COMPOSED = frozenset(["linear", "matmul"])

_ATTENTION = re.compile(r"scaled_dot_product|flash_attn|flash_attention|efficient_attention|fused_attn|fmha", re.I)
_TRITON = re.compile(r"triton_(?:poi|red|per|tem|for)_fused_(.*?)_?\d*$")
_ENGINE = "autograd::engine::evaluate_function"
_OPTIMIZER = "Optimizer."

Size = tuple[str | int, ...]
"""What two pieces have in common that do the same work: of a product its sizes, of others their elements."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A torch op of one step. `names`: its own, and those of the ops inside it, plain; `modules`: outermost first.

    `waited`: of `seconds`, what a communication spent until the last rank had come, where that is known.
    """

    label: str
    names: tuple[str, ...]
    phase: str
    modules: tuple[str, ...]
    size: Size | None
    start: float
    end: float
    seconds: float
    collective: RecordedCollective | None = None
    waited: float = 0.0
    shapes: tuple[Shape, ...] = ()

    @property
    def kind(self) -> str:
        """What it does, for totals: the pattern of a communication, the optimizer's step, or torch's op."""
        if self.collective is not None:
            return self.collective.pattern
        return UPDATES if self.phase == OPTIMIZER else self.label


@dataclass(frozen=True, slots=True)
class StepActivity:
    """The pieces of a step of a rank, in order. `spans`: from start to end of what keeps its device busy."""

    rank: int
    number: int | None
    seconds: float
    pieces: tuple[Piece, ...]
    spans: tuple[tuple[float, float], ...]

    @property
    def busy(self) -> float:
        """Seconds in which something runs."""
        return covered(self.spans)

    @property
    def idle(self) -> float:
        """Seconds in which nothing does."""
        return max(0.0, self.seconds - self.busy)

    @property
    def communication(self) -> float:
        """Seconds in which something is communicated."""
        return covered([(p.start, p.end) for p in self.pieces if p.collective])

    @property
    def exposed(self) -> float:
        """Seconds in which something is communicated, and nothing is computed."""
        computing = [(p.start, p.end) for p in self.pieces if not p.collective]
        everything = covered([(p.start, p.end) for p in self.pieces])
        return everything - covered(computing)


def plain(name: str) -> str:
    """Torch's name of an op without namespace, and without the underscores of inner and of overwriting variants."""
    return name.rpartition("::")[2].strip("_")


def steps_of(trace: RankTrace) -> list[int]:
    """The steps that count, by index: of more than two, all but the first, which the profiler disturbs most."""
    found = list(range(len(trace.steps)))
    return found[1:] if len(found) > 2 else found


def activities(trace: RankTrace, rank: int, wanted: Collection[str] = ()) -> list[StepActivity]:
    """What each step that counts is made of. `wanted`: plain names of ops that pieces are to be of."""
    names = frozenset(wanted) | (PRODUCTS - COMPOSED)
    pieces: dict[int, list[Piece]] = {index: [] for index in steps_of(trace)}
    modules = _modules(trace)

    for step, piece in _pieces(trace, names, modules):
        if step in pieces:
            pieces[step].append(piece)
    spans = _spans(trace, pieces)
    return [
        StepActivity(
            rank,
            trace.steps[index].number,
            trace.steps[index].seconds,
            tuple(sorted(own, key=lambda piece: piece.start)),
            tuple(spans[index]),
        )
        for index, own in pieces.items()
    ]


def without_waiting(ranks: Mapping[int, Sequence[StepActivity]]) -> dict[int, list[StepActivity]]:
    """The same, where a communication takes as long as on the rank that came last, and the rest of it is waiting.

    By rank, its steps. The n-th message of a group, a pattern and a size is the same one on all ranks of the group, if
    they have as many in the step; where the group is not stated, on all ranks, but for sends among more than two.
    """
    found = {rank: list(steps) for rank, steps in ranks.items()}
    for index in range(min((len(steps) for steps in found.values()), default=0)):
        pieces = {rank: list(steps[index].pieces) for rank, steps in found.items()}
        messages: dict[_Group, dict[int, list[int]]] = {}
        for rank, own in pieces.items():
            for place, piece in enumerate(own):
                if piece.collective is not None:
                    messages.setdefault(_group(piece.collective), {}).setdefault(rank, []).append(place)
        for (members, pattern, _), places in messages.items():
            expected = set(members or found)
            counts = {len(own) for own in places.values()}
            if set(places) != expected or len(counts) > 1 or (pattern == "send" and len(expected) > 2):
                continue
            for same in zip(*places.values(), strict=True):
                message: dict[int, int] = dict(zip(places, same, strict=True))
                least = min(pieces[rank][place].seconds for rank, place in message.items())
                for rank, place in message.items():
                    pieces[rank][place] = _shortened(pieces[rank][place], least)
        for rank, own in pieces.items():
            found[rank][index] = replace(found[rank][index], pieces=tuple(own))
    return found


_Group = tuple[tuple[int, ...] | None, str, int | None]


def _group(found: RecordedCollective) -> _Group:
    """What the ranks of a message agree in; of a send, which one rank receives, not in its direction."""
    nbytes = max(found.nbytes or 0, found.received or 0) if found.pattern == "send" else found.nbytes
    return found.ranks, found.pattern, nbytes


def _shortened(piece: Piece, seconds: float) -> Piece:
    return replace(piece, seconds=seconds, waited=piece.seconds - seconds)


# Pieces.


def _pieces(
    trace: RankTrace, names: frozenset[str], modules: dict[int, tuple[str, ...]]
) -> Iterator[tuple[int, Piece]]:
    issued = _issued(trace)
    for outermost in trace.threads.values():
        for op, phase, path in _chosen(outermost, names, trace.on_gpu, modules):
            step = trace.step_of(op.start)
            if step is not None:
                piece = _of_op(op, phase, path, trace.on_gpu)
                if piece is not None:
                    yield step, piece
    if trace.on_gpu:
        linked = {
            id(kernel) for own in trace.threads.values() for op in walk(own) if not _marks(op) for kernel in op.kernels
        }
        for kernel in trace.kernels:
            step = trace.step_of(kernel.start if kernel.launched is None else kernel.launched)
            if step is not None and (kernel.collective or id(kernel) not in linked):
                yield step, _of_kernel(kernel)
        return
    for step, op, found in issued:
        yield (
            step,
            Piece(op.name, (found.pattern,), _BY_NONE, (), None, op.start, op.end, op.seconds, found, 0.0, ()),
        )


_BY_NONE = ""
"""The phase of what is in none, as communication on threads of its own."""


def _marks(op: RecordedOp) -> bool:
    """Whether kernels that were launched right in an op are pieces of their own."""
    return op.region or communicates(op.name)


def _issued(trace: RankTrace) -> list[tuple[int, RecordedOp, RecordedCollective]]:
    """What gloo's threads communicate, by step; where each request is one message, in the pattern that it asks for."""
    if trace.on_gpu:
        return []
    asked: dict[int, list[RecordedOp]] = {}
    done: dict[int, list[RecordedOp]] = {}
    for message in trace.messages:
        if (step := trace.step_of(message.start)) is not None:
            done.setdefault(step, []).append(message)
    for op in (op for own in trace.threads.values() for op in walk(own) if op.name.startswith(C10D)):
        if (step := trace.step_of(op.start)) is not None:
            asked.setdefault(step, []).append(op)
    found: list[tuple[int, RecordedOp, RecordedCollective]] = []
    for step in sorted({*asked, *done}):
        requests = sorted((op for op in asked.get(step, []) if _requested(op)), key=lambda op: op.start)
        messages = sorted(done.get(step, []), key=lambda op: op.start)
        alike = len(requests) == len(messages)
        for index, message in enumerate(messages):
            own = _message(message, message)
            request = _message(requests[index], message) if alike else None
            if (stated := request or own) is not None:
                found.append((step, message, stated))
    return found


def _requested(op: RecordedOp) -> bool:
    return called(op.name) is not None


def _message(op: RecordedOp, message: RecordedOp) -> RecordedCollective | None:
    dtype = next((kind for kind in message.dtypes if kind not in ("", "Scalar", "ScalarList", "TensorList")), "")
    return collective(op.name, nbytes_of(message.shapes, dtype))


def _chosen(
    outermost: Sequence[RecordedOp], names: frozenset[str], on_gpu: bool, modules: dict[int, tuple[str, ...]]
) -> Iterator[tuple[RecordedOp, str, tuple[str, ...]]]:
    """The ops that are pieces, each with its phase and the modules that it is in."""
    inside = _holding(outermost, names)
    pending = [(op, FORWARD, ()) for op in reversed(outermost)]
    while pending:
        op, phase, path = pending.pop()
        if communicates(op.name):
            pending += [(part, phase, path) for part in reversed(op.inside) if on_gpu]
            continue
        if op.name.startswith(_ENGINE):
            phase = BACKWARD
        elif op.name.startswith(_OPTIMIZER):
            phase = OPTIMIZER
        if op.name.startswith(MODULE):
            path = (*path, op.name.removeprefix(MODULE))
        if op.sequence is not None and phase == BACKWARD:
            path = modules.get(op.sequence, path)
        own = plain(op.name) in names or _fused(op.name) or _ATTENTION.search(op.name) is not None
        outer = op.name.startswith("aten::") and id(op) not in inside
        last = not op.inside and (bool(op.kernels) if on_gpu else "::" in op.name)
        if not op.region and (last or own or outer):
            yield op, phase, path
        else:
            if on_gpu and op.kernels and not op.region:
                yield replace(op, inside=[]), phase, path
            pending += [(part, phase, path) for part in reversed(op.inside)]


def _holding(outermost: Sequence[RecordedOp], names: frozenset[str]) -> set[int]:
    """The ops that have one inside whose name is wanted, or that communicates."""
    found: set[int] = set()
    for op in reversed(list(walk(outermost))):
        if any(id(part) in found or plain(part.name) in names or part.name.startswith(C10D) for part in op.inside):
            found.add(id(op))
    return found


def _fused(name: str) -> bool:
    return _TRITON.match(name) is not None


def _modules(trace: RankTrace) -> dict[int, tuple[str, ...]]:
    """By autograd's number of an op: the modules that the forward pass called it in."""
    found: dict[int, tuple[str, ...]] = {}
    for outermost in trace.threads.values():
        pending: list[tuple[RecordedOp, tuple[str, ...]]] = [(op, ()) for op in reversed(outermost)]
        while pending:
            op, path = pending.pop()
            if op.name.startswith(_ENGINE):
                continue
            if op.name.startswith(MODULE):
                path = (*path, op.name.removeprefix(MODULE))
            if op.sequence is not None and path:
                found[op.sequence] = path
            pending += [(part, path) for part in reversed(op.inside)]
    return found


def _of_op(op: RecordedOp, phase: str, path: tuple[str, ...], on_gpu: bool) -> Piece | None:
    every = list(walk([op]))
    names = tuple(dict.fromkeys(plain(part.name) for part in every))
    if (fused := _TRITON.match(op.name)) is not None:
        names = (*names, *fused[1].split("_"))
    shapes = tuple(op.shapes)
    size = _size(op)
    if not on_gpu:
        return Piece(op.name, names, phase, path, size, op.start, op.end, op.seconds, None, 0.0, shapes)
    kernels = [kernel for part in every for kernel in part.kernels if kernel.collective is None]
    if not kernels:
        return None
    start, end = min(kernel.start for kernel in kernels), max(kernel.end for kernel in kernels)
    seconds = sum(kernel.end - kernel.start for kernel in kernels)
    return Piece(op.name, names, phase, path, size, start, end, seconds, None, 0.0, shapes)


def _of_kernel(kernel: RecordedKernel) -> Piece:
    found = kernel.collective
    names = (kernel.name,) if found is None else (found.pattern,)
    seconds = kernel.end - kernel.start
    return Piece(kernel.name, names, _BY_NONE, (), None, kernel.start, kernel.end, seconds, found, 0.0, ())


def _size(op: RecordedOp) -> Size | None:
    shapes = op.shapes
    if not shapes:
        return None
    name = plain(op.name)
    if name in PRODUCTS and (found := product_of(name, shapes)) is not None:
        return found
    if _ATTENTION.search(op.name) is not None:
        return ("attention", "backward" in op.name.lower(), math.prod(shapes[0]))
    return ("elements", max(math.prod(shape) for shape in shapes))


def product_of(name: str, shapes: Sequence[Shape]) -> Size | None:
    """The sizes of a matrix product by the shapes of its operands; None where they are not as they should be."""
    factors = shapes[1:3] if name.startswith(("addm", "badd")) else shapes[:2]
    if len(factors) < 2 or not factors[0] or not factors[1]:
        return None
    left, right = factors
    if name == "linear":
        return product_size(math.prod(left[:-1]), right[0], left[-1], 1)
    if len(right) == 1:
        return product_size(math.prod(left[:-1]), 1, left[-1], 1)
    if len(left) < 2:
        return None
    if len(right) == 2:
        return product_size(math.prod(left[:-1]), right[-1], left[-1], 1)
    return product_size(left[-2], right[-1], left[-1], math.prod(left[:-2]))


def product_size(m: int, n: int, k: int, batch: int) -> Size:
    """`batch` products of m × k by k × n; a transposed product is the same."""
    return ("product", batch, k, min(m, n), max(m, n))


# How busy a device is.


def _spans(trace: RankTrace, pieces: dict[int, list[Piece]]) -> dict[int, list[tuple[float, float]]]:
    """By step: what keeps a device busy, within the step."""
    found: dict[int, list[tuple[float, float]]] = {}
    for index, own in pieces.items():
        step = trace.steps[index]
        inside = [(p.start, p.end) for p in own]
        if trace.on_gpu:
            inside = [(k.start, k.end) for k in trace.kernels if k.end > step.start and k.start < step.end]
        found[index] = [(max(a, step.start), min(b, step.end)) for a, b in inside if b > step.start and a < step.end]
    return found
