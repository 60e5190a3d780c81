"""Joins sums of gradients into buckets, each issued as soon as its last gradient is computed.

A bucket is one message, of sums by one op, over the same devices, of one element type. It is placed after its last
gradient and before all uses of its sums. If one op adds the gradients of all microbatches, each bucket adds its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from distir.analysis.placement_states import held
from distir.ir import Apply, Call, Function, Meshes, TensorType, TupleType, names, types
from distir.ir.dataflow import uses
from distir.ir.rewrite import Rewriter, common
from distir.ops import OPS, Value, type_of
from distir.transform.dead_code import pruned
from distir.transform.overlap.opening import Tuples

Addends = tuple[tuple[str, int | None], ...]
"""The addends of a gradient: values, or tuples and an item's number."""


@dataclass(frozen=True, slots=True)
class GradientSum:
    """A sum over devices that could be issued earlier.

    `terms`: by device, the gradient; several addends if it is an item of a sum of tuples, over microbatches. `place`:
    the statement after which all terms are defined; `used`: the first use of a result.
    """

    index: int
    statement: Apply
    terms: tuple[Addends, ...]
    place: int
    used: int
    nbytes: int
    key: Hashable
    """Equal for sums of one bucket: the op, its devices and their order, the element type."""
    unit: int | None = None
    """The call that computes all gradients of a bucket, if buckets are by call."""


@dataclass(slots=True)
class Bucket:
    """Sums that are one message, of `nbytes` on each device. It is full from `limit` bytes on."""

    limit: int
    sums: list[GradientSum] = field(default_factory=list[GradientSum])
    nbytes: int = 0

    @property
    def place(self) -> int:
        """The statement after which all gradients are defined."""
        return max(each.place for each in self.sums)

    def takes(self, other: GradientSum) -> bool:
        """Whether another sum fits in: it must be defined before any sum in the bucket is used."""
        if other.unit != self.sums[0].unit or (other.unit is None and self.nbytes >= self.limit):
            return False
        return all(other.place < each.used for each in self.sums)

    def add(self, other: GradientSum) -> None:
        """Add a sum."""
        self.sums.append(other)
        self.nbytes += other.nbytes


class _Sums:
    """Sums of gradients of an entry function."""

    def __init__(
        self, entry: Function, values: Mapping[str, Value], units: bool, ends: Sequence[int], meshes: Meshes
    ) -> None:
        self._meshes = meshes
        self._entry, self._values, self._tuples, self._units = entry, values, Tuples(entry), units
        self._ends = ends

    def found(self, index: int) -> GradientSum:
        """The gradient sum of a statement."""
        statement = self._entry.body[index]
        assert isinstance(statement, Apply)
        gradients = [type_of(self._values[name]) for name in names(statement.args)]
        nbytes = types.nbytes(held(gradients[0], self._meshes))
        terms = tuple(self._term(name) for name in names(statement.args))
        made = [self._tuples.made.get(name, -1) for term in terms for name, _ in term]
        used = [places[0] for name in statement.results if (places := uses(self._entry).get(name))]
        place = max(made, default=-1)
        called = self._units and place >= 0 and isinstance(self._entry.body[place], Call)
        return GradientSum(
            index,
            statement,
            terms,
            self._ends[place] if place >= 0 else place,
            min(used, default=len(self._entry.body)),
            nbytes if isinstance(nbytes, int) else 0,
            (
                statement.op,
                statement.attrs,
                tuple((types.device_of(g), g.dtype if isinstance(g, TensorType) else index) for g in gradients),
                tuple(tuple(item is None for _, item in term) for term in terms),
            ),
            place if called else None,
        )

    def _term(self, name: str) -> Addends:
        total = self._tuples.total(name)
        if total is not None and any(self._tuples.items(arg) for arg in total[0].args):
            return tuple([self._addend(arg, total[1]) for arg in names(total[0].args)])
        item = self._tuples.item(name)
        return ((item if isinstance(item, str) else name, None),)

    def _addend(self, packed: str, number: int) -> tuple[str, int | None]:
        items = self._tuples.items(packed)
        item = None if items is None else self._tuples.item(items[number])
        return (item, None) if isinstance(item, str) else (packed, number)


def buckets_of(
    entry: Function,
    values: Mapping[str, Value],
    sums: Sequence[int],
    nbytes: int,
    first: int,
    units: bool = False,
    ends: Sequence[int] = (),
    meshes: Meshes = Meshes(),  # noqa: B008 - frozen
) -> list[Bucket]:
    """Buckets of `nbytes`, the first one of each key of `first`, in the order in which they fill.

    `values`: those of the entry function; `sums`: the statements that sum gradients; `units`: a bucket is what one call
    computes, of any size. `ends`: by statement, the last one of those that devices have side by side. `meshes`: those
    that devices represent, each of which has parts.
    """
    ends = ends or range(len(entry.body))
    found: list[Bucket] = []
    under_way: dict[Hashable, Bucket] = {}
    for each in sorted(map(_Sums(entry, values, units, ends, meshes).found, sums), key=lambda each: each.place):
        bucket = under_way.get(each.key)
        if bucket is None or not OPS[each.statement.op].leafwise or not bucket.takes(each):
            bucket = Bucket(nbytes if bucket is not None else min(first, nbytes))
            under_way[each.key] = bucket
            found.append(bucket)
        bucket.add(each)
    return sorted(found, key=lambda bucket: bucket.place)


def written(entry: Function, values: Mapping[str, Value], buckets: Sequence[Bucket], stream: str) -> Function:
    """The function with buckets on a stream, instead of the sums in them.

    Devices wait for earlier sums before they begin others, if gradients occupy separate memory until then.
    """
    edit = Rewriter(entry)
    writer = _Writer(edit, values, stream, _sums_before(entry, buckets))
    for bucket in buckets:
        writer.write(bucket)
        edit.erase(*(each.index for each in bucket.sums))
    return pruned(edit.done())


def _sums_before(function: Function, buckets: Sequence[Bucket]) -> dict[str, int]:
    """The values that hold sums of earlier microbatches, to which buckets are added, and where they are defined.

    A parameter (-1), or results of a call.
    """
    tuples = Tuples(function)
    summed = {name for bucket in buckets for each in bucket.sums for name in each.statement.results}
    found: dict[str, int] = {}
    for statement in function.body:
        if isinstance(statement, Apply) and statement.op == "Sum" and not summed.isdisjoint(names(statement.args)):
            for name in names(statement.args):
                maker = tuples.maker(name)
                while isinstance(maker, Apply) and maker.op == "UnpackTuple":
                    (name,) = names(maker.args)
                    maker = tuples.maker(name)
                if not isinstance(maker, Apply):
                    found[name] = tuples.made.get(name, -1)
    return found


class _Writer:
    """Writes buckets; `before`: sums of microbatches computed by calls, for which devices wait as well."""

    def __init__(self, edit: Rewriter, values: Mapping[str, Value], stream: str, before: Mapping[str, int]) -> None:
        self.edit, self.builder = edit, edit.builder
        self._values, self._stream, self._before = values, stream, dict(before)
        self._unpacked: dict[str, tuple[str, ...]] = {}
        self._later: dict[str, str] = {}
        """By gradient: its name after earlier sums are complete."""
        self._under_way: dict[int, tuple[int, list[Bucket]]] = {}
        """By device: the last buckets issued, and where."""

    def write(self, bucket: Bucket) -> None:
        """Write a bucket: the tuple on each device, the sum over devices, and its items."""
        sums = bucket.sums
        if OPS[sums[0].statement.op].inplace != "each":
            self._wait(bucket)
        packed = [self._packed(column) for column in zip(*(each.terms for each in sums), strict=True)]
        first = sums[0].statement
        if len(sums) == 1:
            self.builder.body.append(replace(first, args=tuple(packed), stream=self._stream))
        else:
            totals = tuple(self.builder.fresh("bucket_sum") for _ in first.results)
            self.builder.body.append(Apply(totals, first.op, tuple(packed), first.attrs, stream=self._stream))
            for total, items in zip(totals, zip(*(each.statement.results for each in sums), strict=True), strict=True):
                self.builder.body.append(Apply(items, "UnpackTuple", (total,)))
        facts = first.facts if len(sums) == 1 else common(each.statement.facts for each in sums)
        self.edit.behind(bucket.place, *self.edit.written(), facts=facts)

    def _wait(self, bucket: Bucket) -> None:
        """Make devices wait for sums issued earlier, whose gradients occupy memory until then, as FSDP2 does.

        Not for sums in place of their gradients.
        """
        for term in bucket.sums[0].terms:
            (name, item), *_ = term
            device = self._device(name)
            made = self._issued_before(bucket, device)
            if item is not None or name in self._later:
                continue
            earlier = [sums for sums, made_at in self._before.items() if made_at < bucket.place]
            events = [event for event in (*earlier, *made) if self._device(event) == device]
            for event in events:
                self._before.pop(event, None)
            if events:
                (self._later[name],) = self.builder.apply("After", name, *events, results=(f"{name}_next",))

    def _issued_before(self, bucket: Bucket, device: int) -> list[str]:
        """The results of the buckets that a device has issued at an earlier place, which now is this bucket's."""
        place, before = self._under_way.get(device, (bucket.place, []))
        if place == bucket.place:
            self._under_way[device] = place, [*before, bucket]
            return []
        self._under_way[device] = bucket.place, [bucket]
        return [name for each in before for one in each.sums for name in one.statement.results if name]

    def _device(self, name: str) -> int:
        device = types.device_of(type_of(self._values[name]))
        return -1 if device is None else device

    def _packed(self, terms: Sequence[Addends]) -> str:
        """The gradients of one device, each the sum of its addends, in a tuple if there are several."""
        together = [self._together([self._value(*addend) for addend in row]) for row in zip(*terms, strict=True)]
        if len(together) == 1:
            return together[0]
        return self.builder.apply("Sum", *together, results=("bucket",))[0]

    def _together(self, values: Sequence[str]) -> str:
        return values[0] if len(values) == 1 else self.builder.apply("MakeTuple", *values, results=("bucket",))[0]

    def _value(self, name: str, item: int | None) -> str:
        if item is None:
            return self._later.get(name, name)
        if name not in self._unpacked:
            packed = type_of(self._values[name])
            assert isinstance(packed, TupleType)
            hints = tuple(f"{name}_item" for _ in packed.items)
            self._unpacked[name] = self.builder.apply("UnpackTuple", name, results=hints)
        return self._unpacked[name][item]
