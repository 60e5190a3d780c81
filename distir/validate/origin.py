"""What a prediction is of, as digests: an earlier one counts only where both are what they are now."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, cast

from distir.files.reading import FileKind, read_bytes
from distir.ir.registry import GROUP
from distir.validate.plans import plan_of
from distir.validate.predictions import REFUSALS, reason
from distir.validate.runs import MeasuredRun

MODULE = FileKind("a module", 10_000_000, "install DistIR again")


def inputs_digest(run: MeasuredRun) -> str:
    """Of what is simulated for a run: its model, the steps that make its program, the machine with all its figures.

    It depends on the row, on the framework's definition and on the profile, and not on what was measured, nor on texts
    or on the band of published runs, which follows from predictions. Of a run that cannot be expressed: of the reason.
    """
    try:
        program = plan_of(run)
        figures = replace(program.hardware, title="", sources={}, figures=(), published=None)
        return _digest(_stated(replace(program, hardware=figures)).encode())
    except REFUSALS as error:
        return _digest(reason(error).encode())


def _stated(value: object) -> str:
    """A value as text, without fields that have their defaults: a definition may gain one, and earlier values stay."""
    if callable(value):
        return getattr(value, "__qualname__", repr(value))
    if is_dataclass(value) and not isinstance(value, type):
        own = ((f, getattr(value, f.name)) for f in fields(value) if f.repr)
        said = [f"{f.name}={_stated(x)}" for f, x in own if x != _default(f)]
        return f"{type(value).__name__}({', '.join(said)})"
    if isinstance(value, Mapping):
        entries = cast("Mapping[object, object]", value).items()
        return f"{{{', '.join(f'{_stated(key)}: {_stated(x)}' for key, x in entries)}}}"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_stated, cast('tuple[object, ...]', value)))})"
    return repr(value)


def _default(of: Field[Any]) -> Any:
    return of.default_factory() if of.default_factory is not MISSING else of.default


@cache
def code_digest() -> str:
    """Of the code that predicts: the modules of this package, and the versions of plugins."""
    root = Path(__file__).parents[1]
    files = sorted(root.rglob("*.py"))
    plugins = sorted(f"{p.value} {p.dist.version if p.dist else ''}" for p in entry_points(group=GROUP))
    parts = [part for file in files for part in (file.relative_to(root).as_posix().encode(), read_bytes(file, MODULE))]
    return _digest(*parts, *(plugin.encode() for plugin in plugins))


def _digest(*parts: bytes) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(hashlib.sha256(part).digest())
    return found.hexdigest()[:12]
