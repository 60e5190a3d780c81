"""Whatever a command is given, it ends with a message and an exit code, never with a traceback."""

import os
from itertools import product
from pathlib import Path

import pytest
import typer
from cli_samples import MACHINE, SMALL

from distir.cli.app import COMMANDS, command

READERS = ("check", "fmt", "show", "simulate", "run")


@pytest.fixture
def content_of(file):
    def write(kind):
        contents = {
            "empty": b"",
            "binary": bytes(range(256)),
            "nul": b"func @f\0",
            "latin1": "func @f() { // é".encode("latin-1"),
            "half": b"func @main(%x",
            "words": b"hello world\n",
        }
        return file(f"{kind}.dir", contents[kind])

    return write


@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize("kind", ["binary", "nul", "latin1", "half", "words"])
def test_what_is_no_program_is_found_wrong(distir, content_of, command, kind):
    ended = distir(command, content_of(kind))
    assert ended.code == 1
    assert "error[DIR1" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("command", READERS)
def test_an_empty_file(distir, content_of, command):
    ended = distir(command, content_of("empty"))
    if command == "fmt":
        assert ended.code == 0
    else:
        assert ended.code == 1
        assert "error[DIR214]: the text holds no function" in ended.err


@pytest.mark.parametrize("command", READERS)
def test_an_unreadable_file(distir, file, command, monkeypatch):
    def refuse(*arguments):  # file permissions would not keep root out
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("distir.files.reading.opened", refuse)
    ended = distir(command, file("a.dir", SMALL))
    assert ended.code == 2
    assert "permission denied" in ended.err


@pytest.mark.parametrize("command", READERS)
def test_windows_line_ends(distir, file, command):
    assert distir(command, file("a.dir", SMALL.replace("\n", "\r\n"))).code == 0


def test_fifty_megabytes(distir, file):
    line = b"// " + b"a" * 9_996 + b"\n"
    text = line * 5_000 + SMALL.encode() + b"%" * 1_000_000
    ended = distir("check", file("large.dir", text))
    assert ended.code == 1
    assert "large.dir:5005:" in ended.err


def test_a_name_that_would_act_on_the_terminal_is_made_visible(distir):
    ended = distir("check", "\x1b[31m.dir")
    assert ended.code == 2
    assert "\x1b" not in ended.err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["chekc"], "did you mean `check`?"),
        (["check"], "missing argument"),
        (["check", "--nonsense", "a.dir"], "no such option"),
        (["simulate", "a.dir", "--top", "0"], "`--top`"),
        (["simulate", "a.dir", "--top", "many"], "`--top`"),
        (["simulate", "a.dir", "b.dir"], "b.dir"),
        (["transfigure", "a.dir"], "no such command `transfigure`"),
    ],
)
def test_bad_arguments(distir, words, expected):
    ended = distir(*words)
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err.startswith("error: ")
    assert expected in ended.err
    assert "help:" in ended.err


def faulty(change):
    text = Path(MACHINE).read_text()
    old, new = change
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize("command", ["simulate", "show", "check"])
@pytest.mark.parametrize(
    "change",
    [
        ('achieved = "1TFLOP/s"\n', ""),
        ('"10GB/s"', '"-10GB/s"'),
        ("count = 4", "count = -4"),
        ('value = "1MB"', 'value = "lots"'),
        ("[[groups]]", "[[groups"),
    ],
)
def test_a_faulty_hardware_file_names_file_and_line(distir, file, command, change):
    machine = file("machine.toml", faulty(change))
    ended = distir(command, file("a.dir", SMALL), "--hardware", machine)
    assert ended.code == 2
    assert f"{machine}" in ended.err
    assert "bug" not in ended.err


def test_unknown_hardware_with_the_nearest_name(distir, file):
    ended = distir("simulate", file("a.dir", SMALL), "--hardware", "dgx-a10")
    assert ended.code == 2
    assert "unknown hardware `dgx-a10`" in ended.err
    assert "did you mean `dgx-a100`?" in ended.err


def test_a_missing_hardware_file(distir, file):
    ended = distir("simulate", file("a.dir", SMALL), "--hardware", "./none.toml")
    assert ended.code == 2
    assert "none.toml" in ended.err


@pytest.mark.parametrize("command", ["simulate", "run", "show"])
@pytest.mark.parametrize("bind", ["B", "=3", "B=", "B=x", "B=-1", "B=1.5", "B=[1]", "B=99999999999999999999", "C=3"])
def test_a_bad_binding(distir, file, command, bind):
    ended = distir(command, file("a.dir", SMALL.replace("(2, 3)", "(B, 3)")), "--bind", bind)
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err.startswith("error: ")
    assert "bug" not in ended.err


def test_an_unknown_function_with_the_nearest_name(distir, file):
    ended = distir("simulate", file("a.dir", SMALL), "--function", "@mian")
    assert ended.code == 2
    assert "did you mean `@main`?" in ended.err


def test_broken_settings_are_refused_with_their_place(distir, file):
    path = file("a.dir", SMALL)
    file("distir.toml", "[budget]\nmax_latency = 5\n")
    ended = distir("simulate", path)
    assert ended.code == 2
    assert "DIR154" in ended.err
    assert "distir.toml:2:" in ended.err


# Laws over all commands, as they declare their parameters.


def options_of(command):
    """By the first word of each option of a command that takes a value: whether that is a number."""
    app = typer.Typer(rich_markup_mode=None)
    app.callback()(lambda: None)
    app.command("only")(command)
    (only,) = typer.main.get_command(app).commands.values()
    found = {p.opts[0]: str(p.type_descriptor.annotation) for p in only.params if p.param_type_name == "option"}
    return {option: "int" in type_ or "float" in type_ for option, type_ in found.items() if "bool" not in type_}


OPTIONS = [(name, option, number) for name in COMMANDS for option, number in options_of(command(name)).items()]

COMPLETE = {
    "transform": ["inline", "a.dir"],
    "diff": ["a.dir", "a.dir"],
    "import": ["onnx", "a.onnx"],
    "export": ["chakra", "a.dir"],
    **{name: [] for name in ("calibrate", "lsp", "dap", "mcp")},
}
"""The arguments of commands that take another number than one; nothing is read before options are."""


@pytest.mark.parametrize(
    ("command", "option", "value"),
    [(c, o, v) for c, o, number in OPTIONS for v in ("", *(("many",) if number else ()))],
)
def test_an_option_without_a_value_or_with_one_that_is_no_number(distir, command, option, value):
    ended = distir(command, *COMPLETE.get(command, ["a.dir"]), option, value)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: ")
    assert ended.err.count("error: ") == 1
    assert f"`{option}`" in ended.err
    assert f"`distir {command} --help`" in ended.err


CONFIGURATIONS = ("torchtitan", "torchtitan-python", "megatron", "megatron-bridge", "nemo", "deepspeed", "fsdp2")

READING = [
    *(
        f"{command} FILE"
        for command in (*READERS, "lower -o out", "project --rank 1", "advise --within 1s", "validate")
    ),
    *("transform inline FILE", "prove FILE --against a.dir", "prove a.dir --against FILE", "diff a.dir FILE"),
    *("prove a.dir --against a.dir --where FILE", "compare FILE --measured a.dir", "compare a.dir --measured FILE"),
    *("goodput FILE --mtbf 100s --restart 1s --checkpoint-bandwidth 1GB/s", "search FILE --devices 2 --batch-size 8"),
    *("simulate a.dir --hardware ./FILE", "run a.dir --inputs FILE", "run a.dir --input x=FILE", "launch FILE"),
    *("calibrate --runs FILE -o out.toml", "export chakra FILE -o out", "export torchtitan FILE --row 1"),
    *(f"import {kind} FILE" for kind in ("onnx", "torch", "stablehlo", *CONFIGURATIONS)),
]
"""What reads a file, by each command that does."""

WRITING = [
    *("simulate a.dir --trace OUT", "simulate a.dir --html OUT", "run a.dir -o OUT.npz", "model mlp -o OUT.dir"),
    *("transform inline a.dir -o OUT", "project a.dir --rank 1 -o OUT", "diff a.dir a.dir --picture OUT.svg"),
    *(
        "launch a.dir --trace OUT",
        "calibrate --quick --devices 2 -o OUT.toml",
        "search mlp --devices 2 --batch-size 8 --plot OUT.svg",
    ),
    *(
        "validate a.csv --html OUT",
        "validate a.csv --plot OUT.svg",
        "calibrate --runs a.csv -o OUT.toml",
        "validate a.csv --csv OUT",
    ),
]

WRITING_FOLDERS = ["lower a.dir -o OUT", "export chakra a.dir -o OUT"]
"""What makes the folders in which it writes."""


def tree(folder):
    """What is in a folder and below, and when it was changed."""
    return {path: path.lstat().st_mtime_ns for path in folder.rglob("*") if not path.is_dir()}


@pytest.fixture
def bad(file, tmp_path, monkeypatch):
    """The folder of a program, with paths that are of no file that could be read, or written."""
    file("a.dir", SMALL)
    file("binary", bytes(range(256)))
    file("a.csv", "id\n")
    (tmp_path / "folder").mkdir()
    os.symlink("loop", tmp_path / "loop")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("words", READING)
@pytest.mark.parametrize("kind", ["binary", "missing", "folder", "loop"])
def test_what_is_no_file_or_no_text_is_refused_and_nothing_is_written(distir, bad, words, kind):
    before = tree(bad)
    ended = distir(*words.replace("FILE", kind).split())
    assert ended.code == (1 if kind == "binary" and "error[DIR" in ended.err else 2)
    assert "error" in ended.err
    assert "bug" not in ended.err
    assert "Traceback" not in ended.err
    assert "\x1b" not in ended.err
    assert tree(bad) == before


@pytest.mark.parametrize(
    ("words", "place"), [*product(WRITING, ["missing/out", "a.dir/out"]), *product(WRITING_FOLDERS, ["a.dir/out"])]
)
def test_what_cannot_be_written_is_refused_and_nothing_is_left(distir, bad, words, place):
    before = tree(bad)
    ended = distir(*words.replace("OUT", place).split())
    assert ended.code == 2
    assert ended.err.count("error: ") == 1
    assert "bug" not in ended.err
    assert tree(bad) == before
