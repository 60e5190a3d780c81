"""Commands in forks of a process that has everything loaded: as quick as calls, and killed or limited by themselves.

Run as a script, this is that process. It reads what to run as lines of JSON and answers each with a line, as the
command has ended. The process of the tests itself is never forked: a copy would share its connection to pytest-xdist,
and have locks that threads held which it has not.
"""

import importlib
import json
import os
import pkgutil
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code (minus a signal's number), what it wrote, and after how long."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def was_killed(self):
        return self.code == -signal.SIGKILL


class Commands:
    """The process that commands are forks of."""

    def __init__(self):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen([sys.executable, __file__], **pipes)

    def run(self, *words, folder=".", kill_after=None, limits=None, before=""):
        """Run the command line in a folder. Gives an `Ended`.

        `kill_after`: seconds after which it is killed; `limits`: by names such as `RLIMIT_DATA`; `before`: code that
        is executed first.
        """
        asked = [[str(word) for word in words], str(folder), kill_after, limits or {}, before]
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the process that commands are forks of is gone"
        return Ended(*json.loads(answer))

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def serve():
    """Answer until nobody asks any more."""
    load()
    for line in sys.stdin:
        print(json.dumps(run(*json.loads(line))), flush=True)


def load():
    """Load what commands do when they first need it, so that no fork has to."""
    import distir

    ours = [module.name for module in pkgutil.walk_packages(distir.__path__, "distir.")]
    for name in (*ours, "joblib", "ml_dtypes", "numpy", "onnx", "rich.console"):
        if not name.endswith("__main__"):
            importlib.import_module(name)
    distir.check_text("func @f(%x: Tensor[Float32, (2,), 1]) {\n  %y = Relu(%x)\n  return %y\n}\n")


def run(words, folder, kill_after, limits, before):
    """Fork, wait, and give the fields of `Ended`."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        begun = time.monotonic()
        process = os.fork()
        if not process:
            become(words, folder, (out.fileno(), err.fileno()), limits, before)
        if kill_after is not None:
            time.sleep(kill_after)
            os.kill(process, signal.SIGKILL)  # of one that has ended already nothing is changed: it is not waited for
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        seconds = time.monotonic() - begun
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="backslashreplace"))  # what was cut off, too
    return code, *texts, seconds


def become(words, folder, streams, limits, before):
    """In a fork: be the command. Never returns."""
    code = 70  # no command's own: it could not begin
    try:
        os.setsid()
        os.chdir(folder)
        for number, stream in enumerate((os.open(os.devnull, os.O_RDONLY), *streams)):
            os.dup2(stream, number)
        sys.stdin = os.fdopen(0, encoding="utf-8")
        sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8") for number in (1, 2))
        exec(before, {})
        for name, most in limits.items():
            number = getattr(resource, name)
            resource.setrlimit(number, (most, resource.getrlimit(number)[1]))
        from distir.cli import main

        code = main(words)
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
