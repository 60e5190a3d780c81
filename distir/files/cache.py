"""The user's cache folder, one for each version of DistIR: its contents can be computed again."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_folder(version: str) -> Path | None:
    """That of a version, made if need be; None where that cannot be."""
    home = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME")
    try:
        folder = (Path(home) if home else Path.home() / ".cache") / "distir" / version
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    return folder
