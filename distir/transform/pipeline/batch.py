"""The batch of a sequential entry function: the parameters that have it, and their parts for a microbatch."""

from __future__ import annotations

import math
from dataclasses import replace

from distir.analysis import Analysis, State, check
from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import transforms as codes
from distir.ir import DimensionError, Function, Module, Part, Site, TensorType, Type, dims, types
from distir.ops import Value, type_of
from distir.ops.host import MOST_ENTRIES
from distir.transform.entry import entry_of
from distir.transform.pipeline.microbatches import Share
from distir.transform.steps import StepError


def count_of(module: Module, count: int, micro_batch: int, replicas: int = 1, name: str = "microbatches") -> int:
    """The number of microbatches: `count`, or determined by `micro_batch`, the examples in a microbatch of one replica.

    `name`: the option that gives the number. Raises StepError if both are given, ProgramError where the batch is not
    known or does not divide.
    """
    if count > MOST_ENTRIES:
        raise StepError(f"expected at most {MOST_ENTRIES} microbatches, found {count}")
    if not micro_batch:
        return count
    if count > 1:
        raise StepError(f"`{name}` is the number of microbatches, `micro_batch` their size: give one of the two")
    if micro_batch < 1:
        raise StepError(f"`micro_batch` expected 1 or more, found {micro_batch}")
    entry = entry_of(module)
    for name, axis in batch_axes(entry).items():
        index = next(i for i, p in enumerate(entry.params) if p.name == name)
        whole, site = entry.params[index].type, Site(entry.name, None, Part("param_type", index))
        shape = whole.shape if isinstance(whole, TensorType) else None
        size = shape[axis] if shape is not None and axis < len(shape) else None
        if not isinstance(size, int):
            message = f"`micro_batch` expected a batch whose size is known, found `{whole}` for `%{name}`"
            hint = "write the size into the program, or state the number of microbatches with `microbatches`"
            raise ProgramError([Diagnostic(codes.INDIVISIBLE_BATCH, site, message, help=hint)])
        if size % (micro_batch * replicas):
            of_each = f" in each of {replicas} replicas" if replicas > 1 else ""
            message = f"the batch is {size}, which does not divide into microbatches of {micro_batch}{of_each}"
            near = _nearest_divisors(size // replicas, micro_batch) if size % replicas == 0 else "none"
            hint = f"sizes of microbatches that would do: {near}"
            raise ProgramError([Diagnostic(codes.INDIVISIBLE_BATCH, site, message, help=hint)])
        return size // (micro_batch * replicas)
    raise AssertionError("`batch_axes` gives a parameter or raises")


def _nearest_divisors(size: int, wanted: int) -> str:
    """The divisors of a size nearest to a number."""
    divisors = [n for n in range(1, min(size, 4096) + 1) if size % n == 0]
    return ", ".join(map(str, sorted(sorted(divisors, key=lambda n: abs(n - wanted))[:6])))


def one_device(entry: Function, state: State) -> int:
    """The device that a program runs on. Raises ProgramError if there are several, or none."""
    found = {d for value in state.values() if value is not None for d in types.devices(type_of(value))}
    if len(found) != 1:
        several = f"devices {', '.join(map(str, sorted(found)))}" if found else "no device"
        message = f"expected a program on one device, found {several} in `@{entry.name}`"
        hint = "apply `pp` or `accumulate` before steps that add devices"
        raise ProgramError([Diagnostic(codes.NOT_A_PIPELINE, Site(entry.name, None, Part("name")), message, (), hint)])
    return found.pop()


def batch_axes(entry: Function) -> dict[str, int]:
    """The parameters that have the batch, and along which axis. Raises ProgramError if there are none."""
    found: dict[str, int] = {}
    for param in entry.params:
        axis = param.roles.get("batch")
        if isinstance(axis, int):
            found[param.name] = axis
    if not found:
        message = f"no parameter of `@{entry.name}` says which dimension the batch is"
        hint = "mark the inputs: `%x: Tensor[Float32, (64, 768), 1] {batch = 0}`"
        site = Site(entry.name, None, Part("name"))
        raise ProgramError([Diagnostic(codes.NOT_A_PIPELINE, site, message, help=hint)])
    return found


def part(whole: Type, axis: int, count: int, site: Site) -> tuple[TensorType, Share]:
    """The type of a microbatch's part of an input, and how the parts compose the input. Raises ProgramError."""
    if not isinstance(whole, TensorType) or whole.shape is None or not 0 <= axis < len(whole.shape):
        message = f"expected a tensor with a dimension {axis}, the batch, found `{whole}`"
        raise ProgramError([Diagnostic(codes.NOT_A_PIPELINE, site, message)])
    size = whole.shape[axis]
    if isinstance(size, int) and size % count:
        message = f"the batch is {size}, which does not divide into {count} microbatches"
        hint = f"numbers of microbatches that would do: {_nearest_divisors(size, count)}"
        raise ProgramError([Diagnostic(codes.INDIVISIBLE_BATCH, site, message, help=hint)])
    try:
        piece = dims.divide(size, count)
    except DimensionError as error:
        raise ProgramError([Diagnostic(codes.INDIVISIBLE_BATCH, site, str(error))]) from None
    shape = (*whole.shape[:axis], piece, *whole.shape[axis + 1 :])
    return TensorType(whole.dtype, shape, whole.device, whole.offloaded), Share(axis)


def some_parts(entry: Function, batch: dict[str, int]) -> int:
    """A number of parts into which the batch divides, to locate the batch in a program that will be replicated."""
    size = 0
    for param in entry.params:
        shape = param.type.shape if isinstance(param.type, TensorType) else None
        if param.name in batch and shape is not None and batch[param.name] < len(shape):
            dim = shape[batch[param.name]]
            size = math.gcd(size, dim) if isinstance(dim, int) else size
    return next((n for n in range(2, math.isqrt(size) + 1) if size % n == 0), size) if size else 2


def doubled(entry: Function, analysis: Analysis, full: State, batch: dict[str, int]) -> State | None:
    """The state with a batch of 2 instead of 1: a dimension of 1 cannot be recognised as the batch."""
    args: list[Value] = []
    for param in entry.params:
        value = full[param.name]
        if param.name in batch and isinstance(value, TensorType) and value.shape is not None:
            axis = batch[param.name]
            if value.shape[axis] != 1:
                return None
            value = TensorType(value.dtype, (*value.shape[:axis], 2, *value.shape[axis + 1 :]), value.device)
        args.append(value)
    wide = replace(entry, params=tuple(replace(p, type=type_of(v)) for p, v in zip(entry.params, args, strict=True)))
    module = Module(wide if f.name == entry.name else f for f in analysis.module)
    found = check(module)
    return None if found.errors else found.states[entry.name]
