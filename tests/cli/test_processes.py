"""What only a process of its own shows: signals, pipes, terminals, what is loaded."""

import os
import pty
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from cli_samples import PATIENCE_S, PIPELINE, SMALL, UNTIDY, WRONG, run_process, start
from thorough import also

ESCAPE = re.compile(rb"\x1b\[[0-9;]*m")


def test_exit_codes(file, tmp_path):
    assert run_process("check", file("a.dir", SMALL)).code == 0
    assert run_process("check", file("b.dir", WRONG)).code == 1
    assert run_process("check", tmp_path / "none.dir").code == 2
    assert run_process("fmt", "-", stdin=UNTIDY.encode()).out.startswith("func @main")


def test_output_that_nothing_reads_ends_the_run_quietly(file):
    path = file("a.dir", SMALL + ("// " + "a" * 96 + "\n") * 100_000)
    with path.open("rb") as text:
        process = start("fmt", "-", stdin=text)
    assert process.stdout.read(10)
    process.stdout.close()
    assert process.wait(timeout=PATIENCE_S) == 141
    assert process.stderr.read() == b""


@pytest.mark.parametrize("words", [("explain", "DIR301"), *also(("check", "--help"), ("explain",))])
def test_a_pipe_that_is_closed_from_the_beginning(words):
    """What writes by itself, and the help, which the parser of arguments writes."""
    read, write = os.pipe()
    os.close(read)
    process = start(*words, stdout=write)
    os.close(write)
    assert process.wait(timeout=PATIENCE_S) == 141
    assert process.stderr.read() == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_an_error_that_cannot_be_written_keeps_its_exit_code(tmp_path):
    with open("/dev/full", "wb") as full:
        process = start("check", tmp_path / "none.dir", stderr=full)
        assert process.wait(timeout=PATIENCE_S) == 2


WAITING = """
import sys
from types import SimpleNamespace
from distir.cli import main

def read(*size, begin=sys.stdin.buffer.read):
    print("waiting", flush=True)
    return begin()

sys.stdin = SimpleNamespace(buffer=SimpleNamespace(read=read))
sys.exit(main(["check", "-"]))
"""
"""A command that tells when it waits for its input."""


def test_an_interrupt_ends_the_run_with_130_and_no_traceback():
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-c", WAITING], **pipes)
    assert process.stdout.readline() == b"waiting\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=PATIENCE_S) == 130
    assert process.stderr.read() == b""


def test_an_interrupt_while_writing_leaves_the_old_file_and_nothing_else(distir, file, tmp_path, monkeypatch):
    path = file("a.dir", UNTIDY)

    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", interrupt)
    assert distir("fmt", path).code == 130
    assert path.read_text() == UNTIDY
    assert list(tmp_path.iterdir()) == [path]


def at_terminal(*words, patience=threading.TIMEOUT_MAX, **environment):
    """The exit code, and what a terminal is sent on standard output and standard error.

    `patience`: the seconds after which the command says what it does. Never, unless a test asks for it: a machine under
    load would be told what a quiet one is not.
    """
    reader, terminal = pty.openpty()
    variables = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    variables |= {"TERM": "xterm-256color", "COLUMNS": "100", **environment}
    code = f"import sys; from distir.cli import main, output; output.PATIENCE_S = {patience}; sys.exit(main())"
    streams = {"stdin": subprocess.DEVNULL, "stdout": terminal, "stderr": terminal}
    process = subprocess.Popen([sys.executable, "-c", code, *map(str, words)], env=variables, **streams)
    os.close(terminal)
    sent = b""
    while True:
        try:
            more = os.read(reader, 65536)
        except OSError:  # the other end is closed
            break
        if not more:
            break
        sent += more
    os.close(reader)
    return process.wait(timeout=PATIENCE_S), sent


def test_a_terminal_gets_a_line_of_success(file, tmp_path):
    file("a.dir", SMALL)
    file("b.dir", SMALL)
    assert at_terminal("check", tmp_path) == (0, b"2 files, nothing wrong\r\n")


def test_what_takes_long_says_what_it_does(file):
    code, sent = at_terminal("check", file("a.dir", SMALL), patience=0)
    assert code == 0
    assert b"checking" in sent
    assert sent.endswith(b"1 file, nothing wrong\r\n")


@pytest.mark.parametrize(
    "words",
    [("check", "WRONG"), ("fmt", "--diff", "UNTIDY"), ("chekc",), *also(("simulate", "SMALL"), ("ops", "Gemm"))],
)
def test_colour_is_for_terminals_and_no_color_is_honoured(file, words):
    texts = {"WRONG": WRONG, "SMALL": SMALL, "UNTIDY": UNTIDY}
    words = [file(f"{word}.dir", texts[word]) if word in texts else word for word in words]
    code, sent = at_terminal(*words)
    plain = at_terminal(*words, NO_COLOR="1")
    assert ESCAPE.search(sent)
    assert not re.search(rb"\x1b\[[0-9;]*3[0-7]", plain[1])
    assert plain[0] == code
    assert ESCAPE.sub(b"", plain[1]) == ESCAPE.sub(b"", sent)


def test_a_terminal_without_unicode(file):
    ended = run_process("simulate", file("a.dir", SMALL), env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert ended.code == 0
    assert "8 \\xd7 A100" in ended.out


@pytest.mark.parametrize(
    ("words", "unloaded"),
    [
        (("check", "PATH"), "numpy torch onnx pygls rich matplotlib ml_dtypes pydantic safetensors"),
        (("fmt", "PATH"), "numpy torch onnx pygls rich matplotlib ml_dtypes pydantic safetensors"),
        (("show", "PATH", "--bind", "B=8"), "torch onnx pygls matplotlib pydantic safetensors"),
        (("simulate", "PATH", "--bind", "B=8", "--json"), "torch onnx pygls matplotlib pydantic safetensors"),
        (("run", "PATH", "--bind", "B=8"), "torch onnx pygls matplotlib pydantic safetensors"),
        (("transform", "dp=2", "PATH"), "torch onnx pygls matplotlib pydantic safetensors"),
    ],
)
def test_a_command_loads_what_it_needs(file, words, unloaded):
    path = str(file("a.dir", PIPELINE))
    words = [path if word == "PATH" else word for word in words]
    code = "import sys; from distir.cli import main; c = main(); print(*sys.modules, file=sys.stderr); sys.exit(c)"
    ended = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert ended.returncode == 0
    assert not set(ended.stderr.split("\n")[-2].split()) & set(unloaded.split())


def test_a_bug_is_one_line_and_its_traceback_is_for_those_who_ask(distir, file, monkeypatch):
    def fail(*arguments):
        raise RuntimeError("something\nunexpected")

    monkeypatch.setattr("distir.analysis.program.read", fail)
    path = file("a.dir", SMALL)
    ended = distir("check", path)
    assert ended.code == 2
    assert ended.err.startswith(
        "error: this is a bug in DistIR: RuntimeError: something unexpected\n  help: please report it"
    )
    assert "Traceback" not in ended.err
    assert "Traceback" in distir("--traceback", "check", path).err
    assert "Traceback" in distir("check", path, "--traceback").err


def test_out_of_memory_is_no_bug(distir, file, monkeypatch):
    def fail(*arguments):
        raise MemoryError

    monkeypatch.setattr("distir.analysis.program.read", fail)
    ended = distir("check", file("a.dir", SMALL))
    assert ended.code == 2
    assert ended.err.startswith("error: out of memory\n")


@pytest.mark.parametrize("content", [b"", b"no tables", None])
def test_the_grammar_is_computed_once_for_all_commands_and_broken_tables_do_no_harm(tmp_path, content):
    program = tmp_path / "p.dir"
    program.write_text("func @main(%x: Float32[1]) {\n    return %x\n}\n")
    script = "import os, sys; os.environ['XDG_CACHE_HOME'] = sys.argv[1]; os.environ['LOCALAPPDATA'] = sys.argv[1]\n"
    script += "from distir.cli import main; sys.exit(main(['check', sys.argv[2]]))"
    for _ in range(2):
        given = [sys.executable, "-c", script, str(tmp_path), str(program)]
        ran = subprocess.run(given, capture_output=True, check=False, text=True)
        assert (ran.returncode, ran.stderr) == (0, "")
        (kept,) = tmp_path.rglob("grammar.tables")
        kept.write_bytes(kept.read_bytes()[:1000] if content is None else content)
