"""Kind: sums of gradients over devices, in buckets, beside the rest of the backward pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from distir.analysis.kinds import kinds_of
from distir.analysis.provenance import Provenance
from distir.ir import Apply, Function, Module, TensorType, names, operands, ops_in
from distir.ir.rewrite import Rewriter
from distir.ops import Value, type_of
from distir.transform.checking import checked
from distir.transform.entry import entry_of
from distir.transform.overlap.buckets import buckets_of, written
from distir.transform.overlap.kinds import Inapplicable, Overlapped, kind
from distir.transform.overlap.opening import opened
from distir.transform.overlap.side_by_side import rows
from distir.transform.overlap.weights import gathers_of_weights
from distir.transform.steps import Bytes, StepError
from distir.transform.zero.plain import without_buckets

STREAM = "reduce"

REDUCTIONS = frozenset({"MPIAllreduce", "MPIReduceScatter", "MPIReduce", "GroupAllreduce", "GroupReduceScatter"})
"""The ops that sum over devices."""

SCATTERS = frozenset({"MPIReduceScatter", "MPIReduce", "GroupReduceScatter"})
"""The ops that leave each device a part of the sum, or one device all of it."""


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
    of = _Sums(module.replacing(entry))
    sums, first = of.at_last(entry), of.in_microbatches(entry)
    made = {f.name: of.in_microbatches(f) for f in module if f.name != entry.name}
    if not sums and not first and not any(made.values()):
        hint = "apply `dp` or `dtp` to a training step first"
        raise Inapplicable(f"no gradient is summed over devices for an update; {hint}")
    entry = opened(module, entry, [name for index in sums for name in names(operands(entry.body[index]))])
    lines = rows(checked(module.replacing(entry)).states[entry.name], entry.body)
    entry = replace(entry, body=tuple(s for line in lines for s in line))
    ends = [end - 1 for line, end in zip(lines, accumulate(map(len, lines)), strict=True) for _ in line]
    whole = module.replacing(entry)
    values = checked(whole).states[entry.name]
    units = bucket_bytes > 0 and bool(gathers_of_weights(module))
    sums = _Sums(whole).at_last(entry)
    buckets = buckets_of(entry, values, sums, bucket_bytes, first_bucket_bytes, units, ends)
    entry = written(entry, values, buckets, STREAM)
    several = any(len(bucket.sums) > 1 for bucket in buckets)
    inside = len(first) + sum(len(places) for places in made.values())
    done = f"{_counted(len(sums) + inside, 'sum')} of gradients on `{STREAM}`"
    if several:
        done += f" in {_counted(len(buckets), 'bucket')}"
    states = checked(module).states
    changed = {
        name: _in_units(module.functions[name], states[name], places, bucket_bytes)
        for name, places in made.items()
        if places
    }
    whole = module.replacing(entry)
    places = _Sums(whole).in_microbatches(entry)
    if places:
        values = checked(whole).states[entry.name]
    changed[entry.name] = _in_units(entry, values, places, bucket_bytes)
    return Overlapped(module.replacing(*changed.values()), done)


class _Sums:
    """The statements on the compute stream that sum gradients over devices; sums of scalars, as of norms, are none."""

    def __init__(self, module: Module) -> None:
        self._entry = entry_of(module)
        self._kinds, self._states = kinds_of(module, self._entry), checked(module).states
        self._facts = Provenance(module, self._entry).of_entry()

    def all(self, function: Function) -> list[int]:
        """Those of a function."""
        return [index for index, s in enumerate(function.body) if isinstance(s, Apply) and self._is_sum(function, s)]

    def in_microbatches(self, function: Function) -> list[int]:
        """Those that reduce a microbatch's gradients to parts, as ZeRO's stages 2 and 3 do: in what is called, too."""
        return [index for index in self.all(function) if self._is_of_microbatch(function, index)]

    def at_last(self, entry: Function) -> list[int]:
        """Those of all microbatches."""
        return [index for index in self.all(entry) if not self._is_of_microbatch(entry, index)]

    def _is_of_microbatch(self, function: Function, index: int) -> bool:
        statement, is_entry = function.body[index], function.name == self._entry.name
        scatters = isinstance(statement, Apply) and statement.op in SCATTERS
        return scatters and (not is_entry or self._facts[index].microbatch > 0)

    def _is_sum(self, function: Function, statement: Apply) -> bool:
        if statement.op not in REDUCTIONS or statement.stream:
            return False
        values, (*given,) = self._states[function.name], names(statement.args)
        made = (name for name in statement.results if name)
        return all(self._kinds.is_gradient(function.name, name) for name in made) and not all(
            _is_scalar(values[name]) for name in given
        )


def _in_units(function: Function, values: Mapping[str, Value], places: Sequence[int], nbytes: int) -> Function:
    """The function with these sums on the stream, in buckets by call, with their accumulation.

    Other sums are joined up to `nbytes`.
    """
    buckets = buckets_of(function, values, places, nbytes, nbytes, units=nbytes > 0)
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
            if statement.stream == STREAM or statement.op in ("MakeTuple", "UnpackTuple"):
                carried.update(statement.results)
            if statement.op == "UnpackTuple" and used & made:
                made.update(statement.results)
    return edit.done()


def gradient_sums(module: Module) -> dict[str, list[int]]:
    """By function: the statements that sum gradients over devices, and are on no stream yet."""
    found = _Sums(module)
    return {f.name: found.all(f) for f in module}


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _is_scalar(value: Value) -> bool:
    found = type_of(value)
    return isinstance(found, TensorType) and found.shape == ()
