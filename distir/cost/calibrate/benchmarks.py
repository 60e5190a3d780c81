"""Microbenchmarks, as programs. Knows no hardware and no torch.

A benchmark is a function that is lowered and run as any program is. So what is measured is what an op costs in the
generated program: the call, the memory for its result, and the work. On CPUs, a benchmark of an op that computes holds
the op once, and others run in between: in a program no op finds its code and all its operands
in the caches, as one does that is repeated. GPUs start ops ahead of time, so there the op is repeated.

A benchmark of messages computes between them, as programs do; what the products take that it computes is measured by a
benchmark of the same group that sends nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import cast

from distir.ir import Apply, Function, Param, Return, TensorType, Type
from distir.ops import OPS, Value, canonical, infer_types, type_of, work
from distir.ops.resources import Communication, Work
from distir.syntax import parse_example

WORKING_SET = 16 << 20
"""Bytes that the operands of a repeated op have together, where it takes no more than `MOST_SETS` of them."""

MOST_SETS = 16
TARGET_S = 2e-3
"""Seconds that one run of a repeated op should take: a clock's error does not count then."""

COLUMNS = 256
"""The row length of tensors that ops work on row by row, as far as they are large enough."""

ELEMENTS = tuple(1 << power for power in (8, 11, 14, 16, 18, 20, 22))
"""Elements of a benchmark's first operand, by size."""

ELEMENTS_GPU = tuple(1 << power for power in (10, 14, 18, 20, 22, 24, 26))
"""Those on a GPU, which takes as long for any of the small ones."""

STREAMING = {
    "Add": "%z = Add(%x: T(r, c), %y: T(r, c))",
    "Sub": "%z = Sub(%x: T(r, c), %y: T(r, c))",
    "Mul": "%z = Mul(%x: T(r, c), 0.5)",
    "Div": "%z = Div(%x: T(r, c), %y: T(r, c))",
    "Sum": "%z = Sum(%x: T(r, c), %y: T(r, c))",
    "Relu": "%z = Relu(%x: T(r, c))",
    "ReluGrad": "%z = ReluGrad(%y: T(r, c), %x: T(r, c))",
    "Gelu": '%z = Gelu[approximate = "tanh"](%x: T(r, c))',
    "GeluGrad": '%z = GeluGrad[approximate = "tanh"](%y: T(r, c), %x: T(r, c))',
    "Sigmoid": "%z = Sigmoid(%x: T(r, c))",
    "Tanh": "%z = Tanh(%x: T(r, c))",
    "Where": "%z = Where(%m: Bool(r, c), %x: T(r, c), -inf)",
    "Softmax": "%z = Softmax(%x: T(r, c))",
    "SoftmaxGrad": "%z = SoftmaxGrad(%y: T(r, c), %x: T(r, c))",
    "LayerNormalization": "%z = LayerNormalization(%x: T(r, c), %s: T(c), %b: T(c))",
    "LayerNormalizationGrad": "%z, %u, %v = LayerNormalizationGrad(%y: T(r, c), %x: T(r, c), %s: T(c))",
    "RMSNormalization": "%z = RMSNormalization(%x: T(r, c), %s: T(c))",
    "RMSNormalizationGrad": "%z, %u = RMSNormalizationGrad(%y: T(r, c), %x: T(r, c), %s: T(c))",
    "Swish": "%z = Swish(%x: T(r, c))",
    "SwishGrad": "%z = SwishGrad(%y: T(r, c), %x: T(r, c))",
    "RotaryEmbedding": "%z = RotaryEmbedding(%x: T(1, 4, q, c), %u: T(1, q, h), %v: T(1, q, h))",
    "ReduceSum": "%z = ReduceSum[keepdims = false](%x: T(r, c), [0])",
    "ReduceMean": "%z = ReduceMean[keepdims = false](%x: T(r, c), [1])",
    "MSELoss": "%z = MSELoss(%x: T(r, c), %y: T(r, c))",
    "MSELossGrad": "%z = MSELossGrad(%d: T(), %x: T(r, c), %y: T(r, c))",
    "SoftmaxCrossEntropyLoss": "%z = SoftmaxCrossEntropyLoss(%x: T(r, c), %i: Int64(r))",
    "SoftmaxCrossEntropyLossGrad": "%z = SoftmaxCrossEntropyLossGrad(%d: T(), %x: T(r, c), %i: Int64(r))",
    "Gather": "%z = Gather[axis = 0](%x: T(256, c), %i: Int64(r))",
    "GatherGrad": "%z = GatherGrad[axis = 0](%y: T(r, c), %i: Int64(r), shape(256, c))",
    "Concat": "%z = Concat[axis = 1](%x: T(r, c), %y: T(r, c))",
    "Split": "%z, %u = Split[axis = 1, num_outputs = 2](%x: T(r, c))",
    "SGD": "%z = SGD[lr = 0.01](%x: T(r, c), %y: T(r, c))",
    "Adam": "%z, %u, %v = Adam(%x: T(r, c), %y: T(r, c), %m: T(r, c), %n: T(r, c), 1)",
}
"""Ops that stream their operands through memory, by name: the statement that is repeated. `T(…)` is a tensor of the
element type measured, with `r` rows and `c` columns; `q` is a quarter of the rows, `h` half of the columns."""

VIEWS = {
    "Reshape": "%z = Reshape(%x: T(r, c), shape(c, r))",
    "Flatten": "%z = Flatten(%x: T(r, c))",
    "Unsqueeze": "%z = Unsqueeze(%x: T(r, c), [0])",
}
"""Ops that move nothing: what is measured is that torch is asked."""

TRANSPOSED = "%z = Transpose[perm = [0, 2, 1, 3]](%x: T(b, t, h, e))"
"""The transposition around the heads of attention; measured with a `Reshape` after it, which makes the copy that torch
puts off."""

PRODUCTS = {
    "MatMul": ("%z = MatMul(%x: T(m, k), %y: T(k, n))", "%z = MatMul(%x: T(b, m, k), %y: T(b, k, n))"),
    "Gemm": (
        "%z = Gemm(%x: T(m, k), %y: T(k, n), %b: T(n))",
        "%z = Gemm[transA = true](%x: T(k, m), %y: T(k, n))",
        "%z = Gemm[transB = true](%x: T(m, k), %y: T(n, k))",
    ),
}
"""Matrix products by op, in the layouts that a layer needs forward and backward."""

SHAPES = tuple(
    {"m": m, "k": k, "n": n}
    for m in (8, 64, 512)
    for k, n in ((64, 64), (256, 256), (256, 1024), (1024, 256), (1024, 1024))
)
"""Rows, inner and outer width of products."""

SHAPES_GPU = tuple(
    {"m": m, "k": k, "n": n}
    for m in (16, 128, 1024, 4096, 16384)
    for k, n in ((1024, 1024), (1024, 4096), (4096, 1024), (4096, 4096), (4096, 14336), (14336, 4096))
)
"""Those on a GPU: of layers of language models."""

BATCHED = tuple({"b": b, "m": t, "k": k, "n": n} for b in (8, 64) for t in (16, 64, 128) for k, n in ((32, t), (t, 32)))
"""Those of batched products, as in attention."""

BATCHED_GPU = tuple(
    {"b": b, "m": t, "k": k, "n": n} for b in (32, 128) for t in (256, 512, 1024) for k, n in ((128, t), (t, 128))
)

ATTENTION = {
    "Attention": "%z = Attention[is_causal = true](%x: T(b, h, t, e), %y: T(b, h, t, e), %v: T(b, h, t, e))",
    "AttentionGrad": "%z, %u, %w = AttentionGrad[is_causal = true](%d: T(b, h, t, e), %x: T(b, h, t, e), "
    "%y: T(b, h, t, e), %v: T(b, h, t, e), %o: T(b, h, t, e), %l: Float32(b, h, t))",
}
"""Fused attention: causal, forward and backward, as many queries as keys."""

SEQUENCES = tuple({"b": b, "h": h, "t": t, "e": 64} for b, h in ((1, 4), (4, 8)) for t in (16, 64, 128, 512))
SEQUENCES_GPU = tuple(
    {"b": b, "h": h, "t": 1 << power, "e": e}
    for b, h in ((1, 8), (1, 16), (1, 32), (2, 32), (4, 32), (8, 32))
    for power in range(8, 15)
    for e in (64, 128)
)

MOST_TOKENS = 2048
"""The longest of those in other element types than the first."""

FEWER = tuple({"m": m, "k": k, "n": n} for m, k, n in ((64, 256, 256), (512, 256, 1024), (512, 1024, 1024)))
"""The shapes that other element types than the first are measured in."""

FEWER_GPU = SHAPES_GPU[7::2]

MEASURED = ("Float32", "Float16", "BFloat16", "Float64")
"""Element types that can be measured."""

BETWEEN = "%f_{d} = MatMul(%a_{d}: T(m, k)@{d}, %b_{d}: T(k, k)@{d})"
"""The computation of each device before each message."""

BETWEEN_SIZES = {"m": 64, "k": 256}
PRODUCTS_ALONE = 32
"""How many of these products the benchmark of a group has that sends nothing."""

BESIDE = 64
"""How many products are computed while one collective runs beside them on a stream of its own."""

BESIDE_TURNS = 4
BESIDE_ELEMENTS = (1 << 8, 1 << 15, 1 << 18)
"""Elements of that collective, an all-reduce: what beginning it takes, and what it takes by its length, differ."""

BESIDE_ELEMENTS_GPU = (1 << 8, 1 << 20, 1 << 24, 1 << 26)
BESIDE_SIZES, BESIDE_SIZES_GPU = BETWEEN_SIZES, {"m": 2048, "k": 2048}

AT_ONCE_ELEMENTS = 1 << 20
"""Elements of the all-reduce that several groups across nodes run at once: long enough for its bandwidth to count."""

AT_ONCE_TURNS = 8
MESSAGES = tuple(1 << power for power in (8, 12, 15, 18, 20, 22))
"""Elements of messages, of four bytes."""

MESSAGES_GPU = (*MESSAGES, 1 << 24, 1 << 26)

ROOTED = {
    "MPIBroadcast": "{results} = MPIBroadcast[devices = [{group}]](%x_{root}: T(n)@{root})",
    "MPIScatter": "{results} = MPIScatter[devices = [{group}]](%x_{root}: T(n)@{root})",
    "MPIGather": "%z = MPIGather[root = {root}]({parts})",
    "MPIReduce": "%z = MPIReduce[root = {root}]({wholes})",
}
"""Collectives with a root, by name. `wholes` has a tensor of `n` elements for each device, `parts` a part of one."""

SYMMETRIC = {
    "MPIAllgather": "{results} = MPIAllgather({parts})",
    "MPIAllreduce": "{results} = MPIAllreduce({wholes})",
    "MPIReduceScatter": "{results} = MPIReduceScatter({wholes})",
    "MPIAlltoall": "{results} = MPIAlltoall({wholes})",
}


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A function that has an op `repeats` times; what each does is `work`, on the devices `devices`.

    `nbytes`: of the operands of one of them. `viewed`: each is followed by a view of its result. `products`: each of
    them is `BESIDE` products in turn, and `beside` the collective that runs on a stream of its own meanwhile.
    `at_once`: groups across nodes run one each, those of these ranks of a node. `mixed`: it has its op once, and is
    timed among others of its size.
    """

    op: str
    work: Work
    devices: tuple[int, ...]
    repeats: int
    function: Function
    nbytes: int = 0
    viewed: bool = False
    beside: Communication | None = None
    products: bool = False
    at_once: tuple[int, ...] = ()
    mixed: bool = False

    @property
    def name(self) -> str:
        """The name of its function."""
        return self.function.name

    @property
    def between(self) -> bool:
        """Whether this is what is computed between messages, without them."""
        return self.work.communication is None and len(self.devices) > 1 and not self.products


def computing(dtypes: Sequence[str] = ("Float32",), most: int | None = None, gpus: bool = False) -> list[Benchmark]:
    """Benchmarks of one device: all ops in the first element type, some in the others.

    `most`: elements of the largest operand. `dtypes` are some of `MEASURED`. `gpus`: each has its op many times, and
    operands are as large as a GPU needs to compute at its rates.
    """
    sizes, shapes, batched, fewer, attention = (
        (ELEMENTS_GPU, SHAPES_GPU, BATCHED_GPU, FEWER_GPU, SEQUENCES_GPU)
        if gpus
        else (ELEMENTS, SHAPES, BATCHED, FEWER, SEQUENCES)
    )
    most = most or max(sizes)
    found: list[Benchmark] = []
    for dtype in dtypes:
        first = dtype == dtypes[0]
        for op, examples in PRODUCTS.items():
            for example in examples if first else examples[:1]:
                chosen = batched if "b," in example else shapes if first else fewer
                fitting = [s for s in chosen if max(s["m"] * s["k"], s["k"] * s["n"]) * s.get("b", 1) <= most]
                found += [_computing(op, example, dtype, shape, gpus) for shape in fitting]
        sequences = attention if first else [s for s in attention[1::2] if s["t"] <= MOST_TOKENS]
        sequences = [s for s in sequences if math.prod(s.values()) <= most]
        found += [_computing(op, text, dtype, shape, gpus) for op, text in ATTENTION.items() for shape in sequences]
        own = [n for n in (sizes if first else sizes[1::2]) if n <= most]
        streaming = STREAMING if first else {op: STREAMING[op] for op in ("Add", "Relu", "SGD")}
        found += [_computing(op, text, dtype, _rows(n), gpus) for op, text in streaming.items() for n in own]
        if first:
            found += [_computing(op, text, dtype, _rows(n), gpus) for op, text in VIEWS.items() for n in own[:3]]
            heads = [_heads(n) for n in own if n >= 1 << 11]
            found += [_computing("Transpose", TRANSPOSED, dtype, shape, gpus) for shape in heads]
    return _named(found)


def communicating(
    devices: int, local: int | None = None, most: int | None = None, gpus: bool = False
) -> list[Benchmark]:
    """Benchmarks of messages among 2, 4, 8 … and all devices of the first node, and among the first ones of nodes.

    Also of products beside a collective of the first node, and of groups across nodes that run at once. `local`: how
    many of the `devices` a node has (all, unless given); `most`: elements of the largest message; `gpus`: products and
    messages are large enough to fill one.
    """
    local, sizes = local or devices, MESSAGES_GPU if gpus else MESSAGES
    most = most or max(sizes)
    inner = [tuple(range(1, n + 1)) for n in _counts(local)]
    outer = [tuple(range(1, n * local + 1, local)) for n in _counts(devices // local)]
    sizes = [n for n in sizes if n <= most]
    found: list[Benchmark] = []
    for groups in (inner, outer):
        found += [_round_trip(n, groups[0]) for n in sizes if groups]
        for group in groups:
            found.append(_products(group))
            for op, text in {**ROOTED, **SYMMETRIC}.items():
                found += [_message(op, text, n, group) for n in sizes]
    for group in inner[-1:]:
        of, lengths = (BESIDE_SIZES_GPU, BESIDE_ELEMENTS_GPU) if gpus else (BESIDE_SIZES, BESIDE_ELEMENTS)
        # As long as the messages that are measured alone, whose parts are equal.
        found += [_beside(n // len(group) * len(group), group, of) for n in (0, *lengths) if n <= most]
    if 1 < local < devices:
        chosen = [*combinations(range(local), 1), *combinations(range(local), 2)]
        found += [_at_once(min(most, AT_ONCE_ELEMENTS), ranks, local, devices) for ranks in chosen]
    return _named(found)


def _counts(devices: int) -> list[int]:
    return sorted({n for n in (2, 4, 8, 16, 32, 64) if n < devices} | {devices}) if devices > 1 else []


def _named(found: Sequence[Benchmark]) -> list[Benchmark]:
    return [
        replace(
            b, function=Function(f"{'between' if b.between else b.op.lower()}_{i}", b.function.params, b.function.body)
        )
        for i, b in enumerate(found)
    ]


def _rows(elements: int) -> dict[str, int]:
    columns = min(COLUMNS, elements // 4)
    return {"r": elements // columns, "c": columns, "q": elements // columns // 4, "h": columns // 2}


def _heads(elements: int) -> dict[str, int]:
    """Four heads of 32, and up to 64 rows."""
    rows = min(64, elements // 128)
    return {"b": elements // 128 // rows, "t": rows, "h": 4, "e": 32}


def _spelled(example: str, dtype: str, sizes: Mapping[str, int]) -> str:
    """The statement with types and numbers in the place of `T(r, c)@1` and `shape(r, c)`."""

    def written(match: re.Match[str]) -> str:
        dims = [str(sizes.get(d, d)) for d in (part.strip() for part in match[2].split(",")) if d]
        if match[1] == "shape":
            return f"[{', '.join(dims)}]"
        shape = ", ".join(dims) + ("," if len(dims) == 1 else "")
        return f"Tensor[{dtype if match[1] == 'T' else match[1]}, ({shape}), {match[3] or 1}]"

    return re.sub(r"\b(T|Bool|Int64|Float32|shape)\(([^()]*)\)(?:@(\d+))?", written, example)


def _computing(op: str, example: str, dtype: str, sizes: Mapping[str, int], repeated: bool) -> Benchmark:
    params, statement = parse_example(_spelled(example, dtype, sizes), canonical)
    done, nbytes = _work(statement, params), sum(_nbytes(p) for p in params)
    sets = max(1, min(MOST_SETS, WORKING_SET // nbytes)) if repeated else 1
    # Ops that donate an operand do so only at its last use: use each operand once.
    repeats = sets if OPS[op].inplace or not repeated else _often(done, sets)
    heads = tuple(Param(f"{p.name}_{turn}", p.type) for turn in range(sets) for p in params)
    body: list[Apply] = []
    for i in range(repeats):
        body.append(_turn(statement, i, f"_{i % sets}"))
        if op == "Transpose":
            rows = f"%f = Reshape(%z: T(b, h, t, e), [{sizes['b']}, {sizes['h']}, -1])"
            _, flat = parse_example(_spelled(rows, dtype, sizes), canonical)
            body.append(replace(_turn(flat, i, ""), args=(f"z_of_{i}", flat.args[1])))
    function = Function("", heads, (*body, Return((body[-1].results[0],))))
    return Benchmark(op, done, (1,), repeats, function, nbytes, viewed=op == "Transpose", mixed=not repeated)


def _turn(statement: Apply, i: int, operands: str) -> Apply:
    """The statement the `i`-th time: with results of its own, on operands whose names end so."""
    results = tuple(f"{name}_of_{i}" for name in statement.results)
    args = tuple(f"{a}{operands}" if isinstance(a, str) else a for a in statement.args)
    return Apply(results, statement.op, args, statement.attrs)


def _work(statement: Apply, params: Sequence[Param]) -> Work:
    op, types = OPS[statement.op], {p.name: p.type for p in params}
    args = tuple(cast("Value", types[a] if isinstance(a, str) else a) for a in statement.args)
    results = infer_types(op, args, statement.attrs, len(statement.results))
    return work(op, args, [type_of(t) for t in results], statement.attrs)


def _nbytes(param: Param) -> int:
    stated: Type = param.type
    assert isinstance(stated, TensorType)
    return cast("int", stated.nbytes)


def _often(done: Work, sets: int) -> int:
    """How often an op is repeated to take about `TARGET_S` on a slow machine."""
    guess = 5e-6 + done.flops / 30e9 + done.bytes / 8e9
    return max(min(sets, 4), min(32, math.ceil(TARGET_S / guess)))


def _round_trip(elements: int, group: Sequence[int]) -> Benchmark:
    """A tensor sent there, and one sent back; each sender computes before, while the other waits."""
    pairs = (group[:2], group[1::-1])
    turns = [f"%z = Send[device = {there}](%x_{here}: T(n)@{here})" for here, there in pairs]
    return _exchange("Send", turns, elements, group[:2], [pair[:1] for pair in pairs])


def _message(op: str, text: str, elements: int, group: Sequence[int]) -> Benchmark:
    """A collective. Each of the group has its turn as the root, so that none runs ahead."""
    texts = [
        text.format(
            root=root,
            group=", ".join(map(str, group)),
            results=", ".join(f"%z_{d}" for d in group),
            wholes=", ".join(f"%x_{d}: T(n)@{d}" for d in group),
            parts=", ".join(f"%x_{d}: T(p)@{d}" for d in group),
        )
        for root in (group if op in ROOTED else group[:1])
    ]
    return _exchange(op, texts, elements // len(group) * len(group), group, [group] * len(texts))


def _exchange(
    op: str, texts: Sequence[str], elements: int, group: Sequence[int], busy: Sequence[Sequence[int]]
) -> Benchmark:
    """The messages in turn. `busy`: for each of them, who computes before it."""
    sizes = {"n": elements, "p": elements // len(group)}
    turns = [parse_example(_spelled(text, "Float32", sizes), canonical) for text in texts]
    products = [_between(devices) for devices in busy]
    params = {p.name: p for statements in (turns, *products) for own, _ in statements for p in own}
    often = max(1, (4 if elements >= 1 << 18 else 16) // len(turns))
    body: list[Apply] = []
    for i in range(often * len(turns)):
        body += [_turn(product, i, "") for _, product in products[i % len(turns)]]
        body.append(_turn(turns[i % len(turns)][1], i, ""))
    function = Function("", tuple(params.values()), (*body, Return((body[-1].results[0],))))
    done = _work(turns[0][1], turns[0][0])
    return Benchmark(op, done, tuple(group), often * len(turns), function)


def _products(group: Sequence[int]) -> Benchmark:
    """The computation of a group's message benchmarks, without the messages."""
    products = _between(group)
    params = tuple(p for own, _ in products for p in own)
    body = [_turn(product, i, "") for i in range(PRODUCTS_ALONE) for _, product in products]
    function = Function("", params, (*body, Return(tuple(s.results[0] for s in body[-len(group) :]))))
    done = _work(products[0][1], products[0][0])
    return Benchmark("MatMul", done, tuple(group), PRODUCTS_ALONE, function)


def _beside(elements: int, group: Sequence[int], sizes: Mapping[str, int]) -> Benchmark:
    """Products of all devices of a group, beside an all-reduce of so many elements on a stream; of none: alone."""
    products = _between(group, sizes)
    wholes = ", ".join(f"%x_{d}: T({elements or 1})@{d}" for d in group)
    results = ", ".join(f"%z_{d}" for d in group)
    params, reduce = parse_example(_spelled(f"{results} = MPIAllreduce({wholes})", "Float32", {}), canonical)
    body: list[Apply] = []
    for turn in range(BESIDE_TURNS):
        if elements:
            body.append(replace(_turn(reduce, turn, ""), stream="beside"))
        body += [_turn(product, turn * BESIDE + i, "") for i in range(BESIDE) for _, product in products]
    needed = tuple(p for own, _ in products for p in own) + (params if elements else ())
    returned = tuple(s.results[0] for s in body[-len(group) :])
    function = Function("", needed, (*body, Return(returned)))
    done = _work(products[0][1], products[0][0])
    communication = _work(reduce, params).communication if elements else None
    return Benchmark(
        "MatMul", done, tuple(group), BESIDE_TURNS, function, beside=communication, products=True
    )  # fmt: skip


def _at_once(elements: int, ranks: tuple[int, ...], local: int, devices: int) -> Benchmark:
    """An all-reduce of each group that has these ranks of every node, all groups at once."""
    groups = [tuple(range(rank + 1, devices + 1, local)) for rank in ranks]
    size = {"n": elements // len(groups[0]) * len(groups[0])}
    turns: list[tuple[tuple[Param, ...], Apply]] = []
    for group in groups:
        results, wholes = (", ".join(part.format(d=d) for d in group) for part in ("%z_{d}", "%x_{d}: T(n)@{d}"))
        turns.append(parse_example(_spelled(f"{results} = MPIAllreduce({wholes})", "Float32", size), canonical))
    body = [_turn(statement, i, "") for i in range(AT_ONCE_TURNS) for _, statement in turns]
    returned = tuple(s.results[0] for s in body[-len(turns) :])
    params = tuple(p for own, _ in turns for p in own)
    function = Function("", params, (*body, Return(returned)))
    done = _work(turns[0][1], turns[0][0])
    return Benchmark(
        "MPIAllreduce", done, tuple(d for group in groups for d in group), AT_ONCE_TURNS, function, at_once=ranks
    )


def _between(group: Sequence[int], sizes: Mapping[str, int] = BETWEEN_SIZES) -> list[tuple[tuple[Param, ...], Apply]]:
    texts = [_spelled(BETWEEN.format(d=device), "Float32", sizes) for device in group]
    return [parse_example(text, canonical) for text in texts]
