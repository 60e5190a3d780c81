"""Configuration formats: each one definition, a codec between a framework's options and a `Job`. They register here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from distir.configurations.jobs import Exported, Job, ReadJob, Supplied
from distir.configurations.options import Remark
from distir.ir.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format. `version`: of the framework whose options it has; `suffixes`: of files that are read without a name.

    `read` takes a text, the path that messages name, and what is given beside it; it raises ConfigurationError.
    """

    name: str
    title: str
    version: str
    suffixes: tuple[str, ...]
    read: Callable[[str, str, Supplied], ReadJob]
    write: Callable[[Job], Exported] | None


FORMATS: Registry[Format] = Registry()
"""By name."""


def configuration_format(definition: Format) -> Format:
    """Register a format."""
    FORMATS.register(definition.name, definition, definition.read.__module__)
    return definition


def read(name: str, text: str, path: str, given: Supplied) -> ReadJob:
    """What a configuration says. Raises ConfigurationError."""
    reading = FORMATS[name].read(text, path, given)
    model = reading.job.model
    if model is None or reading.job.seq:
        return reading
    assumed = Remark(f"sequences of {model.context} tokens, the model's context, as it does not say; `--seq N` does")
    return replace(reading, notes=[assumed, *reading.notes])
