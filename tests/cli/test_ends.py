"""How the real command ends when it is interrupted, at whatever moment, and when its streams are closed."""

import os
import re
import signal
import subprocess
import sys
import time
from functools import cache
from itertools import product

import pytest
from cli_samples import PATIENCE_S, PIPELINE, SMALL
from thorough import ALL, also, also_together

COMMAND = "import sys, os; {}from distir_start import {}; sys.exit({}())"
TELLS = """import distir_start as start; fill = start._fill_descriptors
start._fill_descriptors = lambda: (fill(), os.write(2, b"up\\n"))
"""
"""Before that it is Python itself that starts, and does what it does about an interrupt."""

MOMENTS = range(0, 20, 1 if ALL else 4)
"""When a command is interrupted, in sixteenths of what it takes: beyond its end too, should it take longer now."""

BY_SIGNAL = -signal.SIGINT
"""What a shell calls 130, too: Python is ending, and its own handlers are gone."""


def words(*given, tells="", script="distir"):
    return [sys.executable, "-c", COMMAND.format(tells, script, script), *map(str, given)]


def started(*given, script="distir", **streams):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    process = subprocess.Popen(words(*given, tells=TELLS, script=script), **pipes)
    assert process.stderr.readline() == b"up\n"
    return process


def ended(process):
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err


@pytest.mark.parametrize(
    "given", [("check",), ("run", "--bind", "B=8"), *also(("simulate", "--bind", "B=8"), ("transform",))]
)
def test_an_interrupt_at_any_moment_ends_with_130_and_no_traceback(file, given):
    path = file("a.dir", PIPELINE)
    command = ("transform", "inline", path) if given == ("transform",) else (given[0], path, *given[1:])
    begun = time.monotonic()
    assert ended(started(*command))[0] == 0
    whole = time.monotonic() - begun
    for part in MOMENTS:
        process = started(*command)
        time.sleep(whole * part / 16)
        process.send_signal(signal.SIGINT)
        code, _, err = ended(process)
        assert code in (0, 130, BY_SIGNAL)
        assert b"Traceback" not in err
        assert b"Exception ignored" not in err
        assert b"bug in DistIR" not in err
        assert code or part > 4


WHILE_A_CLASS_IS_MADE = """
import os, signal, sys, distir_start

class Interrupting:
    def __set_name__(self, owner, name):
        os.kill(os.getpid(), signal.SIGINT)

sys.exit(distir_start._guarded(lambda: len(type("Made", (), {"field": Interrupting()}).__name__)))
"""


def test_an_interrupt_that_python_makes_another_error_of():
    ran = subprocess.run([sys.executable, "-c", WHILE_A_CLASS_IS_MADE], capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (130, b"")


@pytest.mark.parametrize("script", ["distir", "language_server"])
def test_a_server_that_waits_is_interrupted(script):
    process = started(*(["lsp"] if script == "distir" else []), script=script)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    code, _, err = ended(process)
    assert (code, err) == (130, b"")


LATE = """
import atexit, os, signal, sys, time
def late():
    os.write(1, b"late\\n")
    time.sleep(60)
from distir_start import distir
code = distir()
atexit.register(late)
sys.exit(code)
"""


def test_an_interrupt_after_the_work_is_done(file):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-c", LATE, "check", str(file("a.dir", SMALL))], **pipes)
    assert process.stdout.readline() == b"late\n"
    process.send_signal(signal.SIGINT)
    assert ended(process) == (130, b"", b"")


SWALLOWED = """
import os, signal, sys, weakref
class Kept: pass
import distir.cli
def main():
    kept = Kept()
    weakref.finalize(kept, os.kill, os.getpid(), signal.SIGINT)
    held = weakref.ref(kept, lambda _: sum(range(1000)))
    del kept
    return 0
distir.cli.main = main
from distir_start import distir
sys.exit(distir())
"""


def test_an_interrupt_where_python_would_go_on():
    done = subprocess.run([sys.executable, "-c", SWALLOWED], capture_output=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stderr) == (130, b"")


def test_an_interrupt_that_is_ignored_stays_ignored(file):
    """As behind `nohup`, and in the background of a shell script."""
    code = "import signal, os; signal.signal(signal.SIGINT, signal.SIG_IGN); os.execv({0!r}, {1!r})"
    command = words("check", file("a.dir", SMALL), tells="os.kill(os.getpid(), 2); ")
    done = subprocess.run([sys.executable, "-c", code.format(command[0], command)], check=False)
    assert done.returncode == 0


CALLS = """\
check PATH|fmt --check PATH|show PATH|simulate PATH|run PATH|transform inline PATH|--version|--help|diff PATH PATH
diff --markdown PATH PATH|model mlp-1b|ops Add|explain DIR301|hardware|hardware --json|check -|fmt -|lsp|nothing"""


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The exit code of a command whose streams are open, and what it writes."""
    path = tmp_path_factory.mktemp("plain") / "a.dir"
    path.write_text(SMALL)

    @cache
    def run(call):
        given = [str(path) if word == "PATH" else word for word in call.split()]
        done = subprocess.run(
            words(*given), capture_output=True, stdin=subprocess.DEVNULL, timeout=PATIENCE_S, check=False
        )
        return done.returncode, done.stdout

    return run


OFTEN = ("show PATH", "run PATH", "transform inline PATH", "--version", "diff --markdown PATH PATH", "hardware --json")
"""What writes as text, as lines, as a program, by the parser of arguments, as Markdown and as JSON."""


def cases():
    """Some calls without what they write to; without what most do not use, input or errors, and without all, a few."""
    for call in re.split(r"[|\n]", CALLS):
        for closed in ((0,), (1,), (2,), (0, 1, 2)):
            often = (closed == (1,) and call in OFTEN) or call == "check PATH"
            often |= call in ("check -", "lsp") and 0 in closed  # which read it
            yield from [(call, closed)] if often else also_together((call, closed))
    yield from also_together(*product(["search mlp-1b --batch-size 64", "ops"], [(0,), (1,), (2,), (0, 1, 2)]))


@pytest.mark.parametrize(("call", "closed"), list(cases()), ids=str)
def test_streams_that_are_closed(file, plain, call, closed):
    path = file("a.dir", SMALL)
    given = [str(path) if word == "PATH" else word for word in call.split()]
    shut = " ".join({0: "<&-", 1: ">&-", 2: "2>&-"}[number] for number in closed)
    opened = "" if 0 in closed else "</dev/null"
    script = f'"$@" {opened} {shut}'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *words(*given)], capture_output=True, timeout=PATIENCE_S, check=False
    )
    assert b"Traceback" not in done.stderr
    assert b"bug in DistIR" not in done.stderr
    assert b"Exception ignored" not in done.stderr
    code, written = plain(call)
    writes = bool(written) and 1 in closed
    reads = ("-" in given or given == ["lsp"]) and 0 in closed
    assert done.returncode == (2 if writes or reads else code)
    if writes and 2 not in closed:
        assert b"standard output is closed" in done.stderr


def test_what_is_opened_never_becomes_a_standard_stream(file, tmp_path):
    """With a closed standard error, the file that is written next would get its number, and our messages."""
    path, out = file("a.dir", SMALL), tmp_path / "out.json"
    done = subprocess.run(["sh", "-c", '"$@" >&- 2>&-', "sh", *words("simulate", path, "--trace", out)], check=False)
    assert done.returncode == 2
    assert re.match(r"\{", out.read_text())
    assert os.listdir(tmp_path)
