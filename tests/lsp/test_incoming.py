"""However messages are cut on their way in, their bodies are handed on whole, in order, and many at once."""

import asyncio
import os
import subprocess
import sys
import tempfile
from itertools import pairwise

import pytest
from distir_lsp.incoming import Frames, each
from hypothesis import given
from hypothesis import strategies as st
from server_session import ENVIRONMENT

bodies = st.lists(st.binary(max_size=60), max_size=8)


def framed(body, head=b""):
    return b"Content-Length: %d\r\n%b\r\n%b" % (len(body), head, body)


@given(bodies, st.lists(st.integers(0, 600)), st.sampled_from([b"", b"Content-Type: application/json\r\n"]))
def test_bodies_come_whole_however_they_are_cut(sent, cuts, head):
    data = b"".join(framed(body, head) for body in sent)
    frames, ends = Frames(), sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    pieces = [data[a:b] for a, b in pairwise(ends)]
    assert [body for piece in pieces for body in frames.feed(piece)] == sent


@pytest.mark.parametrize("head", [b"content-length:3", b"X: y\r\nCONTENT-LENGTH:  3 "])
def test_heads_are_read_as_they_may_be_written(head):
    assert [*Frames().feed(b"Nothing: here\r\n\r\n" + head + b"\r\n\r\nabc")] == [b"abc"]


def taken(descriptor):
    found = []
    asyncio.run(each(descriptor, found.append))
    return found


def test_a_pipe_is_read_to_its_end():
    reading, writing = os.pipe()
    os.write(writing, framed(b"one") + framed(b"two"))
    os.close(writing)
    assert taken(reading) == [b"one", b"two"]
    os.close(reading)


def test_so_is_a_file():
    """Which the event loop cannot watch."""
    with tempfile.TemporaryFile() as file:
        file.write(framed(b"one") + framed(b"two"))
        file.seek(0)
        assert taken(file.fileno()) == [b"one", b"two"]


def test_what_the_one_who_takes_raises_ends_it():
    reading, writing = os.pipe()
    os.write(writing, framed(b"one"))

    def refuse(body):
        raise KeyError(body)

    with pytest.raises(KeyError):
        asyncio.run(each(reading, refuse))
    os.close(reading)
    os.close(writing)


STARTED = """
import sys
from distir_lsp.server import DistirServer
DistirServer()
print(*sorted({"numpy", "torch", "onnx", "rich", "typer"} & sys.modules.keys()))
"""


def test_a_server_starts_with_nothing_heavy_loaded():
    run = subprocess.run([sys.executable, "-c", STARTED], capture_output=True, text=True, check=True, env=ENVIRONMENT)
    assert not run.stdout.split()
