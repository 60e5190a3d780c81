"""A function of StableHLO as statements of ours: values by name, calls written out, and what a rule for an op sees.

A *rule* (`@rule("add")`) says how an operation is written with ops of ours. Calls, and loops whose number of steps is
known, are written out: what repeats is outlined afterwards, when attention and normalisations have been recognised.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from distir.files import limits
from distir.importers.batched import broadcasts
from distir.importers.core import ImportRefused, Weight
from distir.importers.functions import Functions
from distir.importers.names import value_name
from distir.importers.recognition import RULES, rewritten
from distir.importers.resizing import keeps_shape
from distir.importers.settling import settle
from distir.importers.simplify import simpler
from distir.importers.sinking import sunk
from distir.importers.stablehlo.shardings import Sharding, mesh_of
from distir.importers.stablehlo.tensors import tensor_type
from distir.importers.stablehlo.text import (
    MALFORMED,
    Braces,
    FunctionText,
    MlirOperation,
    ModuleText,
    Region,
    TextPlace,
    refuse,
)
from distir.importers.translation import Translation
from distir.ir import DTYPES, Apply, Attributes, Constant, Dense, DType, Function, TensorType
from distir.ops import dense, numpy_dtype, to_array, to_dense, type_of
from distir.ops.numeric import Array, np

DEVICE = 1
"""Where an imported program lives."""

SMALL = 64
"""Constants of at most so many elements are written in the program's text."""

MOST_PARTS = 256
"""Rows that an array is cut into at once, where a loop takes one after the other."""

Level = tuple[int, int]
"""How many devices, and how far apart."""

Translated = Callable[["StableHlo", MlirOperation, Sequence[str]], "str | Sequence[str]"]

ELEMENTWISE = frozenset(
    ("Abs", "Cast", "Ceil", "Cos", "Erf", "Exp", "Floor", "Log", "Neg", "Not", "Reciprocal", "Round", "Sigmoid")
) | {"Sign", "Sin", "Sqrt", "Tanh"}
"""Ops of one operand that compute element by element."""

RULES_BY_OP: dict[str, Translated] = {}
"""How operations are written, by their names without the dialect (`add` of `stablehlo.add`)."""


def rule(*names: str) -> Callable[[Translated], Translated]:
    """A function as the rule for these operations: it gives what the results are called here."""

    def registered(function: Translated) -> Translated:
        RULES_BY_OP.update(dict.fromkeys(names, function))
        return function

    return registered


class StableHlo(Translation):
    """A function in the making. A rule gets names of the program, and appends to it by `apply`."""

    def __init__(self, module: ModuleText, entry: FunctionText, distribute: bool = True) -> None:
        super().__init__("main", Functions(length=module.length), "")
        self.module = module
        self.distribute = distribute
        self.depth = 0
        self.mesh = mesh_of(module, entry)
        self.inside = 0
        """How many regions for one device of the mesh are around what is written now."""
        self.regions: list[TextPlace] = []
        """Where the file has such regions."""
        self.shared_axes: set[str] = set()
        """Axes of the mesh that are no region's own."""
        self.layouts: dict[str, Sharding] = {}
        """How values lie over the mesh of which a device has its part."""
        self.gathered: dict[str, str] = {}
        """Such values by name, whole on each device."""
        self.constraints: dict[str, Sharding] = {}
        """Of values by name, as the file constrains them."""
        self.stacks: dict[str, tuple[str, ...]] = {}
        """Values that are others, stacked along a new first dimension, while nothing needs them as one."""
        self.hint = ""
        """What values are called that are made now."""
        self.places: dict[str, TextPlace] = {}
        """Where the file has the operation that gives a value."""
        self.pairs: dict[str, tuple[str, str]] = {}
        """Complex values, which are two: real and imaginary parts."""
        self.tuples: dict[str, tuple[str, ...]] = {}
        """What tuples have."""
        self.drawn = 0
        """How many times random numbers are drawn."""
        self.missing: list[str] = []
        """Weights whose values the file leaves out."""
        self._computed: dict[Any, tuple[str, ...]] = {}
        self._resources: dict[str, str] = {}

    # what a rule sees

    def type(self, name: str) -> TensorType:
        """The type of a value."""
        found = type_of(self.values[name])
        assert isinstance(found, TensorType)
        return found

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a value; all sizes are known."""
        return tuple(size for size in self.type(name).shape or () if isinstance(size, int))

    def dtype(self, name: str) -> DType:
        """The element type of a value."""
        found = self.type(name).dtype
        assert found is not None
        return found

    def array(self, name: str) -> Array | None:
        """A value that is known before the program runs."""
        known = self.known(name)
        return None if known is None else to_array(known)

    def uniform(self, name: str) -> float | None:
        """The number that a value is everywhere; None where it is not known, or no such one."""
        maker = self.makers.get(name)
        found = self.array(str(maker.args[0]) if maker is not None and maker.op == "Expand" else name)
        return None if found is None or not found.size or np.any(found != found.flat[0]) else found.flat[0]

    def all_equal(self, name: str, value: float) -> bool:
        """Whether a value is known, and this number everywhere."""
        return self.uniform(name) == value

    def are_equal(self, first: str, second: str) -> bool:
        """Whether two values are known and equal."""
        a, b = self.array(first), self.array(second)
        return a is not None and b is not None and np.array_equal(a, b)

    def number(self, name: str) -> int | None:
        """A known integer of one element."""
        found = self.array(name)
        return None if found is None or found.size != 1 else int(found.reshape(())[()])

    # how a rule writes

    def apply(self, op: str, *operands: str, **attrs: Constant) -> str:
        """Append an op of one result, in fewer ops where that is known to be the same, and give its name."""
        if (kept := self._unsqueezed(op, operands)) is not None:
            sources, axes = kept
            return self.apply("Squeeze", self.apply(op, *sources, **attrs), axes)
        if (ones := self._without_ones(op, operands)) is not None:
            sources, shape = ones
            return self.reshaped(self.apply(op, *sources, **attrs), shape)
        statement = Apply((self.hint,), op, operands, Attributes(attrs))
        found = simpler(statement, self.values, self.makers)
        if isinstance(found, str):
            return found
        found = Apply((self.hint,), found.op, found.args, found.attrs)
        if found.op == "Reshape" and keeps_shape(self, found):
            return str(found.args[0])
        found = sunk(self, found)
        if found.op == "Identity":
            return str(found.args[0])
        args = self._unled(found.op, tuple(map(str, found.args)))
        return self.several(found.op, 1, *args, **found.attrs)[0]

    def _unsqueezed(self, op: str, operands: tuple[str, ...]) -> tuple[list[str], str] | None:
        """Operands before they lost the same dimensions of 1, which the result can lose as well, and these dimensions.

        What is computed of means and sums is then in the shape in which it meets again what they are of.
        """
        if op not in ELEMENTWISE and not broadcasts(op):
            return None
        found: list[str] = []
        axes = ""
        for name in operands:
            maker = self.makers.get(name)
            if self.number_of(name):
                found.append(self._plain(name))
            elif maker is not None and maker.op == "Squeeze" and self.shape(name):
                own = str(maker.args[1])
                if axes and not self.are_equal(own, axes):
                    return None
                found.append(str(maker.args[0]))
                axes = own
            elif maker is not None and maker.op == "Expand" and self.number_of(str(maker.args[0])):
                found.append(self._plain(str(maker.args[0])))
            else:
                return None
        return (found, axes) if axes else None

    def ones(self, name: str) -> list[int]:
        """The dimensions of 1 that a value was given before."""
        maker = self.makers.get(name)
        added = self.array(str(maker.args[1])) if maker is not None and maker.op == "Unsqueeze" else None
        return [] if added is None else [int(axis) for axis in added]

    def _without_ones(self, op: str, operands: tuple[str, ...]) -> tuple[list[str], list[int]] | None:
        """Operands without dimensions of 1 that were added to all that have so many, and the result's shape."""
        if op not in ELEMENTWISE and not broadcasts(op):
            return None
        shapes = [self.shape(name) for name in operands]
        sources = tuple(self._before_expansion(name) for name in operands)
        if np.broadcast_shapes(*map(self.shape, sources)) == np.broadcast_shapes(*shapes):
            operands, shapes = sources, [self.shape(name) for name in sources]
        rank = max(map(len, shapes), default=0)
        own = [set(self.ones(name)) for name, shape in zip(operands, shapes, strict=True) if len(shape) == rank]
        axes = set(max(own, key=len, default=()))
        wide = [(1,) * (rank - len(shape)) + shape for shape in shapes]
        if not axes or any(shape[axis] != 1 for shape in wide for axis in axes):
            return None
        found: list[str] = []
        for name, shape in zip(operands, shapes, strict=True):
            missing = rank - len(shape)
            sizes = [size for at, size in enumerate(shape) if at + missing not in axes]
            found.append(self.reshaped(name, sizes) if shape else name)
        return found, [max(shape[axis] for shape in wide) for axis in range(rank)]

    def _before_expansion(self, name: str) -> str:
        maker = self.makers.get(name)
        source = str(maker.args[0]) if maker is not None and maker.op == "Expand" else name
        return self._plain(source) if self.number_of(source) else source

    def number_of(self, name: str) -> bool:
        """Whether a value is known, and one number."""
        known = self.known(name)
        return known is not None and len(known.values) == 1

    def _plain(self, name: str) -> str:
        """A known number without dimensions."""
        known = self.known(name)
        assert known is not None
        return self.known_value(Dense(known.dtype, (), known.values))

    def _unled(self, op: str, args: tuple[str, ...]) -> tuple[str, ...]:
        """Operands that broadcast without the dimensions of 1 in front that were added for that."""
        if len(args) < 2 or not broadcasts(op):
            return args
        ranks = [len(self.shape(arg)) for arg in args]
        found = list(args)
        for i, arg in enumerate(args):
            shape, maker = self.shape(arg), self.makers.get(arg)
            rest = shape[next((at for at, size in enumerate(shape) if size != 1), len(shape)) :]
            is_view = maker is not None and maker.op in ("Squeeze", "Unsqueeze")
            if is_view and rest != shape and len(shape) <= max(ranks[:i] + ranks[i + 1 :]):
                found[i] = self.reshaped(arg, rest)
                ranks[i] = len(rest)
        return tuple(found)

    def several(self, op: str, count: int, *operands: str, **attrs: Constant) -> tuple[str, ...]:
        """Append an op of so many results as it is; what has been computed already is not again."""
        known = tuple(found if (found := self.known(name)) is not None else name for name in operands)
        key = (op, known, Attributes(attrs), count)
        if key not in self._computed:
            given = tuple(self.builder.fresh(self.hint) for _ in range(count))
            self.append(Apply(given, op, operands, Attributes(attrs)))
            self._computed[key] = given
        return self._computed[key]

    def known_value(self, value: Constant | Array, dtype: DType | None = None) -> str:
        """A constant."""
        given = self.builder.fresh(f"{self.hint}.known")
        self.values[given] = to_dense(value) if isinstance(value, np.ndarray) else dense(value, dtype)
        return given

    def resource(self, name: str, of: TensorType, place: TextPlace) -> str:
        """A weight whose values are behind the module, or left out. Raises ImportRefused for too few, or many."""
        data = self.module.resources.get(name)
        if data is not None and name in self._resources:
            return self._resources[name]
        assert of.dtype is not None
        roles = {"param": True} if of.dtype.kind == "float" else {}
        given = self.parameter(self.builder.fresh(value_name(name) if data is not None else "weight"), of, roles)
        self._resources[name] = given
        if data is None:
            self.missing.append(given)
        else:
            shape, elements = self.shape(given), numpy_dtype(of.dtype)
            if len(data) != (wanted := math.prod(shape) * elements.itemsize):
                refuse(f"`dense_resource<{name}>` has {len(data)} bytes, where its type takes {wanted}", place)
            self.weights[given] = Weight(of.dtype, shape, lambda: np.frombuffer(data, elements).reshape(shape))
        return given

    def levels(self, axes: Sequence[str]) -> list[Level]:
        """The devices along axes of the mesh, from the outermost."""
        assert self.mesh is not None
        names, sizes = list(self.mesh.axes), list(self.mesh.axes.values())
        return [(self.mesh.axes[name], math.prod(sizes[names.index(name) + 1 :])) for name in axes]

    def whole(self, name: str) -> str:
        """All of a value, on each device."""
        layout = self.layouts.get(name)
        if layout is None:
            return name
        if name not in self.gathered:
            made = name
            for axis, over in enumerate(layout.dims):
                for size, stride in reversed(self.levels(over)):
                    made = self.several("GroupAllgather", 1, made, size=size, stride=stride, axis=axis)[0]
            self.gathered[name] = made
        return self.gathered[name]

    def whole_shape(self, name: str) -> tuple[int, ...]:
        """The shape of all of a value, of which a device may have its part."""
        layout = None if self.inside else self.layouts.get(name)
        if layout is None:
            return self.shape(name)
        counts = [math.prod(size for size, _ in self.levels(axes)) for axes in layout.dims]
        return tuple(size * count for size, count in zip(self.shape(name), counts, strict=True))

    def copied(self, name: str) -> str:
        """The same value by another name."""
        given = self.builder.fresh(self.hint)
        self.append(Apply((given,), "Identity", (name,)))
        return given

    def parts(self, names: Sequence[str]) -> list[str]:
        """Values, and in the place of complex ones and of tuples what these have."""
        found: list[str] = []
        for name in names:
            inner = self.pairs.get(name) or self.tuples.get(name)
            found += self.parts(inner) if inner else [name]
        return found

    def ints(self, sizes: Sequence[int]) -> str:
        """A list of integers, as axes or sizes."""
        given = self.builder.fresh(f"{self.hint}.sizes")
        self.values[given] = Dense(DTYPES["Int64"], (len(sizes),), tuple(sizes))
        return given

    def transposed(self, name: str, perm: Sequence[int]) -> str:
        """A value with its dimensions in another order."""
        shape, ones = self.shape(name), self.ones(name)
        if ones:
            inner = [axis for axis in perm if axis not in ones]
            source = str(self.makers[name].args[0])
            moved = self.transposed(source, [axis - sum(one < axis for one in ones) for axis in inner])
            return self.reshaped(moved, [shape[axis] for axis in perm])
        return name if list(perm) == list(range(len(perm))) else self.apply("Transpose", name, perm=tuple(perm))

    def reshaped(self, name: str, shape: Sequence[int]) -> str:
        """A value in another shape: dimensions of 1 are added and taken away where that is all there is to it."""
        before = self.shape(name)
        if tuple(shape) == before:
            return name
        while (maker := self.makers.get(name)) is not None and maker.op in ("Squeeze", "Unsqueeze"):
            name = str(maker.args[0])
            if self.shape(name) == tuple(shape):
                return name
        before = self.shape(name)
        rest = [size for size in shape if size != 1]
        if rest != [size for size in before if size != 1]:
            return self.apply("Reshape", name, self.ints(shape))
        gone, added = _missing(before, shape), _missing(shape, before)
        if gone and added:
            gone, added = [[axis for axis, size in enumerate(sizes) if size == 1] for sizes in (before, shape)]
        name = self.apply("Squeeze", name, self.ints(gone)) if gone else name
        return self.apply("Unsqueeze", name, self.ints(added)) if added else name

    def expanded(self, name: str, shape: Sequence[int]) -> str:
        """A value broadcast to a shape."""
        return name if self.shape(name) == tuple(shape) else self.apply("Expand", name, self.ints(shape))

    def sliced(self, name: str, starts: Sequence[int], limits: Sequence[int], strides: Sequence[int] = ()) -> str:
        """The elements from starts to before limits, in steps."""
        shape = self.shape(name)
        steps = strides or [1] * len(shape)
        cut = [(a, s, e, d) for a, (s, e, d) in enumerate(zip(starts, limits, steps, strict=True))]
        cut = [(a, s, e, d) for a, s, e, d in cut if (s, e, d) != (0, shape[a], 1)]
        if not cut:
            return name
        axes, begin, end, step = (self.ints([row[i] for row in cut]) for i in range(4))
        return self.apply("Slice", name, begin, end, axes, step)

    # the walk

    def run(self, function: FunctionText, operands: Sequence[str], place: TextPlace) -> list[str]:
        """Write a function out; gives what its results are called."""
        if len(operands) != len(function.params):
            refuse(f"`@{function.name}` expected {len(function.params)} operands, found {len(operands)}", place)
        found = self.block(function.body, [p.name for p in function.params], operands, place, {})
        if len(found) != len(function.results):
            message = f"`@{function.name}` says that it gives {len(function.results)} results, and returns {len(found)}"
            refuse(message, function.place)
        return found

    def block(
        self,
        block: Region,
        names: Sequence[str],
        operands: Sequence[str],
        place: TextPlace,
        outside: dict[str, str] | None,
    ) -> list[str]:
        """Write the operations of a block out, for these operands. `outside`: the values around it, else all of now."""
        self.depth += 1
        if self.depth > limits.NESTED:
            refuse(f"calls are nested deeper than {limits.NESTED}", place)
        outer = self.env
        self.env = {**(outer if outside is None else outside), **dict(zip(names, operands, strict=True))}
        try:
            for operation in block.operations:
                if operation.name.rpartition(".")[2] == "return":
                    return [self.operand(name, operation) for name in operation.operands]
                self.operation(operation)
            refuse("the block returns nothing", place)
        finally:
            self.env = outer
            self.depth -= 1

    def operation(self, operation: MlirOperation) -> None:
        """Write one operation with ops of ours. Raises ImportRefused for one that has no rule, with its place."""
        if message := self.functions.write_out():
            refuse(message, operation.place, "let loops take fewer steps, and functions be called less often")
        dialect, _, name = operation.name.rpartition(".")
        name = "placed otherwise" if dialect == "sdy" and name in OF_SHARDY else name
        found = RULES_BY_OP.get(name) if dialect in DIALECTS or operation.name == "arith.constant" else None
        if found is None:
            advice = "write this part of the function with other ops, or export a part without it"
            refuse(f"`{operation.name}` has no op here", operation.place, advice)
        operands = [self.operand(given, operation, name not in TAKE_STACKS) for given in operation.operands]
        try:
            with self._named(operation):
                made = self._written(found, operation, operands)
        except MALFORMED as error:
            if isinstance(error, ImportRefused):
                raise
            advice = "check the file with `stablehlo-opt`"
            refuse(f"operands, attributes and types of `{operation.name}` do not fit", operation.place, advice)
        results = [made] if isinstance(made, str) else list(made)
        if len(results) != len(operation.results):
            refuse(f"`{operation.name}` gives {len(results)} results here", operation.place)
        self._check(operation, results)
        for made in results:
            self.places.setdefault(made, operation.place)
        self.env.update(zip(operation.results, results, strict=True))

    def _written(self, found: Translated, operation: MlirOperation, operands: Sequence[str]) -> str | Sequence[str]:
        """What a rule gives; of complex values, what those for their parts give."""
        if operation.name.rpartition(".")[2] in WHOLE:
            return found(self, operation, operands)
        if not self.inside and operation.symbol not in AROUND_REGIONS:
            operands = [self.whole(operand) for operand in operands]
        types = [*operation.types[1], *(str(w.named.get("type")) for w in operation.words if isinstance(w, Braces))]
        of_pairs = any(name in self.pairs for name in operands) or any("complex<" in of for of in types)
        return (RULES_BY_OP["complex values"] if of_pairs else found)(self, operation, operands)

    @contextmanager
    def _named(self, operation: MlirOperation) -> Generator[None]:
        """Let what is appended be called after the operation."""
        before = self.hint
        first = operation.results[0] if operation.results else operation.name
        self.hint = value_name(first.lstrip("%").replace("#", "."))
        try:
            yield
        finally:
            self.hint = before

    def _check(self, operation: MlirOperation, results: Sequence[str]) -> None:
        """Raises ImportRefused where a rule, or the file, is wrong about a type."""
        stated = operation.types[1]
        if len(stated) != len(results):
            return  # types of operands, too
        for text, name in zip(stated, results, strict=True):
            if name in self.stacks or name in self.pairs or not text.startswith("tensor"):
                continue
            expected, found = tensor_type(text, DEVICE, operation.place), type_of(self.values[name])
            if not isinstance(found, TensorType) or (found.dtype, self.whole_shape(name)) != (
                expected.dtype,
                expected.shape,
            ):
                refuse(f"`{operation.name}` gives `{expected}` in the file, and `{found}` here", operation.place)

    def operand(self, name: str, operation: MlirOperation, whole: bool = True) -> str:
        """What a value of the file is called here; `whole`: a stack as one value."""
        plain = name if name in self.env else name.removesuffix("#0")
        if plain not in self.env:
            refuse(f"`{name}` is not defined", operation.place)
        found = self.env[plain]
        return self.stacked(found) if whole else found

    def parted(self, name: str, row: Sequence[int]) -> bool:
        """Whether a value is a stack of rows of this shape, which it becomes where it is one: as weights of layers."""
        if name not in self.stacks and len(self.shape(name)) == len(row) + 1 and self.known(name) is None:
            count = self.shape(name)[0]
            if 1 < count <= MOST_PARTS:
                parts = self.several("Split", count, name, axis=0, num_outputs=count)
                self.stacks[name] = tuple(self.reshaped(part, self.shape(part)[1:]) for part in parts)
        return name in self.stacks and self.shape(self.stacks[name][0]) == tuple(row)

    def stacked(self, name: str) -> str:
        """A stack as one value."""
        parts = self.stacks.get(name)
        if parts is None or name in self.values:
            return name
        rows = [self.reshaped(part, (1, *self.shape(part))) for part in parts]
        made = rows[0] if len(rows) == 1 else self.apply("Concat", *rows, axis=0)
        self.values[name] = self.values[made]
        self.append(Apply((name,), "Identity", (made,)))
        return name

    def finish(self, returned: Sequence[str]) -> Function:
        """The function that returns these values."""
        rewritten(self, returned, RULES)
        return settle(self.builder, self.statements, self.values, returned, SMALL)

    def compute(self, statement: Apply) -> None:
        """Add an op, on what its operands were before they were expanded."""
        found = sunk(self, Apply((f"{statement.results[0]}.part",), statement.op, statement.args, statement.attrs))
        self.append(Apply(statement.results, found.op, found.args, found.attrs))

    def nodes(self, nodes: Sequence[Any]) -> None:
        """There are no nodes of ONNX here."""
        raise NotImplementedError

    def node(self, node: Any) -> None:
        """There are no nodes of ONNX here."""
        raise NotImplementedError


def _missing(longer: Sequence[int], shorter: Sequence[int]) -> list[int]:
    """The dimensions of 1 that a shape has and another one lacks, if both are read from the front."""
    axes: list[int] = []
    rest = list(shorter)
    for axis, size in enumerate(longer):
        if rest and rest[0] == size:
            rest.pop(0)
        elif size == 1:
            axes.append(axis)
        else:
            while rest and rest[0] == 1 != size:
                rest.pop(0)
            rest = rest[1:]
    return axes


DIALECTS = frozenset(("stablehlo", "chlo", "sdy", "func", "mhlo", ""))

WHOLE = frozenset(
    (
        "call",
        "composite",
        "while",
        "case",
        "if",
        "tuple",
        "get_tuple_element",
        "optimization_barrier",
        "manual_computation",
    )
)
"""Operations to which it is the same whether values are complex, or parts of others."""

OF_SHARDY = frozenset(("all_gather", "all_reduce", "all_slice", "all_to_all", "collective_permute", "reduce_scatter"))
"""Collectives of Shardy, which are of whole values, and say how these lie afterwards."""

AROUND_REGIONS = frozenset(("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"))
"""Custom calls of GSPMD that lead into regions for one device, and out of them."""

TAKE_STACKS = frozenset(("while", "call", "dynamic_slice", "dynamic_update_slice", "optimization_barrier"))
"""Operations that pass stacks on, or take a part out of them."""
