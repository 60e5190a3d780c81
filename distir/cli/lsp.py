"""`distir lsp`."""

from __future__ import annotations

from typing import Annotated

import typer

from distir.cli.endings import Refused


def lsp(
    tcp: Annotated[
        int | None,
        typer.Option(metavar="PORT", min=1, max=65535, help="Listen on this port of 127.0.0.1 for one editor."),
    ] = None,
    stdio: Annotated[bool, typer.Option("--stdio", help="Use standard input and output, the default.")] = False,
) -> int:
    """Run the language server on standard input and output.

    Editors start it; docs/editors.md explains how to configure them. `distir-lsp` is the same.

    For example:

        distir lsp

        distir lsp --tcp 8765
    """
    del stdio  # many editors add it to the command
    try:
        from distir_lsp.__main__ import serve
    except ModuleNotFoundError as error:
        raise _lacking(error) from None
    try:
        serve(tcp)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("pygls", "lsprotocol", "cattrs"):
            raise
        raise _lacking(error) from None
    except OSError as error:
        if tcp is None:
            raise
        raise Refused(f"cannot listen on port {tcp}: {(error.strerror or str(error)).lower()}") from None
    return 0


def _lacking(error: ModuleNotFoundError) -> Refused:
    return Refused(f"the language server needs `{error.name}`", "install it: `pip install 'distir[lsp]'`")
