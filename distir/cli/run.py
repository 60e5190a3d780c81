"""`distir run`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from distir.cli import memory, options, output, simulating
from distir.cli.endings import Refused, judged
from distir.cli.files import shown
from distir.cli.programs import folder_of, settings, sized_program

if TYPE_CHECKING:
    from pathlib import Path

    from distir.analysis import Output
    from distir.analysis.program import Program
    from distir.ir import Constant, Function, Type

VALUES_SHOWN = 8
"""The most elements of a result that is printed with its values."""


def run(
    file: options.File,
    input: Annotated[
        list[str] | None, typer.Option(metavar="NAME=FILE.npy", help="A parameter's value; repeatable.")
    ] = None,
    inputs: Annotated[
        str | None, typer.Option(metavar="FILE", help="An .npz or .safetensors file with values by parameter.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="The random seed for all other parameters.")] = 0,
    out: Annotated[
        str | None, typer.Option("--output", "-o", metavar="OUT.npz", help="Write the results by name.")
    ] = None,
    function: options.FunctionName = None,
    bind: options.Bindings = None,
    max_memory: options.RunMemory = None,
    as_json: options.AsJson = False,
) -> int:
    """Run a program with the reference executor.

    Runs the program sequentially. Prints each result's name, element type, shape, device and digest: SHA-256 of the
    elements' bytes, little-endian, in row-major order, and the values of small results. Parameters without a file are
    random, determined by --seed; --bind sets named dimensions and host parameters. Programs that need more than
    --max-memory, by default the machine's free memory, are refused.

    The elements of a tuple are named w.0, w.1, and so on. BFloat16 and 8-bit floats, which numpy files do not support,
    are stored as their bits under the name with the type, as in y.bfloat16.

    For example:

        distir run program.dir --seed 1

        distir run program.dir --input x=x.npy --inputs weights.safetensors --output results.npz

        distir run program.dir --bind B=4 --json
    """
    from distir.analysis.outputs import digest, flattened
    from distir.cli.tensors import given_inputs, write_archive
    from distir.ops import dtype_of

    program, bind = sized_program(file, bind, "erased")
    config = settings(file)
    entry = simulating.entry(program, function, config)
    bound = simulating.binding(bind or (), config, entry)
    given = given_inputs(entry.params, input or (), inputs)
    most = memory.allowed(max_memory)
    with output.progress(f"running {shown(file)}"), judged(program), memory.within(most):
        results = _run(program, entry, inputs_of(program, entry, given, bound, seed, most), folder_of(file), most)
        tensors = [leaf for result in results for leaf in flattened(result.name, result.type, result.value)]
        rows = [
            {
                "name": name,
                "dtype": dtype_of(array).name,
                "shape": list(array.shape),
                "device": _device(stated),
                "sha256": digest(array),
            }
            for name, stated, array in tensors
        ]
        if out is not None:
            write_archive(out, {name: array for name, _, array in tensors})
    if as_json:
        output.write_json({"function": entry.name, "seed": seed, "outputs": rows})
        return 0
    random = [param.name for param in entry.params if param.name not in given and param.name not in bound]
    if random:
        names = ", ".join(f"%{name}" for name in random[:8]) + (", …" if len(random) > 8 else "")
        output.tell(f"random with seed {seed}: {names}")
    _print(rows, [array for _, _, array in tensors])
    if out is not None:
        output.tell_terminal(f"wrote {out}")
    return 0


def _run(
    program: Program, entry: Function, values: Mapping[str, Any], folder: Path, most: int | None
) -> tuple[Output, ...]:
    """The results. Raises ProgramError where the program does not check for these values, Refused where it fails."""
    import numpy as np

    from distir.analysis import InputError, TooLargeError, execute
    from distir.cli.tensors import loader

    try:
        with np.errstate(all="ignore"):  # infinities and nan are results like others
            return execute(program.module, values, entry.name, loader(folder), most)
    except InputError as error:
        raise Refused(str(error), memory.HELP if isinstance(error, TooLargeError) else None) from None
    except (ValueError, IndexError, ArithmeticError) as error:  # indices out of range, say: the checker sees no values
        raise Refused(f"`@{entry.name}` fails on these inputs: {error}") from None


def inputs_of(
    program: Program,
    entry: Function,
    given: Mapping[str, Any],
    bound: Mapping[str, Constant],
    seed: int,
    most: int | None,
) -> dict[str, Any]:
    """A value for every parameter: from a file, from `--bind`, or random. `most`: the bytes that they may take.

    Raises Refused and analysis.InputError.
    """
    from distir.analysis import InputError, random_inputs
    from distir.ir import TensorType
    from distir.ops import dense, to_array

    params = {param.name: param for param in entry.params}
    values = dict(given)
    for name in bound.keys() & params.keys() - values.keys():
        try:
            stated = params[name].type
            values[name] = to_array(dense(bound[name], stated.dtype if isinstance(stated, TensorType) else None))
        except (ValueError, TypeError, OverflowError) as error:
            raise Refused(f"`--bind {name}`: {error}") from None
    sizes = {name: value for name, value in bound.items() if isinstance(value, int) and not isinstance(value, bool)}
    for param in entry.params:
        if param.name in given:
            _measure(param.type, given[param.name], sizes)
    missing = tuple(param for param in entry.params if param.name not in values)
    try:
        memory.refuse_inputs(missing, sizes, most)
        return values | random_inputs(program.module, seed, sizes, entry.name, values)
    except InputError as error:
        raise Refused(str(error)) from None
    except (ValueError, OverflowError) as error:  # DimensionError is one
        raise Refused(str(error), "choose other sizes with `--bind`") from None


def _measure(stated: Type, value: Any, sizes: dict[str, int]) -> None:
    """Let the named dimensions of a parameter be what they are in its array, where nothing else is said."""
    from distir.ir import SymbolicDim, TensorType, TupleType

    if isinstance(stated, TupleType) and isinstance(value, tuple):
        for item, inner in zip(stated.items, value, strict=False):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            _measure(item, inner, sizes)
    elif isinstance(stated, TensorType) and not isinstance(value, tuple):
        for dim, size in zip(stated.shape or (), value.shape, strict=False):
            if isinstance(dim, SymbolicDim) and str(dim) in dim.names:
                sizes.setdefault(str(dim), size)


def _device(type: Type) -> int | None:
    """The device of a result; None for a host value."""
    from distir.ir import HOST, types

    device = types.device_of(type)
    return None if device == HOST else device


def _print(rows: list[dict[str, Any]], arrays: list[Any]) -> None:
    from rich.text import Text

    listed = output.table("result", "type", "shape", "device", "sha256", right="3")
    for row in rows:
        device = "host" if row["device"] is None else str(row["device"])
        listed.add_row(Text(row["name"]), row["dtype"], Text(str(tuple(row["shape"]))), device, row["sha256"])
    output.lay_out(listed, *_values(rows, arrays))


def _values(rows: list[dict[str, Any]], arrays: list[Any]) -> Iterator[Any]:
    from rich.text import Text

    small = [(row["name"], array) for row, array in zip(rows, arrays, strict=True) if array.size <= VALUES_SHOWN]
    if small:
        yield ""
    for name, array in small:
        yield Text(f"{name} = {array.tolist()}")
