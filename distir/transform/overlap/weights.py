"""Kind: gathers of ZeRO-3's weights beside earlier computation (prefetching)."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from distir.analysis.kinds import WEIGHTS, ValueKinds, kinds_of
from distir.ir import (
    HOST,
    NO_FACTS,
    Apply,
    Call,
    Function,
    Module,
    Statement,
    TensorType,
    names,
    operands,
    results,
    types,
)
from distir.ir.builder import FunctionBuilder
from distir.ir.dataflow import definitions, uses
from distir.ir.rewrite import Rewriter, common, stating
from distir.ops import OPS, Value, type_of
from distir.ops.purpose import pattern_of
from distir.ops.resources import Pattern
from distir.transform.checking import checked
from distir.transform.entry import entry_of
from distir.transform.instances import states_of_calls
from distir.transform.overlap.kinds import Inapplicable, Overlapped, kind
from distir.transform.steps import StepError

STREAM, SUMS = "gather", "reduce"
"""The streams of gathers, and of the sums of gradients."""

GATHERS: frozenset[Pattern] = frozenset({"allgather", "broadcast", "send"})
"""What gives devices a weight of which others hold all or parts."""


@kind(after=("gradients",))
def weights(module: Module, *, prefetch: int = 1, behind_sums: bool = False) -> Overlapped:
    """Weights that are gathered for each use, as with `zero=3`, are gathered on the stream `gather`, layers ahead.

    `prefetch`: how many layers ahead, as in PyTorch's FSDP2, where it is 1: while a layer is computed, the weights of
    so many further ones are on their way, and have memory. A gather waits for the layer so far ahead of its own to
    begin (`After`, of one weight). A layer's weights are one message, as in FSDP. What is called, or else a statement,
    counts as a layer. In functions that a pipeline, or accumulation, calls for each microbatch, the first layers have
    none before them to wait for.

    With `behind_sums` backward passes fetch nothing ahead: a layer's gather is behind the sum of the gradients of the
    layer before, on the stream of that, as with `BACKWARD_POST` of PyTorch's FSDP, where all collectives of a group
    have one stream. Less memory is needed, and neither of the two is hidden.
    """
    if prefetch < 0:
        raise StepError(f"`prefetch` expected 0 layers or more, found {prefetch}")
    places, kinds = gathers_of_weights(module), kinds_of(module, entry_of(module))
    of_backward = {f.name for f in module if f.facts.phase in ("backward", "weight")}
    backward = of_backward if behind_sums else set[str]()
    states = states_of_calls(checked(module), entry_of(module))
    gathers = {
        name: _Gathers(module.functions[name], states[name], own, kinds, backward) for name, own in places.items()
    }
    found = {name: of for name, of in gathers.items() if of.layers}
    if not found:
        raise Inapplicable("no weight is gathered before its use; apply `zero=3` first")
    count = sum(len(layer.gathers) for of in found.values() for layer in of.layers)
    layers = sum(len(of.layers) for of in found.values())
    what = f"{count} gather{'s' * (count != 1)} of weights for {layers} layer{'s' * (layers != 1)}"
    ahead = f"{prefetch} layer{'s' * (prefetch != 1)} ahead"
    done = f"{what} on `{STREAM}`, {ahead}" + ", behind sums in backward passes" * behind_sums
    changed = {name: of.written(prefetch) for name, of in found.items()}
    return Overlapped(Module(changed.get(f.name, f) for f in module), done)


def gathers_of_weights(module: Module) -> dict[str, list[int]]:
    """By function that has any: the statements that gather a weight for its use, not behind its update."""
    kinds = kinds_of(module, entry_of(module))

    def gathers(function: Function, statement: Statement) -> bool:
        if not isinstance(statement, Apply) or pattern_of(statement) not in GATHERS or not statement.args:
            return False
        phase = statement.facts.phase or function.facts.phase
        return phase != "optimizer" and all(kinds.of(function.name, n) == WEIGHTS for n in names(statement.args))

    found = {f.name: [i for i, s in enumerate(f.body) if gathers(f, s)] for f in module}
    return {name: places for name, places in found.items() if places}


@dataclass(slots=True)
class GatheredLayer:
    """Statements that use gathered weights at the same time: one on each device, or each group of devices.

    `uses`: these statements, `gathers`: those that gather their weights, by number; `devices`: where they run.
    `is_backward`: whether a backward pass uses these weights, perhaps behind what is recomputed for it.
    """

    uses: list[int]
    devices: set[int]
    gathers: list[int] = field(default_factory=list[int])
    is_backward: bool = False


class _Gathers:
    """The gathers of a function that are on no stream yet, by the layers that use them.

    `backward`: the functions that are passes of layers whose gathers are behind sums.
    """

    def __init__(
        self,
        entry: Function,
        values: Mapping[str, Value],
        gathers: Sequence[int],
        kinds: ValueKinds,
        backward: set[str],
    ) -> None:
        self._entry, self._values, self._kinds, self._backward = entry, values, kinds, backward
        of = map(entry.body.__getitem__, gathers)
        self._gathers = {s for s in of if isinstance(s, Apply) and not s.stream}
        self._made = definitions(entry)
        self._events: dict[tuple[int, int | None], str | None] = {}
        self._computed: dict[int | None, list[tuple[int, str]]] = {}
        self._early = _from_the_start(entry)
        self.layers: list[GatheredLayer] = []
        users = self._users()
        first: defaultdict[int, list[int]] = defaultdict(list)
        for gather, places in sorted(users.items()):
            first[places[0]].append(gather)
        for use in sorted(
            {place for places in users.values() for place in places}.union(self._direct() if users else ())
        ):
            self._add(use, first[use])
        self.layers = [layer for layer in self.layers if layer.gathers]
        for layer in self.layers:
            layer.gathers.sort()  # in the order of each device, whichever uses a weight first
            layer.is_backward = any(self._is_backward(use) for gather in layer.gathers for use in users[gather])

    def _is_backward(self, use: int) -> bool:
        statement = self._entry.body[use]
        return isinstance(statement, Call) and statement.function in self._backward

    def _users(self) -> dict[int, list[int]]:
        """By gather: the statements that compute with its result, through tuples and views, in order."""
        found: dict[int, list[int]] = {}
        given: dict[str, set[int]] = {}
        for index, statement in enumerate(self._entry.body):
            used = set[int]().union(*(given.get(name, ()) for name in names(operands(statement))))
            if statement in self._gathers:
                used.add(index)
            elif not isinstance(statement, Apply) or not _is_view(statement):
                for gather in used:
                    found.setdefault(gather, []).append(index)
                continue
            given.update(dict.fromkeys(results(statement), used))
        return found

    def _direct(self) -> Iterator[int]:
        """The statements that use a weight without a gather: a layer on the weight's owner."""
        for index, statement in enumerate(self._entry.body):
            runs = isinstance(statement, Call) or (isinstance(statement, Apply) and _computes(statement))
            if runs and any(map(self._is_weight, names(operands(statement)))):
                yield index

    def _is_weight(self, name: str) -> bool:
        is_one = isinstance(type_of(self._values[name]), TensorType)
        return is_one and self._kinds.of(self._entry.name, name) == WEIGHTS

    def _add(self, use: int, gathers: Sequence[int]) -> None:
        """Add a statement with its gathers: to the last layer, if that is the same on other devices."""
        devices = {d for name in self._mentioned(use) for d in types.devices(type_of(self._values[name]))}
        last = self.layers[-1] if self.layers else None
        if last is not None and self._alike(last.uses[-1], use) and last.devices.isdisjoint(devices):
            last.uses.append(use)
            last.devices |= devices
            last.gathers += gathers
        else:
            self.layers.append(GatheredLayer([use], devices, list(gathers)))

    def _mentioned(self, index: int) -> list[str]:
        statement = self._entry.body[index]
        return [*names(operands(statement)), *filter(None, results(statement))]

    def _alike(self, one: int, other: int) -> bool:
        """Whether two statements are equal up to devices, with only gathers and packing of weights in between."""
        between = self._entry.body[one + 1 : other]
        if not all(isinstance(s, Apply) and (_is_view(s) or s in self._gathers) for s in between):
            return False
        a, b = self._entry.body[one], self._entry.body[other]
        if isinstance(a, Call) and isinstance(b, Call):
            return a.function == b.function
        return isinstance(a, Apply) and isinstance(b, Apply) and a.op == b.op

    # Writing.

    def written(self, prefetch: int) -> Function:
        """The function with all gathers `prefetch` layers ahead."""
        edit = Rewriter(self._entry)
        for number, layer in enumerate(self.layers):
            fetched, stream = (0, SUMS) if layer.is_backward else (prefetch, STREAM)
            for (place, *_), found in self._alike_gathers(number, fetched).items():
                edit.erase(*found)
                gathers = list(found.values())
                parts: list[list[str]] = []
                waits: set[int | None] = set()
                for gather in gathers:
                    parts.append([])
                    for weight in names(gather.args):
                        device = self._device(weight)
                        ahead = None if device in waits else self._ahead(number, fetched, device)
                        waits.add(device)  # a message waits on each device once
                        event = ahead and self._event(ahead, device)
                        event = event if self._made.get(event or "", -1) < place else None
                        parts[-1].append(weight if event is None else edit.fresh(f"{weight}_next"))
                        if event is not None:
                            wait = Apply((parts[-1][-1],), "After", (weight, event), stream=stream)
                            edit.before(place, wait, facts=gather.facts)
                edit.before(place, *_together(gathers, parts, edit.builder, stream), facts=NO_FACTS)
        return edit.done()

    def _alike_gathers(self, number: int, prefetch: int) -> dict[tuple[int, object], dict[int, Apply]]:
        """The gathers of a layer by number, grouped by the place where they are issued and by message.

        Without those whose result is packed before that place, as for functions that are called later.
        """
        found: dict[tuple[int, object], dict[int, Apply]] = {}
        for index in self.layers[number].gathers:
            gather = self._entry.body[index]
            assert isinstance(gather, Apply)
            weights = [*names(gather.args)]
            devices = dict.fromkeys(map(self._device, weights))
            ahead = [layer for device in devices if (layer := self._ahead(number, prefetch, device)) is not None]
            begins = [min([*layer.uses, *layer.gathers]) for layer in ahead]
            place = max([0, *begins, *(self._made.get(weight, -1) + 1 for weight in weights)])
            if place > min(places[0] for name in gather.results if (places := uses(self._entry).get(name))):
                continue
            given = [type_of(self._values[weight]) for weight in weights]
            same = tuple((types.device_of(t), t.dtype if isinstance(t, TensorType) else index) for t in given)
            is_joined = pattern_of(gather) == "allgather"  # a layer's weights are one message
            together = (gather.op, gather.attrs, same) if is_joined else index
            found.setdefault((place, together), {})[index] = gather
        return found

    def _device(self, weight: str) -> int | None:
        return types.device_of(type_of(self._values[weight]))

    def _ahead(self, number: int, prefetch: int, device: int | None) -> GatheredLayer | None:
        """The layer a number of layers before another one on a device; None if there are too few.

        A layer's own devices are all meant where the gather names none.
        """
        layer = self.layers[number]
        devices = layer.devices if device is None or device == HOST else {device}
        for other in map(self.layers.__getitem__, range(number, -1, -1)):
            if other is layer or not other.devices.isdisjoint(devices):
                if not prefetch:
                    return other
                prefetch -= 1
        return None

    def _event(self, layer: GatheredLayer, device: int | None) -> str | None:
        """A value that becomes ready on a device when a layer begins; None if there is none.

        An input of the layer that is not ready from the start, as a microbatch is; else the value computed last.
        """
        use = next((use for use in layer.uses if self._is_on(use, device)), min(layer.uses))
        if (use, device) not in self._events:
            inputs = {name for name in names(operands(self._entry.body[use])) if name not in self._early}
            makers = sorted({self._made[name] for name in inputs if name in self._made}, reverse=True)
            found = [name for index in makers for name in self._computed_by(index, device) if name in inputs]
            self._events[use, device] = found[0] if found else self._last_before(use, device)
        return self._events[use, device]

    def _last_before(self, use: int, device: int | None) -> str | None:
        """The value computed last on a device before a statement."""
        if device not in self._computed:
            each = ((index, self._computed_by(index, device)) for index in range(len(self._entry.body)))
            self._computed[device] = [(index, made[0]) for index, made in each if made]
        computed = self._computed[device]
        place = bisect_left(computed, use, key=lambda item: item[0])
        return computed[place - 1][1] if place else None

    def _is_on(self, index: int, device: int | None) -> bool:
        return any(device in types.devices(type_of(self._values[name])) for name in self._mentioned(index))

    def _computed_by(self, index: int, device: int | None) -> tuple[str, ...]:
        """The tensors that a statement computes on a device, without views and gathers, and not aside."""
        statement = self._entry.body[index]
        if not isinstance(statement, (Apply, Call)) or statement.stream or statement in self._gathers:
            return ()
        if isinstance(statement, Apply) and _is_view(statement):
            return ()
        found = ((name, type_of(self._values[name])) for name in results(statement) if name)
        return tuple(name for name, t in found if isinstance(t, TensorType) and t.device == device and device != HOST)


def _together(
    gathers: Sequence[Apply], parts: Sequence[Sequence[str]], builder: FunctionBuilder, stream: str
) -> list[Statement]:
    """Write gathers on a stream; those of a layer are one message, as in FSDP."""
    if len(gathers) == 1:
        return [replace(gathers[0], args=tuple(parts[0]), stream=stream)]
    packed = [builder.fresh("unit") for _ in parts[0]]
    wholes = [builder.fresh("unit_whole") for _ in gathers[0].results]
    found: list[Statement] = [
        Apply((name,), "MakeTuple", items) for name, items in zip(packed, zip(*parts, strict=True), strict=True)
    ]
    facts = common(gather.facts for gather in gathers)
    together = replace(gathers[0], results=tuple(wholes), args=tuple(packed), claims=(), stream=stream, facts=facts)
    found.append(together)
    results_of = zip(*(gather.results for gather in gathers), strict=True)
    found += [Apply(items, "UnpackTuple", (whole,)) for whole, items in zip(wholes, results_of, strict=True)]
    return stating(facts, found)


def _from_the_start(entry: Function) -> set[str]:
    """The parameters and their slices."""
    found = {p.name for p in entry.params}
    for statement in entry.body:
        if isinstance(statement, Apply) and (_is_view(statement) or statement.op == "Split"):
            found.update(results(statement) if found.issuperset(names(statement.args)) else ())
    return found


def _is_view(statement: Apply) -> bool:
    return statement.op in OPS and bool(OPS[statement.op].view)


def _computes(statement: Apply) -> bool:
    """Whether a statement computes: it is no view, no transfer and no update."""
    if statement.op not in OPS:
        return True
    op = OPS[statement.op]
    return not op.view and op.communication is None and op.family not in ("optimizer", "scaling")
