"""The server's cache: a folder among the user's other caches, one for each version."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from distir import __version__


def cache_folder() -> Path | None:
    """The folder, made if need be; None where that cannot be."""
    home = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME")
    try:
        folder = (Path(home) if home else Path.home() / ".cache") / "distir" / __version__
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    return folder
