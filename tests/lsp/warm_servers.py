"""Language servers in forks of a process that has loaded their modules, which would take each of them a second.

Run as a script, this is that process. It is asked on a socket, by messages of JSON with the streams of the server that
is to be started. A fork waits for the server: it says its process id, and how it has ended. With `through`, the script
is a command that is such a server, for libraries that start their servers themselves.
"""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'lsp'}"}


PLACE = f"{tempfile.gettempdir()}/distir-servers-{os.getpid()}"
"""Where the process that has everything loaded is asked."""

COMMAND = [sys.executable, "-S", __file__, PLACE, "through"]
"""A server, once `warm` has been called."""


class WarmServer:
    """A server that runs, to be used as a `subprocess.Popen` of one."""

    def __init__(self, environment):
        (reads, ours), (theirs, writes) = os.pipe(), os.pipe()
        warm()
        self._link = _asked(PLACE, environment, reads, writes)
        for stream in (reads, writes):
            os.close(stream)
        self.pid, self.returncode = int(self._link.recv(32)), None
        self.stdin, self.stdout = os.fdopen(ours, "wb"), os.fdopen(theirs, "rb")

    def wait(self, timeout=None):
        if self.returncode is None:
            if not select.select([self._link], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("distir-lsp", timeout)
            self.returncode = int(self._link.recv(32))
            self._link.close()
        return self.returncode

    def poll(self):
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)  # not waited for before `_keep` has sent how it ended


def _asked(place, environment, *streams):
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link.connect(place)
    socket.send_fds(link, [json.dumps([os.getcwd(), environment]).encode()], streams)
    return link


@cache
def warm():
    """Start the process that has everything loaded; it ends with this one."""
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, __file__, PLACE], env=ENVIRONMENT, **streams)
    atexit.register(lambda: (process.stdin.close(), process.wait(), process.stdout.close()))
    assert process.stdout.readline() == b"ready\n"


def serve(place):
    """Start servers until standard input ends."""
    import distir_lsp.__main__
    import distir_lsp.server
    import distir_lsp.serving  # noqa: F401

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        Path(place).unlink(missing_ok=True)
        listener.bind(place)
        listener.listen()
        print("ready", flush=True)
        while sys.stdin not in select.select([sys.stdin, listener], [], [])[0]:
            link, _ = listener.accept()
            message, streams, _, _ = socket.recv_fds(link, 1 << 20, 2)
            if not os.fork():
                listener.close()
                _keep(link, *json.loads(message), streams)
            for each in (*streams, link.detach()):
                os.close(each)
    Path(place).unlink()


def _keep(link, folder, environment, streams):
    """In a fork: start a server, and wait for it. Never returns."""
    server = os.fork()
    if not server:
        link.close()
        _become(folder, environment, streams)
    for each in streams:
        os.close(each)
    link.send(str(server).encode())
    code = os.waitstatus_to_exitcode(os.waitpid(server, 0)[1])
    try:
        link.send(str(code).encode())
    finally:
        os._exit(0)


def _become(folder, environment, streams):
    """In a fork of a fork: be the server. Never returns."""
    code = 70  # none of its own: it could not begin
    try:
        os.chdir(folder)
        os.environ.update(environment)
        errors = os.open(os.devnull, os.O_WRONLY)
        for number, stream in enumerate((*streams, errors)):
            os.dup2(stream, number)
            os.close(stream)
        sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
        from distir_lsp.__main__ import main

        code = main([])
        sys.stdout.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    if sys.argv[2:] == ["through"]:
        link = _asked(sys.argv[1], {}, 0, 1)
        link.recv(32)
        os._exit(int(link.recv(32)))
    serve(sys.argv[1])
