"""How code hosts name a file: from the root of the repository, with forward slashes."""

from __future__ import annotations

import os
from pathlib import Path, PurePath
from urllib.parse import quote


def repository_path(path: str) -> str:
    """The path from the root of the repository, or as it was given for a file outside.

    The root is `GITHUB_WORKSPACE`, which GitHub sets for every job, elsewhere the current folder.
    """
    return _inside(path) or PurePath(path).as_posix()


def uri(path: str) -> str:
    """A relative URI for a file in the repository, a `file:` URI for one outside; percent-encoded."""
    inside = _inside(path)
    return quote(os.fsencode(inside), safe="/") if inside else Path(os.path.abspath(path)).as_uri()


def _inside(path: str) -> str | None:
    root = os.path.abspath(os.environ.get("GITHUB_WORKSPACE") or os.curdir)
    absolute = PurePath(os.path.abspath(path))
    return absolute.relative_to(root).as_posix() if absolute.is_relative_to(root) else None
