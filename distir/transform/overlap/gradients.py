"""Kind: sums of gradients over devices, in buckets, beside the rest of the backward pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from distir.ir import (
    Apply,
    Call,
    Function,
    Meshes,
    Module,
    Return,
    Statement,
    TensorType,
    names,
    operands,
    ops_in,
    results,
)
from distir.ir.calls import callees_first
from distir.ir.dataflow import uses
from distir.ir.rewrite import Rewriter
from distir.ops import Value, type_of
from distir.ops.purpose import is_update, pattern_of, sums_over_devices
from distir.ops.resources import Pattern
from distir.ops.tuples import TUPLING
from distir.transform.checking import checked
from distir.transform.entry import entry_of
from distir.transform.instances import states_of_calls
from distir.transform.overlap.buckets import buckets_of, written
from distir.transform.overlap.cutting import is_product
from distir.transform.overlap.kinds import Inapplicable, Overlapped, kind
from distir.transform.overlap.opening import opened
from distir.transform.overlap.side_by_side import rows
from distir.transform.overlap.weights import gathers_of_weights
from distir.transform.steps import Bytes, StepError
from distir.transform.zero.plain import without_buckets

STREAM = "reduce"

SCATTERS: frozenset[Pattern] = frozenset({"reducescatter", "reduce"})
"""What leaves each device a part of the sum, or one device all of it."""


@kind
def gradients(module: Module, *, bucket_bytes: Bytes = 25 << 20, first_bucket_bytes: Bytes = 1 << 20) -> Overlapped:
    """Gradients are summed over devices on the stream `reduce`, in buckets, while the backward pass continues.

    A bucket is summed as soon as its last gradient is there: in a pipeline, and with microbatches, in the last
    microbatch's backward pass, whose calls of layers are written out for that. It takes gradients until it has
    `bucket_bytes`, and the first one of each group of devices `first_bucket_bytes`, as PyTorch's DDP does (25 MiB and
    1 MiB); Megatron's buckets have max(40 M, 1 M x D) elements. With `bucket_bytes=0` each gradient is summed by
    itself. A bucket's devices all hold the same weights.

    ZeRO's reduce-scatters are in such buckets, too, as in Megatron's distributed optimizer. Where weights are gathered
    before each use, a bucket is what a layer's call makes, as with PyTorch's FSDP; and so it is where the gradients of
    each microbatch are reduced in the functions that make them.
    """
    if bucket_bytes < 0 or first_bucket_bytes < 0:
        raise StepError(f"a bucket has 0 bytes or more, found {min(bucket_bytes, first_bucket_bytes)}")
    checked(module)
    entry = without_buckets(entry_of(module))
    of = _Meanings(module)
    sums = of.gradient_sums(entry, checked(module).states[entry.name])
    made = {f.name: _of_microbatches(f) for f in module if f.name != entry.name}
    first = set(_of_microbatches(entry)) - set(sums)
    if not sums and not first and not any(made.values()):
        hint = "apply `dp` or `dtp` to a training step first"
        raise Inapplicable(f"no gradient is summed over devices for an update; {hint}")
    entry = opened(module, entry, [name for index in sums for name in names(operands(entry.body[index]))])
    lines = rows(checked(module.replacing(entry)).states[entry.name], entry.body)
    entry = replace(entry, body=tuple(s for line in lines for s in line))
    ends = [end - 1 for line, end in zip(lines, accumulate(map(len, lines)), strict=True) for _ in line]
    values = checked(module.replacing(entry)).states[entry.name]
    units = bucket_bytes > 0 and bool(gathers_of_weights(module))
    sizes = bucket_bytes, first_bucket_bytes
    buckets = buckets_of(entry, values, of.gradient_sums(entry, values), *sizes, units, ends, module.meshes)
    entry = written(entry, values, buckets, STREAM)
    several = any(len(bucket.sums) > 1 for bucket in buckets)
    inside = len(first) + sum(len(places) for places in made.values())
    done = f"{_counted(len(sums) + inside, 'sum')} of gradients on `{STREAM}`"
    if several:
        done += f" in {_counted(len(buckets), 'bucket')}"
    states = states_of_calls(checked(module), entry_of(module))
    changed = {
        name: _in_units(module.functions[name], states[name], places, bucket_bytes, module.meshes)
        for name, places in made.items()
        if places
    }
    places = _of_microbatches(entry)
    if places:
        values = checked(module.replacing(entry)).states[entry.name]
    changed[entry.name] = _in_units(entry, values, places, bucket_bytes, module.meshes)
    return Overlapped(module.replacing(*changed.values()), done)


def _of_microbatches(function: Function) -> list[int]:
    """The statements that reduce a microbatch's gradients to parts, which are only accumulated.

    ZeRO's stages 2 and 3 do so with accumulated microbatches, and pass the parts on in tuples.
    """
    used = uses(function)

    def users(name: str) -> list[Statement]:
        return [function.body[i] for i in used.get(name, ())]

    def is_added(name: str) -> bool:
        return name in used and all(
            _is_packed(s) or (isinstance(s, Apply) and s.op == "Sum" and all(map(_is_packed, users(s.results[0]))))
            for s in users(name)
        )

    return [
        index
        for index, s in enumerate(function.body)
        if isinstance(s, Apply)
        and pattern_of(s) in SCATTERS
        and not s.stream
        and all(is_added(n) for n in s.results if n)
    ]


def _is_packed(statement: Statement) -> bool:
    return isinstance(statement, Apply) and statement.op == "MakeTuple"


def _in_units(
    function: Function, values: Mapping[str, Value], places: Sequence[int], nbytes: int, meshes: Meshes
) -> Function:
    """The function with these sums on the stream, in buckets by call, with their accumulation.

    Other sums are joined up to `nbytes`.
    """
    buckets = buckets_of(function, values, places, nbytes, nbytes, units=nbytes > 0, meshes=meshes)
    return _added_up(written(function, values, buckets, STREAM))


def _added_up(function: Function) -> Function:
    """The function with accumulation of the stream's results on the stream too, so that nothing else waits for it."""
    made = {name for s in ops_in(function) if s.stream == STREAM for name in s.results}
    carried = {p.name for p in function.params} | made
    edit = Rewriter(function)
    for index, statement in edit:
        used = set(names(operands(statement)))
        if isinstance(statement, Apply) and used <= carried:
            if statement.op == "Sum" and used & made:
                statement = replace(statement, stream=STREAM)
                edit.replace(index, statement)
                made.update(statement.results)
            if statement.stream == STREAM or statement.op in TUPLING:
                carried.update(statement.results)
            if statement.op == "UnpackTuple" and used & made:
                made.update(statement.results)
    return edit.done()


def gradient_sums(module: Module, function: Function, values: Mapping[str, Value]) -> list[int]:
    """The statements of a function that sum gradients over devices and are on no stream yet; `values`: by name."""
    found = _Meanings(module).gradient_sums(function, values) if function is entry_of(module) else []
    return sorted({*found, *_of_microbatches(function)})


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


class _Meanings:
    """Which functions update weights, and which compute products, directly or in callees."""

    def __init__(self, module: Module) -> None:
        self._updates: dict[str, bool] = {}
        self._products: dict[str, bool] = {}
        for function in callees_first(module):
            self._updates[function.name] = any(self.updates(s) for s in function.body)
            self._products[function.name] = any(self.may_compute(s) for s in function.body)

    def updates(self, statement: Statement) -> bool:
        """Whether a statement updates weights."""
        if isinstance(statement, Call):
            return self._updates[statement.function]
        return is_update(statement)

    def may_compute(self, statement: Statement) -> bool:
        """Whether a statement may belong to the forward or the backward pass."""
        if isinstance(statement, Call):
            return self._products.get(statement.function, True)
        return is_product(statement)

    def gradient_sums(self, entry: Function, values: Mapping[str, Value]) -> list[int]:
        """The statements on the compute stream that sum gradients over devices: only updates depend on their results.

        In a program without updates, only its results do. Sums of scalars, such as norms and losses, are excluded.
        """
        trained = any(self.updates(s) for s in entry.body)
        updating: set[str] = set()
        """The values on which updates depend."""
        passing: set[str] = set()
        """The values on which products depend."""
        found: list[int] = []
        for index in range(len(entry.body) - 1, -1, -1):
            statement = entry.body[index]
            made, used = set(results(statement)), set(names(operands(statement)))
            if self.updates(statement) or (isinstance(statement, Return) and not trained):
                updating |= used
                continue
            if self.may_compute(statement) or not made.isdisjoint(passing):
                passing |= used
            if not made.isdisjoint(updating):
                updating |= used
            is_sum = isinstance(statement, Apply) and sums_over_devices(statement) and not statement.stream
            if is_sum and made & updating and made.isdisjoint(passing) and not all(_is_scalar(values[n]) for n in used):
                found.append(index)
        return found[::-1]


def _is_scalar(value: Value) -> bool:
    found = type_of(value)
    return isinstance(found, TensorType) and found.shape == ()
