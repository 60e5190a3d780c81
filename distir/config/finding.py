"""Where settings are looked for: the nearest file above a program, read once."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from distir.config.settings import FILE_NAME, Config, ConfigError, display
from distir.diagnostics import Diagnostic, Report, Source
from distir.diagnostics.codes.settings import SETTING_VALUE
from distir.files.reading import SETTINGS, read_text
from distir.files.toml import places


def find(start: Path) -> Config:
    """The settings for a file or folder: the nearest `distir.toml` beside it or above it; defaults if there is none.

    A file that has not changed is not read again. Raises ConfigError.
    """
    absolute = Path(os.path.abspath(start))
    folder = absolute if os.path.isdir(absolute) else absolute.parent
    for candidate in (folder, *folder.parents):
        path = candidate / FILE_NAME
        if os.path.lexists(path):
            return load(path)
    return Config()


def load(path: Path) -> Config:
    """The settings in one file; if it has not changed, it is not read again. Raises ConfigError."""
    path = Path(os.path.abspath(path))
    try:
        status = path.stat()
    except OSError:
        return _read(path)  # raises the reason
    return _remembered(path, (status.st_mtime_ns, status.st_size, status.st_ino))


def problem(found: Config, key: tuple[str, ...], message: str, help: str | None = None) -> ConfigError:
    """Something wrong with a setting that shows where it is used, located in the settings file."""
    path = found.path or Path(FILE_NAME)
    try:
        text = read_text(path, SETTINGS, "replace").removeprefix("\ufeff")
    except OSError:
        text = ""
    place = places(text).get(key)
    span = place.value if place is not None else None
    diagnostic = Diagnostic(SETTING_VALUE, span, message, help=help)
    return ConfigError(Report(Source(display(path), text), (diagnostic,)))


@lru_cache(maxsize=64)
def _remembered(path: Path, version: tuple[int, ...]) -> Config:
    del version  # a key of the cache: changes with the file
    return _read(path)


def _read(path: Path) -> Config:
    from distir.config.reader import read

    return read(path)
