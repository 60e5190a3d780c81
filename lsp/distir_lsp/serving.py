"""How a client is reached: standard input and output, a port of this machine, or by messages. Knows no requests."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Callable, Generator

from pygls.io_ import StdoutWriter

from distir_lsp.incoming import AT_ONCE, Frames, each
from distir_lsp.server import DistirServer
from distir_lsp.watch import Watch, hung_up


class ProtocolOutput(StdoutWriter):
    """The output stream. Messages after it is closed, while the server ends, are dropped without an error."""

    _closed = False

    def write(self, data: bytes) -> None:
        """Send one message."""
        if not self._closed:
            with contextlib.suppress(ValueError):  # that is, of a closed file
                super().write(data)

    def close(self) -> None:
        """Send nothing more. The stream stays open: it is the process's, which flushes it as it ends."""
        self._closed = True


def on_standard_io(server: DistirServer) -> None:
    """Serve on standard input and output; ends with the input, or when the client says so.

    As on a port, the process must end after that: where a request does not, it is ended.
    """
    server.protocol.set_writer(ProtocolOutput(sys.stdout.buffer))
    descriptor = sys.stdin.buffer.fileno()

    async def serve() -> None:
        with _watched(server, descriptor) as (take, left):
            await each(descriptor, take, left)

    try:
        # a client that has gone away ends it too
        with contextlib.suppress(BrokenPipeError, KeyboardInterrupt, SystemExit):
            asyncio.run(serve())
    finally:
        server.shutdown()


def on_port(server: DistirServer, host: str, port: int) -> None:
    """Serve one client; ends when it goes away, however it does. Raises OSError where the port is taken."""

    async def serve() -> None:
        gone = asyncio.get_running_loop().create_future()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            server.protocol.set_writer(writer)  # pyright: ignore[reportArgumentType]
            frames = Frames()
            try:
                with (
                    contextlib.suppress(ConnectionError),
                    _watched(server, writer.get_extra_info("socket").fileno()) as (take, _),
                ):
                    while data := await reader.read(AT_ONCE):
                        for body in frames.feed(data):
                            take(body)
                gone.set_result(None)
            except BaseException as error:  # `exit` is one that ends the process
                gone.set_exception(error)

        listening = await asyncio.start_server(connected, host, port)
        await gone
        listening.close()

    try:
        with contextlib.suppress(KeyboardInterrupt, SystemExit):
            asyncio.run(serve())
    finally:
        server.shutdown()


class MessageOutput:
    """A writer for a client that takes whole messages, as a browser does: what pygls writes, without its header."""

    def __init__(self, send: Callable[[str], object]) -> None:
        self._send = send

    def write(self, data: bytes) -> None:
        """Send one message."""
        self._send(data.partition(b"\r\n\r\n")[2].decode())

    def close(self) -> None:
        """There is nothing to close."""


def on_messages(server: DistirServer, send: Callable[[str], object]) -> Callable[[str], None]:
    """Serve a client that hands over one message at a time, as JSON text; returns the function that takes them.

    `send` is called with each message to the client. Messages are handled by the running event loop, on whose thread
    the returned function is called. Nothing watches over requests that take too long: the client ends the worker.
    """
    server.protocol.set_writer(MessageOutput(send))  # pyright: ignore[reportArgumentType]

    def take(text: str) -> None:
        server.protocol.handle_body(text.encode())

    return take


@contextlib.contextmanager
def _watched(server: DistirServer, descriptor: int) -> Generator[tuple[Callable[[bytes], None], Callable[[], None]]]:
    """Handles messages under a watchdog: no message blocks the next one, and the server ends with its client."""
    left = threading.Event()
    watch = Watch(server.patience_s, lambda: left.is_set() or hung_up(descriptor))

    def take(body: bytes) -> None:
        watch.turn()
        server.protocol.handle_body(body)

    try:
        yield take, left.set
    finally:
        watch.end()
