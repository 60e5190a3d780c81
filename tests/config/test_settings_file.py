import os
import string
import tomllib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from distir.config import DEFAULT_HARDWARE, Budget, Config, ConfigError, Hints, find, load
from distir.diagnostics.terminal import text
from distir.files.toml import places

FULL = """\
hardware = "dgx2-v100"
entry = "@main"

[bind]
B = 64
"%axis" = "[0, 1]"

[budget]
max_latency = "5ms"
max_memory = "32 GB"

[hints]
times = false
length = 43
columns = 0
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def settings(folder, content):
    path = folder / "distir.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def problems(folder, content):
    """What is reported of a file, without the summary."""
    settings(folder, content)
    with pytest.raises(ConfigError) as caught:
        find(folder)
    return text([caught.value.report]).rsplit("\n\n", 1)[0]


def test_everything_that_can_be_set(folder):
    path = settings(folder, FULL)
    assert find(folder) == Config(
        path=path,
        hardware="dgx2-v100",
        names_hardware=True,
        entry="main",
        bind={"B": 64, "axis": "[0, 1]"},
        budget=Budget("5ms", "32 GB"),
        hints=Hints(times=False, length=43, columns=0),
    )


@pytest.mark.parametrize("content", ["", "\n# nothing\n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_all_defaults(folder, content):
    path = settings(folder, content)
    assert find(folder) == Config(path=path)
    assert Config().hardware == DEFAULT_HARDWARE == "dgx-a100"
    assert Config().hints == Hints(types=True, values=True, times=True, waits=True)


def test_no_file_anywhere(folder):
    assert find(folder / "deep" / "a.dir").path is None


def test_the_nearest_file_above_counts(folder):
    inner = folder / "inner" / "deep"
    inner.mkdir(parents=True)
    settings(folder, 'hardware = "outer"')
    program = inner / "a.dir"
    program.write_text("")
    assert find(program).hardware == find(inner).hardware == "outer"
    settings(inner.parent, 'hardware = "inner"')
    assert find(program).hardware == "inner"
    assert find(folder).hardware == "outer"


def test_a_changed_file_is_read_again(folder):
    path = settings(folder, 'hardware = "one"')
    assert find(folder) is find(folder)
    settings(folder, 'hardware = "two"')
    os.utime(path, ns=(1, 1))
    assert find(folder).hardware == "two"
    path.unlink()
    assert find(folder).path is None


def test_hardware_paths_are_relative_to_the_file(folder, monkeypatch):
    settings(folder, 'hardware = "hardware/ours.toml"')
    below = folder / "programs"
    below.mkdir()
    monkeypatch.chdir(below)
    assert find(below).hardware == str(folder / "hardware" / "ours.toml")


def test_a_number_of_nodes(folder):
    settings(folder, 'hardware = "dgx-h100"\nnodes = 4\n')
    found = find(folder)
    assert (found.hardware, found.nodes, found.machine) == ("dgx-h100", 4, "dgx-h100x4")
    settings(folder, 'hardware = "ours.tomlx4"\n')
    assert find(folder).machine == str(folder / "ours.tomlx4")


@pytest.mark.parametrize("nodes", ["0", "4097", "-1", "true", '"4"', "1.5"])
def test_a_number_of_nodes_that_is_none(folder, nodes):
    found = problems(folder, f"nodes = {nodes}\n")
    assert "`nodes`: expected a whole number from 1 to 4096" in found
    assert "distir.toml:1:" in found


def test_all_mistakes_at_once(folder):
    content = """\
hardwre = "dgx-a100"
entry = 5

[bind]
B = true  # no size
"a=b" = -1

[budget]
max_latency = 5
max_memory = "GB"

[hints]
types = "yes"
length = -1
time = true
"""
    assert (
        problems(folder, content)
        == """\
error[DIR153]: unknown setting `hardwre`
  ┌─ distir.toml:1:1
1 │ hardwre = "dgx-a100"
  │ ^^^^^^^
  = help: did you mean `hardware`?

error[DIR154]: `entry`: expected a name, as text, found the integer 5
  ┌─ distir.toml:2:9
2 │ entry = 5
  │         ^
  = help: write for example `entry = "main"`

error[DIR154]: `bind.B`: expected the size of a dimension, or a literal as text, found `true`
  ┌─ distir.toml:5:5
5 │ B = true  # no size
  │     ^^^^
  = help: write the literal of a host parameter as text, for example `"0.5"`

error[DIR154]: `bind.a=b`: expected the size of a dimension, or a literal as text, found the integer -1
  ┌─ distir.toml:6:9
6 │ "a=b" = -1
  │         ^^
  = help: write the literal of a host parameter as text, for example `"0.5"`

error[DIR154]: `budget.max_latency`: expected a number with a unit, as text, found the integer 5
  ┌─ distir.toml:9:15
9 │ max_latency = 5
  │               ^
  = help: write for example `max_latency = "5ms"`

error[DIR154]: `budget.max_memory`: expected a number with a unit, as text, found the text `GB`
   ┌─ distir.toml:10:14
10 │ max_memory = "GB"
   │              ^^^^
   = help: write for example `max_memory = "32GB"`

error[DIR154]: `hints.types`: expected `true` or `false`, found the text `yes`
   ┌─ distir.toml:13:9
13 │ types = "yes"
   │         ^^^^^

error[DIR154]: `hints.length`: expected a number of characters, 0 for no limit, found the integer -1
   ┌─ distir.toml:14:10
14 │ length = -1
   │          ^^

error[DIR153]: unknown setting `time` in `[hints]`
   ┌─ distir.toml:15:1
15 │ time = true
   │ ^^^^
   = help: did you mean `times`?"""
    )


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("bind = 3", "distir.toml:1:8\n1 │ bind = 3\n  │        ^"),
        ("[[hints]]", "distir.toml:1:1\n1 │ [[hints]]\n  │ ^^^^^^^^^"),
        ("hints = {types = 1}", "distir.toml:1:18\n1 │ hints = {types = 1}\n  │                  ^"),
        ("budget.max_latency = 1.5", "distir.toml:1:22\n1 │ budget.max_latency = 1.5\n  │                      ^^^"),
        ("[hints.deep]", "distir.toml:1:2\n1 │ [hints.deep]\n  │  ^^^^^^^^^^"),
        ('bind.t = """\nentry = 1\n"""\nentry = 1', "distir.toml:4:9\n4 │ entry = 1\n  │         ^"),
        ("entry = 2000-01-01", "found a date or time"),
        ("entry = ''", "found the text ``"),
        (b"entry = 0x" + b"f" * 9000, "found an integer of more than 64 bits"),
    ],
)
def test_where_it_is_wrong(folder, content, line):
    assert line in problems(folder, content)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("entry = 'a'\nx = = 2\n", "distir.toml:2:5\n"),
        ("entry = 'a'\r\nx = = 2\r\n", "distir.toml:2:5\n"),
        ("a = 'open", "distir.toml:1:"),
        ("a = [1,\n", "distir.toml:2:1\n"),
        ("a = 1\na = 2\n", "distir.toml:2:"),
        (b"entry = '\xe6\xbc\xa2 \xff'", "expected UTF-8, found the byte 0xFF\n  ┌─ distir.toml:1:12\n"),
        ("a = " + "[" * 9999, "nested too deep"),
        ("a = " + "9" * 9999, "too long"),
    ],
)
def test_broken_files(folder, content, line):
    assert line in problems(folder, content)


def test_unreadable_files(folder):
    (folder / "distir.toml").mkdir()
    with pytest.raises(ConfigError, match=r"expected a file, found a folder"):
        find(folder)
    (folder / "distir.toml").rmdir()
    (folder / "distir.toml").symlink_to(folder / "nowhere")
    with pytest.raises(ConfigError, match=r"cannot read `distir\.toml`"):
        find(folder)
    with pytest.raises(ConfigError, match=r"cannot read `other\.toml`"):
        load(folder / "other.toml")


def reported(path):
    """What is wrong with a file, if anything."""
    try:
        load(path)
    except ConfigError as error:
        return error.report
    return None


KEYS = st.sampled_from(
    ["hardware", "hardwre", "entry", "bind", "budget", "hints", "max_latency", "types", "a.b", "", "é\n"]
)
VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats() | st.text(string.printable, max_size=5),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(KEYS, v, max_size=3),
    max_leaves=6,
)


def toml(value):
    """A value as inline TOML."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return '"' + "".join(c if c.isalnum() else f"\\u{ord(c):04X}" for c in value) + '"'
        case list():
            return "[\n" + ",\n".join(map(toml, value)) + "]"
        case dict():
            return "{" + ", ".join(f"{toml(k)} = {toml(v)}" for k, v in value.items()) + "}"
        case _:
            return str(value)


def statements(tables):
    return "".join(f"# comment\n{toml(key)} = {toml(value)}\r\n" for key, value in tables.items())


@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_any_settings_are_read_or_reported_where_they_are(tmp_path_factory, data):
    content = statements(data)
    assert tomllib.loads(content).keys() == data.keys()
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(content.encode())
    if report := reported(path):
        assert all(d.site is not None for d in report.diagnostics)
        assert text([report])


@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_every_key_is_found(data):
    content = statements(data)
    found = places(content)
    for key in data:
        span = found[key,].key
        assert content[span.start : span.end] == toml(key)


@given(st.binary(max_size=60) | st.text(st.sampled_from(list("[]{}=.#'\"\\ab1\n\r ")), max_size=60).map(str.encode))
@example(b"a=''''''\n[b]\n")
def test_any_bytes_are_read_or_reported(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "bytes.toml"
    path.write_bytes(content)
    if report := reported(path):
        length = len(report.source.text)
        assert all(d.site is None or 0 <= d.site.start <= d.site.end <= length for d in report.diagnostics)
        assert text([report])


@pytest.mark.parametrize(
    ("content", "advice"),
    [
        ('max_latency = "5ms"', "it belongs in `[budget]`"),
        ("times = true", "it belongs in `[hints]`"),
        ('[budget]\nhardware = "h200"', "it belongs at the top, before the first `[table]`"),
        ("[hints.bind]\nB = 3", "write it as a table of its own, `[bind]`"),
        ("streams = 2", "what can be set here: `hardware`, `nodes`, `entry`, `sequential`, `bind`, `budget`, `hints`"),
    ],
)
def test_a_setting_in_the_wrong_table_is_reported_with_its_place(folder, content, advice):
    assert advice in problems(folder, content)
