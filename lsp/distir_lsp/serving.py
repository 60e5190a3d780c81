"""How a client is reached: standard input and output, or a port of this machine. Knows no requests."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from typing import BinaryIO

from pygls.io_ import StdoutWriter, run_async

from distir_lsp.incoming import each
from distir_lsp.server import DistirServer


class Output(StdoutWriter):
    """Where messages go. What is said after it was closed, as the server ends, is said to nobody: no error to tell."""

    def write(self, data: bytes) -> None:
        """Send one message."""
        with contextlib.suppress(ValueError):  # that is, of a closed file
            super().write(data)


def on_standard_io(server: DistirServer, stdin: BinaryIO | None = None, stdout: BinaryIO | None = None) -> None:
    """Serve on standard input and output, or other files; ends with the input, or when the client says so."""
    server.protocol.set_writer(Output(stdout or sys.stdout.buffer))
    descriptor = (stdin or sys.stdin.buffer).fileno()
    try:
        # a client that has gone away ends it too
        with contextlib.suppress(BrokenPipeError, KeyboardInterrupt, SystemExit):
            asyncio.run(each(descriptor, server.protocol.handle_body))
    finally:
        server.shutdown()


def on_port(server: DistirServer, host: str, port: int) -> None:
    """Serve one client; ends when it goes away, however it does. Raises OSError where the port is taken."""
    stop = threading.Event()

    async def serve() -> None:
        gone = asyncio.Event()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            server.protocol.set_writer(writer)  # pyright: ignore[reportArgumentType]
            with contextlib.suppress(ConnectionError):
                await run_async(stop, reader, server.protocol, error_handler=server.report_server_error)
            gone.set()

        listening = await asyncio.start_server(connected, host, port)
        await gone.wait()
        listening.close()

    try:
        asyncio.run(serve())
    finally:
        server.shutdown()
