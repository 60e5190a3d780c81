"""An import compared with PyTorch: the module and its program compute the same of random weights and random inputs.

Weights are drawn so that nothing is without effect: initial values leave biases at 0 and scores so small that a cap,
or a window, changes next to nothing. PyTorch leaves open which of equal values `topk` takes, programs take the first:
so PyTorch is made to do that, too, and it is said.
"""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from distir.analysis.executor import TooLargeError, execute
from distir.diagnostics.codes.names import UNKNOWN_OP
from distir.importers.core import Imported, ImportRefused
from distir.importers.names import value_name

if TYPE_CHECKING:
    from distir.ops.numeric import Array

MOST_WEIGHTS = 1 << 23
"""So many elements the weights of a module may have that is compared: a second or two of work."""

MOST_WORK = 1 << 34
"""So many of them, times elements of an input, are multiplied and added: seconds."""

MOST_BYTES = 1 << 31
"""So much memory the program may take."""

ROUNDING = 1e-4
"""A difference, relative to the largest element of a result, that rounding in Float32 explains."""

SEEDS = (0, 1)
"""Rounding turns one choice in a million, of an expert for example: what differs is drawn again."""

Results = Callable[[Mapping[str, Any], Sequence[Any]], list[Any]]
"""What a module computes of weights by name and of inputs, in the order of its program's results."""


@dataclass(frozen=True, slots=True)
class TorchComparison:
    """What a comparison has found, in words, and remarks on it."""

    text: str
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ComparedModule:
    """A module as it is compared: `results` runs it on `inputs`, by `names`; `run` is the context that it runs in."""

    nn_module: Any
    names: Sequence[str]
    inputs: Sequence[Any]
    results: Results
    run: Callable[[], AbstractContextManager[Any]]


def compared(subject: ComparedModule, found: Imported) -> TorchComparison:
    """Compare a program, all of whose weights are known, with its module.

    Raises ImportRefused where they differ by more than rounding.
    """
    torch = _package("torch")
    state = dict(_state(subject.nn_module))
    reason = _why_not(torch, subject, state, found)
    if reason is not None:
        return TorchComparison(f"not compared with PyTorch: {reason}")
    worst: _Difference | None = None
    ties = _Ties(subject.nn_module)
    with subject.run():
        bounds = _bounds(subject, state)
        for seed in SEEDS:
            try:
                got = _once(torch, subject, found, state, bounds, ties, seed)
            except _Impossible as impossible:
                return TorchComparison(f"not compared with PyTorch: {impossible}")
            if got.share <= ROUNDING:
                return TorchComparison(f"equal to PyTorch to {got.share:.1g}", ties.remarks())
            worst = got if worst is None or got.share < worst.share else worst
    assert worst is not None
    module = type(subject.nn_module).__name__
    raise _fault(f"the program of `{module}` does not compute what PyTorch does: `{worst.name}` {worst.words()}")


class Differs(ImportRefused):
    """A program that does not compute what its module does, or does not run."""


def _fault(message: str) -> Differs:
    advice = (
        "this is a fault of the import; `compare=False`, on the command line `--no-compare`, imports it all the same"
    )
    return Differs(message, advice)


class _Impossible(Exception):  # noqa: N818 - a finding about a module
    """Why a module cannot be compared."""


@dataclass(frozen=True, slots=True)
class _Difference:
    """The largest difference of the result `name`, as a share of its largest element."""

    name: str
    share: float
    shapes: tuple[object, object] | None = None

    def words(self) -> str:
        if self.shapes is not None:
            return f"has the shape {self.shapes[0]}, expected {self.shapes[1]}"
        return f"differs by {self.share:.2g} of its largest element, rounding explains {ROUNDING:g}"


def _state(nn_module: Any) -> Iterator[tuple[str, Any]]:
    yield from nn_module.named_parameters(remove_duplicate=False)
    yield from nn_module.named_buffers(remove_duplicate=False)


def _why_not(torch: Any, subject: ComparedModule, state: Mapping[str, Any], found: Imported) -> str | None:
    """Why a module is not compared, as far as that is known before it runs."""
    tensors = [*state.values(), *subject.inputs]
    if not state:
        return "it has no weights"
    if any(tensor.is_meta for tensor in tensors):
        return "its weights or its inputs are on the meta device, and have no data"
    floats = {str(t.dtype).removeprefix("torch.") for t in tensors if t.is_floating_point()}
    if narrow := floats - {"float32", "float64"}:
        return f"rounding in {min(narrow)} hides differences; a copy in float32 can be compared"
    entry = found.entry()
    taken = frozenset(p.name for p in entry.params) if entry is not None else frozenset[str]()
    weights = sum({id(t): t.numel() for name, t in state.items() if value_name(name) in taken}.values())
    if weights > MOST_WEIGHTS:
        return f"its weights have {weights:,} elements, {MOST_WEIGHTS:,} at most are compared"
    if weights * max((t.numel() for t in subject.inputs), default=0) > MOST_WORK:
        return f"its weights have {weights:,} elements, which is too many for inputs as large as these"
    return None


def _once(
    torch: Any,
    subject: ComparedModule,
    found: Imported,
    state: Mapping[str, Any],
    bounds: Mapping[str, int],
    ties: _Ties,
    seed: int,
) -> _Difference:
    """How far program and module are apart for one seed. Raises _Impossible."""
    random = torch.Generator().manual_seed(seed)
    drawn = [_drawn_input(torch, t, bounds.get(n), random) for n, t in zip(subject.names, subject.inputs, strict=True)]
    of_weights = {id(tensor): _drawn_weight(torch, tensor, random) for tensor in state.values()}
    weights = {name: of_weights[id(tensor)] for name, tensor in state.items()}
    tried = [(weights, drawn), (state, drawn), (state, subject.inputs)]
    refused: Exception | None = None
    for held, inputs in tried:  # a module may want weights, or inputs, of some kind
        before = torch.get_rng_state()
        try:
            with ties.first(torch):
                want = subject.results(_copies(held), inputs)
        except Exception as error:  # it runs the user's code
            refused = error
            continue
        if not torch.equal(before, torch.get_rng_state()):
            torch.set_rng_state(before)
            raise _Impossible("it draws random numbers")
        refused = None
        if all(bool(torch.isfinite(t).all()) for t in want):
            break
    else:
        said = (
            "it gives numbers that are not finite"
            if refused is None
            else f"PyTorch does not run it: {_first_line(refused)}"
        )
        raise _Impossible(said)
    return _furthest(torch, found, _arrays(found, held, dict(zip(subject.names, inputs, strict=True))), want)


def _furthest(torch: Any, found: Imported, given: Mapping[str, Any], want: Sequence[Any]) -> _Difference:
    import numpy as np

    try:
        results = execute(found, given, max_bytes=MOST_BYTES)
    except TooLargeError as error:
        raise _Impossible(_first_line(error)) from None
    except Exception as error:
        unknown = [d for d in getattr(error, "diagnostics", ()) if d.code == UNKNOWN_OP]
        if unknown:
            raise _Impossible(unknown[0].message) from None
        raise _fault(f"the program that was made of it does not run: {_first_line(error)}") from None
    if len(results) != len(want):
        raise _Impossible(f"it gives {len(want)} tensors, and {len(results)} where it is exported")
    arrays: list[Array] = [tensor.detach().cpu().numpy() for tensor in want]
    pairs = [(result.name, np.asarray(result.value), array) for result, array in zip(results, arrays, strict=True)]
    floor = 1e-3 * max((float(np.abs(b).max()) for _, _, b in pairs if b.size and b.dtype.kind == "f"), default=0.0)
    apart = [_apart(name, a, b, floor) for name, a, b in pairs]
    return max(apart, key=lambda one: one.share)


def _first_line(error: Exception) -> str:
    return next(filter(None, str(error).splitlines()), type(error).__name__)


def _apart(name: str, got: Array, want: Array, floor: float) -> _Difference:
    import numpy as np

    if got.shape != want.shape:
        return _Difference(name, float("inf"), (got.shape, want.shape))
    if not want.size:
        return _Difference(name, 0.0)
    if want.dtype.kind != "f":
        return _Difference(name, float(np.not_equal(got, want).mean()))
    scale = max(float(np.abs(want).max()), floor)
    furthest = float(np.abs(got.astype(np.float64) - want).max())
    share = furthest / scale if scale else furthest
    return _Difference(name, share if share == share else float("inf"))


def _arrays(found: Imported, weights: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays that a program takes, by the names of its parameters."""
    entry = found.entry()
    assert entry is not None
    known = {value_name(name): tensor for name, tensor in (*weights.items(), *inputs.items())}
    return {
        p.name: known[p.name].detach().cpu().numpy() if p.name in known else found.weights[p.name] for p in entry.params
    }


def _copies(state: Mapping[str, Any]) -> dict[str, Any]:
    """Tensors that a module may change; what is one under several names stays one."""
    copied = {id(tensor): tensor.detach().clone() for tensor in state.values()}
    return {name: copied[id(tensor)] for name, tensor in state.items()}


def _drawn_weight(torch: Any, tensor: Any, random: Any) -> Any:
    """A tensor like a weight, without effectless values: products keep the size of what they are given."""
    if not tensor.is_floating_point() or not tensor.numel():
        return tensor
    draw = torch.randn(tensor.shape, generator=random).to(tensor)
    if isinstance(tensor, torch.nn.Parameter) and tensor.dim() > 1:
        return draw / max(1, math.prod(tensor.shape[1:] if tensor.dim() > 3 else tensor.shape[1:2])) ** 0.5
    scaled = tensor * (1 + 0.2 * torch.tanh(draw))
    return torch.where(tensor == 0, 0.2 * draw, scaled)


def _drawn_input(torch: Any, tensor: Any, rows: int | None, random: Any) -> Any:
    """An input like an example; one that is the same everywhere says nothing of what is mixed with what."""
    constant = tensor.numel() > 1 and bool((tensor == tensor.reshape(-1)[0]).all())
    if not constant:
        return tensor
    if tensor.is_floating_point():
        return torch.randn(tensor.shape, generator=random).to(tensor)
    if rows is None:
        return tensor
    return torch.randint(0, rows, tensor.shape, generator=random).to(tensor)


def _bounds(subject: ComparedModule, state: Mapping[str, Any]) -> dict[str, int]:
    """By the names of inputs that look up rows of tables, how many rows there are."""
    pointers = {t.data_ptr(): name for name, t in zip(subject.names, subject.inputs, strict=True) if t.numel()}
    found: dict[str, int] = {}

    def note(table: Any, args: tuple[Any, ...]) -> None:
        name = pointers.get(args[0].data_ptr()) if args and hasattr(args[0], "data_ptr") else None
        if name is not None:
            found[name] = min(found.get(name, table.num_embeddings), table.num_embeddings)

    tables = [part for part in subject.nn_module.modules() if hasattr(part, "num_embeddings")]
    hooks = [table.register_forward_pre_hook(note) for table in tables]
    torch = _package("torch")
    before = torch.get_rng_state()
    try:
        subject.results(_copies(state), subject.inputs)
    except Exception:  # it is run again, with the inputs that are drawn
        return found
    finally:
        torch.set_rng_state(before)
        for hook in hooks:
            hook.remove()
    return found


@dataclass
class _Ties:
    """Where `topk` has met values that are equal, of which it takes some: the modules, by name."""

    nn_module: Any
    met: dict[str, None] = field(default_factory=dict[str, None])

    def first(self, torch: Any) -> AbstractContextManager[Any]:
        """A context in which `topk` takes the first of equal values."""
        ties = self

        class First(_package("torch.overrides").TorchFunctionMode):
            def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                kwargs = kwargs or {}
                if func in (torch.topk, torch.Tensor.topk) and "out" not in kwargs:
                    return ties.topk(torch, *args, **kwargs)
                return func(*args, **kwargs)

        return First()

    def topk(self, torch: Any, x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
        """The first `k` of a stable sort."""
        values, places = torch.sort(x, dim=dim, descending=largest, stable=True)
        size = x.shape[dim] if x.dim() else 1
        if 0 < k < size:
            last, next_one = values.select(dim, k - 1), values.select(dim, k)
            if bool(((last == next_one) & torch.isfinite(last)).any()):
                self.met[self._module()] = None
        return torch.return_types.topk((values.narrow(dim, 0, k), places.narrow(dim, 0, k)) if x.dim() else (x, places))

    def _module(self) -> str:
        """The innermost module that is running."""
        names = {id(part): name for name, part in self.nn_module.named_modules()}
        frame: Any = inspect.currentframe()
        while frame is not None:
            if id(holder := frame.f_locals.get("self")) in names and holder is not self:
                return f"`{names[id(holder)]}`" if names[id(holder)] else f"`{type(holder).__name__}`"
            frame = frame.f_back
        return f"`{type(self.nn_module).__name__}`"

    def remarks(self) -> tuple[str, ...]:
        """What is to be said of them."""
        if not self.met:
            return ()
        first, *others = self.met
        more = f" and {len(others)} more {'modules' if len(others) > 1 else 'module'}" if others else ""
        text = f"`topk` in {first}{more} met equal values: PyTorch leaves open which of them it takes, "
        said = "the program takes the first, and was compared with PyTorch that does so, too; results differ where"
        return (f"{text}{said} PyTorch takes others",)


def _package(name: str) -> Any:
    return importlib.import_module(name)
