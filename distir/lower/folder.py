"""The folder that a program is lowered to: `program.py` and the scripts that run it. Does not depend on torch.

`program.py` holds the torch functions, `program.json` their parameters, results, process groups and constants and the
line of each statement, `constants.safetensors` the large constants. `runtime.py`, `rehearsal.py`, `run.py` and
`README.md` are the same for every program. The folder needs only torch and can be moved.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from distir.analysis import Bounds, Instance, Leaf, check, index_bounds, result_names
from distir.diagnostics import Diagnostic, Note, ProgramError
from distir.diagnostics.codes import lowering as codes
from distir.ir import (
    HOST,
    Apply,
    Constant,
    Dense,
    External,
    Function,
    Module,
    Part,
    Return,
    Site,
    Statement,
    TensorType,
    TupleType,
    Type,
    types,
)
from distir.ir.errors import DistirError
from distir.lower import templates
from distir.lower.agreement import check_order
from distir.lower.emission import INDENT, Emission, EmittedFunction, UnsupportedStatement
from distir.lower.naming import comment
from distir.lower.projection import concrete, held_results, project
from distir.ops import OPS, Value, type_of
from distir.ops.torch_form import dtype_name, known_numbers
from distir.syntax import print_statement

INLINE = 64
"""Constants with at most this many elements are stored in program.json, larger ones in constants.safetensors."""

FORMAT = 1
"""The version of the format of program.json."""

Load = Callable[[External], Any]


@dataclass(frozen=True, slots=True)
class Lowered:
    """A lowered program. `files`: texts by file name; `tensors`: large constants by their names in program.json."""

    ranks: tuple[int, ...]
    manifest: Mapping[str, Any]
    files: Mapping[str, str]
    tensors: Mapping[str, Dense | External]
    communications: Mapping[str, Mapping[int, Sequence[int]]]
    """By entry and device: the numbers of the rank's communications, in its order."""

    def write(self, folder: Path, load: Load | None = None) -> None:
        """Write the folder, which may exist; each file is replaced atomically.

        `load` reads the arrays of external constants. Raises OSError.
        """
        from distir.lower import tensorfile
        from distir.ops import to_array

        folder.mkdir(parents=True, exist_ok=True)
        arrays: dict[str, Any] = {}
        for name, value in self.tensors.items():
            if isinstance(value, External):
                if load is None:
                    raise LookupError(f"the data of `{value.reference}` is not loaded")
                arrays[name] = load(value)
            else:
                arrays[name] = to_array(value)
        with _replacing(folder / "constants.safetensors") as path:
            tensorfile.write(path, arrays)
        for name, text in self.files.items():
            with _replacing(folder / name) as path:
                path.write_text(text, encoding="utf-8", newline="\n")


@contextmanager
def _replacing(path: Path) -> Generator[Path]:
    """A temporary path to write to, which atomically replaces `path` at the end of the block."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """A function that can be run from outside, with given arguments. `name`: its name in program.json."""

    name: str
    module: Module
    function: Function
    args: tuple[Value, ...]
    results: tuple[tuple[int, str], ...] | None = None
    """For a rank's part: indices and names of its results in the whole function; None: the function's own results."""
    bounds: Mapping[Leaf, Bounds] = field(default_factory=dict[Leaf, Bounds])
    """The ranges of integer parameters, where they are known from elsewhere; for a rank's part, all that are known."""


def lower(entries: Sequence[EntryPoint], source: str = "", more: Mapping[str, Any] | None = None) -> Lowered:
    """Lower functions and their callees into one folder, over the union of their devices.

    `source`: the origin of the program, as text; `more`: further entries of program.json. Raises ProgramError for a
    program with errors or unknown devices, and with all statements that have no torch form.
    """
    ranks: dict[str, dict[int, EntryPoint]] = {}
    for entry in entries:
        analysis = check(entry.module)
        if analysis.errors:
            raise ProgramError(analysis.errors)
        _check_arguments(entry)
        instance = analysis.instance(entry.function, entry.args)
        bounds = {**index_bounds(analysis.domain, instance), **entry.bounds}
        ranks[entry.name] = {d: _part(m, entry, instance, d, bounds) for d, m in project(analysis, instance).items()}
    try:
        return lower_ranks(ranks, source, more)
    except LoweringError as error:
        raise ProgramError(_located(error.problems, entries)) from None


def _check_arguments(entry: EntryPoint) -> None:
    """Raises ProgramError (DIR704) for parameters of unknown element type or size."""
    problems = [
        Diagnostic(
            codes.UNKNOWN_VALUE,
            Site(entry.function.name, None, Part("param_type", i)),
            f"`%{param.name}` needs an element type and a size for each dimension, found `{type_of(v)}`",
            help="state them in its type, or give sizes to named dimensions with `--bind`",
        )
        for i, (param, v) in enumerate(zip(entry.function.params, entry.args, strict=True))
        if not concrete(type_of(v))
    ]
    if problems:
        raise ProgramError(problems)


def _part(
    module: Module, entry: EntryPoint, instance: Instance, device: int, bounds: Mapping[Leaf, Bounds]
) -> EntryPoint:
    """A rank's part of an entry point: its module, arguments and results."""
    names = result_names(entry.function)
    results = tuple((i, names[i]) for i in held_results(instance, device))
    function = module.functions[entry.function.name]
    given = {p.name: v for p, v in zip(entry.function.params, entry.args, strict=True)}
    args = tuple(given.get(p.name, p.type) for p in function.params)
    return EntryPoint(entry.name, module, function, args, results, bounds)


def lower_ranks(
    entries: Mapping[str, Mapping[int, EntryPoint]], source: str = "", more: Mapping[str, Any] | None = None
) -> Lowered:
    """Lower the programs of the ranks, by entry point and device.

    Raises ProgramError (DIR702) where their communications do not match, and LoweringError with all unsupported
    statements.
    """
    matched = {name: _matched(ranks) for name, ranks in entries.items()}
    devices = tuple(sorted({device for ranks in entries.values() for device in ranks}))
    emission = Emission(devices, reserved=templates.function_names())
    described: dict[str, Any] = {}
    for name, ranks in entries.items():
        described[name] = {}
        for device, entry in sorted(ranks.items()):
            analysis = check(entry.module)
            if analysis.errors:
                raise ProgramError(analysis.errors)
            emitted = emission.entry(analysis, entry.function, entry.args, device)
            instance = analysis.instance(entry.function, entry.args)
            described[name][str(emission.rank(device))] = _described(entry, instance, emitted)
    if emission.problems:
        raise LoweringError(emission.problems)
    text, statements = _module(emission, source)
    tensors: dict[str, Dense | External] = {}
    constants = [_constant(value, i, tensors) for value, i in emission.constants.items()]
    manifest = {
        "format": FORMAT,
        "source": source,
        "devices": list(devices),
        "groups": sorted(map(list, emission.groups)),
        "constants": constants,
        "entries": described,
        "statements": statements,
        "functions": [f.name for f in emission.functions],
        "local_functions": [f.name for f in emission.functions if not f.communicates],
        **(more or {}),
    }
    files = {
        "program.py": text,
        "program.json": json.dumps(manifest, indent=1) + "\n",
        "runtime.py": templates.text("runtime"),
        "rehearsal.py": templates.text("rehearsal"),
        "run.py": templates.text("run"),
        "README.md": readme(devices, source),
    }
    return Lowered(devices, manifest, files, tensors, matched)


class LoweringError(DistirError):
    """Statements of the ranks' programs without an equivalent in torch."""

    def __init__(self, problems: Sequence[UnsupportedStatement]) -> None:
        super().__init__("; ".join(problem.refusal.message for problem in problems))
        self.problems = tuple(problems)


def _matched(ranks: Mapping[int, EntryPoint]) -> dict[int, list[int]]:
    """The numbers of each rank's communications. Raises ProgramError (DIR702)."""
    name = next(iter(ranks.values())).function.name
    return check_order({d: e.module for d, e in ranks.items()}, name, {d: e.args for d, e in ranks.items()})


def _located(problems: Sequence[UnsupportedStatement], entries: Sequence[EntryPoint]) -> list[Diagnostic]:
    """One diagnostic for each unsupported statement of the program, for all ranks and instances."""
    found: dict[tuple[str, int | None, str], Diagnostic] = {}
    for problem in problems:
        origin = problem.function.partition(".rank")[0]
        body = next((e.module.functions[origin].body for e in entries if origin in e.module.functions), ())
        index = next((i for i, s in enumerate(body) if _same(s, problem.statement)), None)
        refusal = problem.refusal
        note = Note(f"the statement is `{comment(print_statement(problem.statement))}`")
        notes = () if index is not None else (note,)
        diagnostic = Diagnostic(refusal.code, Site(origin, index), refusal.message, notes, refusal.help)
        found.setdefault((origin, index, refusal.message if index is None else ""), diagnostic)
    return sorted(found.values(), key=lambda d: (str(cast("Site", d.site).function), cast("Site", d.site).index or 0))


def _same(whole: Statement, part: Statement) -> bool:
    """Whether a rank's statement is the projection of this one: same operands, a subset of the results."""
    if isinstance(whole, Apply) and isinstance(part, Apply):
        return (whole.op, whole.args, whole.attrs) == (part.op, part.args, part.attrs)
    return isinstance(whole, Return) and isinstance(part, Return)


def readme(devices: Sequence[int], source: str, more: str = "") -> str:
    """The text of README.md. `more`: table rows for further files."""
    shown = {
        "source": comment(source).replace("`", "'"),
        "count": str(len(devices)),
        "s": "" if len(devices) == 1 else "s",
        "devices": ", ".join(map(str, devices)),
        "more": more,
    }
    text = templates.text("README.md")
    for name, value in shown.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _module(emission: Emission, source: str) -> tuple[str, dict[str, Any]]:
    """The text of program.py, and the statement of each line."""
    head = templates.text("program").replace("{source}", repr(comment(source))[1:-1].replace('"', "'"))
    parts = templates.functions(emission.kernels)
    lines = (head + (f"\n\n{parts}\n" if parts else "")).rstrip("\n").split("\n")
    statements: dict[str, Any] = {}
    for function in emission.functions:
        lines += ["", "", function.rows[0].text]
        for row in function.rows[1:]:
            text = INDENT + row.text
            if row.statement is not None:
                shown = print_statement(row.statement)
                text = f"{text}  # {comment(shown)}"
                statements[str(len(lines) + 1)] = _statement(row.statement, function.origin, shown)
            lines.append(text)
    return "\n".join(lines) + "\n", statements


def _statement(statement: Any, function: str, shown: str) -> dict[str, Any]:
    label = next((f"%{name}" for name in statement.results if name), "")
    if not isinstance(statement, Apply):
        return {"function": function, "text": shown, "call": statement.function, "label": label}
    communicates = OPS[statement.op].communication is not None
    return {
        "function": function,
        "text": shown,
        "op": statement.op,
        "label": label or statement.op,
        "communication": communicates,
    }


def _described(entry: EntryPoint, instance: Instance, emitted: EmittedFunction) -> dict[str, Any]:
    """The signature of a rank's function, for program.json."""
    function = entry.function
    params = [(function.params[i], instance.args[i]) for i in emitted.params]
    results = entry.results or tuple(enumerate(result_names(function)))
    return {
        "function": emitted.name,
        "communicates": emitted.communicates,
        "params": [
            {"name": p.name, "type": described(type_of(v), (p.name, ()), entry.bounds), "roles": dict(p.roles)}
            for p, v in params
        ],
        "results": [
            {"name": results[i][1], "index": results[i][0], "type": described(type_of(instance.state.returned[i]))}
            for i in emitted.results
        ],
        "overwritten": list(emitted.overwritten),
    }


def described(stated: Type, leaf: Leaf = ("", ()), bounds: Mapping[Leaf, Bounds] | None = None) -> Any:
    """A type in JSON: `{dtype, shape, device}`, or a list for a tuple. A value of another rank is None at run time.

    `leaf`: the parameter and the path in it; the range of its integers is included if `bounds` has it.
    """
    if isinstance(stated, TupleType):
        name, path = leaf
        return [described(item, (name, (*path, k)), bounds) for k, item in enumerate(stated.items)]
    tensor, bound = cast("TensorType", stated), (bounds or {}).get(leaf)
    found = {
        "dtype": dtype_name(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.shape or ()),
        "device": None if types.device_of(tensor) == HOST else tensor.device,
    }
    return found if bound is None else found | {"range": [bound.low, bound.high]}


def _constant(value: Dense | External, index: int, tensors: dict[str, Dense | External]) -> dict[str, Any]:
    found: dict[str, Any] = {"dtype": dtype_name(value.dtype).removeprefix("torch."), "shape": list(value.shape)}
    if isinstance(value, External) or math.prod(value.shape) > INLINE:
        tensors[str(index)] = value
        return found | {"stored": str(index)}
    return found | {"values": [_spelled(v) for v in known_numbers(value)]}


def _spelled(value: Constant) -> object:
    """A number in JSON; infinities and nan, which JSON lacks, as texts."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
