"""Addresses of documents and the files they name. A client may send any text as one: what names no file is no error."""

from __future__ import annotations

import os
from pathlib import Path

from pygls import uris


def file_of(uri: str) -> str | None:
    """The path of a file's address; None for what is no file's, and for what no file can be called.

    Addresses `distir-…:` are texts that an editor derives from a program. Their paths are beside it.
    """
    if uri.startswith("distir-"):
        uri = f"file://{uri.partition(':')[2].partition('?')[0]}"
    try:
        path = uris.to_fs_path(uri) if uri.startswith("file:") else None
        if path and b"\0" not in os.fsencode(path):
            return path
    except ValueError:  # a host that is none, characters that no encoding has
        pass
    return None


def path_of(uri: str) -> str:
    """The path of a file's address; the address itself for what is no file."""
    return file_of(uri) or uri


def address_of(path: str | Path) -> str:
    """The address of a file, whatever the bytes of its name."""
    try:
        return uris.from_fs_path(str(path)) or str(path)
    except ValueError:
        return Path(os.path.abspath(path)).as_uri()
