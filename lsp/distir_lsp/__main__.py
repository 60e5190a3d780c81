"""`distir-lsp`: the language server on standard input and output, or for one client on a loopback port."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Sequence
from functools import partial

LOOPBACK = "127.0.0.1"
REFUSED = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until the client says `exit` or goes away. Gives the exit code: 2 where it cannot be started."""
    parser = argparse.ArgumentParser(prog="distir-lsp", description="The DistIR language server.")
    parser.add_argument("--stdio", action="store_true", help="standard input and output (the default)")
    parser.add_argument("--tcp", type=int, metavar="PORT", help=f"listen for one client on {LOOPBACK}:PORT instead")
    given = parser.parse_args(arguments)
    try:
        serve(given.tcp)
    except ModuleNotFoundError as error:
        print(f"error: the language server needs `{error.name}`: `pip install 'distir[lsp]'`", file=sys.stderr)
        return REFUSED
    except (OSError, OverflowError) as error:
        if given.tcp is None:
            raise
        print(f"error: cannot listen on port {given.tcp}: {str(error).lower()}", file=sys.stderr)
        return REFUSED
    return 0


def serve(port: int | None = None) -> None:
    """Serve on standard input and output, or on a port of this machine that others cannot reach.

    Raises OSError where the port is taken.
    """
    gc.disable()  # while what stays is loaded; the server decides what follows
    from distir import __version__
    from distir.files.cache import cache_folder
    from distir.ir.registry import import_plugins
    from distir.syntax import grammar
    from distir_lsp import serving
    from distir_lsp.server import DistirServer

    grammar.folder_for_tables = partial(cache_folder, __version__)
    import_plugins()  # before there are threads that would find half of them
    server = DistirServer()
    gc.enable()
    if port is None:
        serving.on_standard_io(server)
    else:
        serving.on_port(server, LOOPBACK, port)


if __name__ == "__main__":
    sys.exit(main())
