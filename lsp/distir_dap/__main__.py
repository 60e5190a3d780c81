"""`python -m distir_dap`: the debug adapter on standard input and output, or for one client on a loopback port."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Sequence
from functools import partial

LOOPBACK = "127.0.0.1"
REFUSED = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve one session. Gives the exit code: 2 where it cannot be started."""
    parser = argparse.ArgumentParser(prog="python -m distir_dap", description="The DistIR debug adapter.")
    parser.add_argument("--port", type=int, metavar="PORT", help=f"listen for one client on {LOOPBACK}:PORT instead")
    given = parser.parse_args(arguments)
    try:
        serve(given.port)
    except (OSError, OverflowError) as error:
        if given.port is None:
            raise
        print(f"error: cannot listen on port {given.port}: {str(error).lower()}", file=sys.stderr)
        return REFUSED
    return 0


def serve(port: int | None = None) -> None:
    """Serve on standard input and output, or on a port of this machine that others cannot reach.

    Raises OSError where the port is taken.
    """
    from distir import __version__
    from distir.files.cache import cache_folder
    from distir.ir.registry import import_plugins
    from distir.syntax import grammar
    from distir_dap.adapter import Adapter
    from distir_dap.connection import Connection

    grammar.folder_for_tables = partial(cache_folder, __version__)
    if port is None:
        import_plugins()
        descriptor = sys.stdin.buffer.fileno()
        Adapter(Connection(partial(os.read, descriptor), sys.stdout.buffer)).serve()
        return
    with socket.create_server((LOOPBACK, port)) as listening:
        import_plugins()
        client, _ = listening.accept()
    with client, client.makefile("wb") as output:
        Adapter(Connection(client.recv, output)).serve()


if __name__ == "__main__":
    sys.exit(main())
