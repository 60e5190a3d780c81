"""`distir dap`."""

from __future__ import annotations

from typing import Annotated

import typer

from distir.cli.endings import Refused


def dap(
    port: Annotated[
        int | None,
        typer.Option(metavar="PORT", min=1, max=65535, help="Listen on this port of 127.0.0.1 for one editor."),
    ] = None,
) -> int:
    """Run the debug adapter on standard input and output.

    With it, editors step through simulated time; docs/how-to/stepping.md explains how to configure them.

    For example:

        distir dap

        distir dap --port 4711
    """
    from distir_dap.__main__ import serve

    try:
        serve(port)
    except OSError as error:
        if port is None:
            raise
        raise Refused(f"cannot listen on port {port}: {(error.strerror or str(error)).lower()}") from None
    return 0
