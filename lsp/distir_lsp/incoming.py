"""Messages as they come in on a file descriptor: all that have come since the event loop last looked, at once.

Many messages that come together cost one turn of the loop, and no thread: edits that follow each other quickly are all
applied before anything is made of the text. Knows how messages are cut, not what they say.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import Callable, Iterator

AT_ONCE = 1 << 20
"""The most bytes that are taken up in one turn."""

LONGEST = 1 << 30
"""Bytes of the longest message that is waited for."""

_HEAD_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"content-length:[ \t]*(\d{1,10})[ \t]*$", re.IGNORECASE | re.MULTILINE)


class Frames:
    """Cuts what comes in into the bodies of messages. What precedes a body and states no length is skipped.

    So is what follows a head that states no length that a message may have, up to the next head. As it is for
    a reader to answer, the head is given in its place.
    """

    def __init__(self) -> None:
        self._held = bytearray()
        self._length: int | None = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The bodies that are complete with this piece."""
        held = self._held
        held += data
        while True:
            if self._length is None:
                end = held.find(_HEAD_END)
                if end < 0:
                    return
                head = bytes(held[:end]).replace(b"\r\n", b"\n")
                del held[: end + len(_HEAD_END)]
                stated = _LENGTH.findall(head)  # of several, the last: others are in what is skipped
                if not stated or int(stated[-1]) > LONGEST:
                    if b"content-length" in head.lower():
                        yield head
                    continue
                self._length = int(stated[-1])
            if len(held) < self._length:
                return
            body = bytes(held[: self._length])
            del held[: self._length]
            self._length = None
            yield body


async def each(descriptor: int, take: Callable[[bytes], None], left: Callable[[], None] = lambda: None) -> None:
    """Hand on the body of every message that comes in on a file descriptor, until that ends or `take` raises.

    The descriptor is read as it is: a file object around it would be locked while its bytes are waited for, also when
    the process ends. Where a thread reads it, `left` is called there at its end: the loop may be too busy to see that.
    """
    loop = asyncio.get_running_loop()
    frames, ended = Frames(), loop.create_future()

    def fed(data: bytes) -> None:
        if ended.done():
            return
        try:
            for body in frames.feed(data):
                take(body)
        except BaseException as error:  # among them the SystemExit of `exit`; re-raised to the waiter
            ended.set_exception(error)
        if not data and not ended.done():
            ended.set_result(None)

    def readable() -> None:
        try:
            fed(os.read(descriptor, AT_ONCE))
        except OSError:
            fed(b"")

    def pump() -> None:
        try:
            while data := os.read(descriptor, AT_ONCE):
                loop.call_soon_threadsafe(fed, data)
            left()
            loop.call_soon_threadsafe(fed, b"")
        except (OSError, RuntimeError):  # the loop is closed
            return

    try:
        loop.add_reader(descriptor, readable)
    except (NotImplementedError, OSError):  # Windows, and files: a thread waits; it may still do so when all else ends
        threading.Thread(target=pump, name="distir-input", daemon=True).start()
        await ended
    else:
        try:
            await ended
        finally:
            loop.remove_reader(descriptor)
