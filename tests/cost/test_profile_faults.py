"""Faulty profiles: each fault gives an error that names the key and says what to do, all of a file at once."""

import contextlib
import copy

import pytest
from cost_samples import small_profile, toml
from hypothesis import given
from hypothesis import strategies as st

from distir.cost import HardwareError, load, parse


def leaves(table, prefix=()):
    for key, value in table.items() if isinstance(table, dict) else enumerate(table):
        if isinstance(value, (dict, list)):
            yield from leaves(value, (*prefix, key))
        else:
            yield (*prefix, key)


def tables(table, prefix=()):
    for key, value in table.items() if isinstance(table, dict) else enumerate(table):
        if isinstance(value, (dict, list)):
            yield (*prefix, key)
            yield from tables(value, (*prefix, key))


def change(path, value):
    """The small profile with one value replaced, or taken out where it is None."""
    profile = copy.deepcopy(small_profile())
    table = profile
    for key in path[:-1]:
        table = table[key]
    if value is None:
        del table[path[-1]]
    else:
        table[path[-1]] = value
    return profile


def faults(profile):
    with pytest.raises(HardwareError) as caught:
        parse(toml(profile) if isinstance(profile, dict) else profile, "mine")
    assert all(problem.path == "<mine>" for problem in caught.value.problems)
    return caught.value.problems


OTHER = ("kinds", "gpu", "flops", "other")
LEVELS = (("levels", "inside"), ("levels", "outside"))
ALL = list(leaves(small_profile()))
QUANTITIES = [path for path in ALL if path[-1] not in ("title", "kind", "count", "devices", "like")]
DURATIONS = [path for path in QUANTITIES if path[-1] in ("launch", "startup", "latency")]
ids = [".".join(map(str, path)) for path in ALL]


def test_the_small_profile_is_valid():
    assert parse(toml(small_profile())).devices == 4


@pytest.mark.parametrize(
    "path",
    # A type without `like` lacks a rate; a machine with a level less may be whole, and the level has any name.
    sorted({*ALL, *tables(small_profile())} - {("groups", 0), (*OTHER, "like"), *LEVELS}, key=str),
    ids=lambda path: ".".join(map(str, path)),
)
def test_a_missing_key_is_named(path):
    problems = faults(change(path, None))
    assert any(str(path[-1]) in problem.message for problem in problems)
    assert all(problem.line or problem.help for problem in problems)


@pytest.mark.parametrize("path", ALL, ids=ids)
@pytest.mark.parametrize("garbage", [True, [], {}, "", "   ", 3.5, -1, "certainly not"], ids=repr)
def test_a_value_of_the_wrong_kind_is_named(path, garbage):
    if path[-1] == "title" and isinstance(garbage, str) and garbage.strip():
        return
    problems = faults(change(path, garbage))
    assert any(str(path[-1]) in problem.message or "certainly not" in problem.message for problem in problems)
    assert all(problem.line for problem in problems)


@pytest.mark.parametrize("path", QUANTITIES, ids=lambda path: ".".join(map(str, path)))
def test_a_quantity_is_united_and_above_zero(path):
    value = small_profile()
    for key in path:
        value = value[key]
    number = value.rstrip("sumTFLOPGB/")
    unit = value.removeprefix(number)
    name = ".".join(map(str, path))
    for wrong in (number, f"-{value}", f"{number}parsec", "7W", "nan" + unit, "1e400" + unit):
        (problem,) = faults(change(path, wrong))
        assert problem.message.startswith(f"`{name}`: expected a "), problem
    (problem,) = faults(change(path, 7))
    assert "bare number `7`" in problem.message
    assert "in quotes" in problem.help
    zero = toml(change(path, f"0{unit}"))
    if path in DURATIONS:
        parse(zero)
    else:
        assert "above zero" in faults(zero)[0].message


@pytest.mark.parametrize(
    ("path", "typo", "meant"),
    [
        (("tilte",), "x", "title"),
        (("kinds", "gpu", "launhc"), "5us", "launch"),
        (("kinds", "gpu", "flops", "Flaot32"), {"like": "other"}, "Float32"),
        (("levels", "inside", "send", "latnecy"), "1us", "latency"),
        (("groups", 0, "cuont"), 4, "count"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest(path, typo, meant):
    profile = change(path, typo)
    table = profile
    for key in path[:-1]:
        table = table[key]
    table.pop(meant)
    problems = faults(profile)
    (problem,) = [problem for problem in problems if "unknown key" in problem.message]
    assert f"`{path[-1]}`" in problem.message
    assert meant in problem.help


FAULTS = {
    "achieved above peak": (("kinds", "gpu", "flops", "Float32", "achieved"), "21TFLOP/s", "above the `peak`"),
    "bandwidth above peak": (("kinds", "gpu", "memory_bandwidth", "achieved"), "1001GB/s", "above the `peak`"),
    "rate above peak": (("kinds", "gpu", "flops", "Float32", "achieved"), {"1GFLOP": "21TFLOP/s"}, "above the `peak`"),
    "no sizes": (("kinds", "gpu", "flops", "Float32", "achieved"), {}, "at least one size"),
    "size is no size": (("kinds", "gpu", "flops", "Float32", "achieved"), {"1GB": "1TFLOP/s"}, "memory size `1GB`"),
    "more in less time": (
        ("kinds", "gpu", "flops", "Float32", "achieved"),
        {"1GFLOP": "1TFLOP/s", "2GFLOP": "3TFLOP/s"},
        "would take less time",
    ),
    "like in a circle": (("kinds", "gpu", "flops", "other"), {"like": "other"}, "in a circle"),
    "like nothing": (("kinds", "gpu", "flops", "other"), {"like": "Float33"}, "no rate is stated for `Float33`"),
    "unknown kind": (("groups", 0, "kind"), "gpv", "no table `[kinds.gpv]`"),
    "too many devices": (("groups", 0, "count"), 10**9, "from 1 to 65536"),
    "not nested": (("levels", "outside", "blocks"), ["0-2", "1-3"], "one inside another"),
    "devices and blocks": (("levels", "inside", "blocks"), ["0-1"], "exclude each other"),
    "not divided": (("levels", "inside", "devices"), 3, "divides the 4 devices"),
    "one device": (("levels", "inside", "devices"), 1, "from 2"),
    "same blocks": (("levels", "inside", "devices"), 4, "must differ"),
    "not joined": (("levels", "outside"), None, "no level joins all 4 devices"),
    "unknown source": (
        ("kinds", "gpu", "memory"),
        {"value": "1GB", "source": "hearsay"},
        "`hearsay` is not among the sources",
    ),
    "unknown basis": (("kinds", "gpu", "memory"), {"value": "1GB", "basis": "guessed"}, "found `guessed`"),
    "empty groups": (("groups",), [], "groups"),
    "groups as a table": (("groups",), {"kind": "gpu"}, "`[[groups]]`"),
    "kinds as a text": (("kinds",), "gpu", "expected a table"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_inconsistent_profiles(fault):
    path, value, said = FAULTS[fault]
    profile = change(path, value)
    if fault == "not nested":
        del profile["levels"]["outside"]["devices"]
    problems = faults(profile)
    assert any(said in problem.message for problem in problems), problems


def test_all_faults_of_a_file_are_reported_at_once_with_their_lines():
    problems = faults("""title = "x"
speed = "fast"
[[groups]]
kind = "gpu"
count = 2
[kinds.gpu]
title = "GPU"
memory = "-1GB"
launch = { value = "1GB", note = "x" }
memory_bandwidth = { peak = "1GB/s" }
[kinds.gpu.flops]
Float32 = { peak = "1TFLOP/s", achieved = "2TFLOP/s" }
other = { like = "Float32" }
[levels.link]
devices = 2
[levels.link.send]
startup = "1us"
latency = 0
""")
    found = [(problem.line, problem.message.split("`")[1]) for problem in problems]
    assert found == [
        (2, "speed"),
        (8, "kinds.gpu.memory"),
        (9, "kinds.gpu.launch.value"),
        (10, "kinds.gpu.memory_bandwidth.achieved"),
        (12, "kinds.gpu.flops.Float32.achieved"),
        (14, "levels.link.collective"),
        (16, "levels.link.send.bandwidth"),
        (18, "levels.link.send.latency"),
    ]


def test_a_fault_in_an_extended_file_is_reported_there(tmp_path):
    base, path = tmp_path / "base.toml", tmp_path / "mine.toml"
    base.write_text(toml(change(("kinds", "gpu", "memory"), "0GB")))
    path.write_text('extends = "base.toml"\ntitle = 3\n')
    with pytest.raises(HardwareError) as caught:
        load(path)
    assert [(problem.path, problem.line) for problem in caught.value.problems] == [(str(path), 2), (str(base), 3)]


@pytest.mark.parametrize("line", ["[kinds.a100.memory_bandwidth]", "[kinds.a100.products.BFloat16]"])
def test_a_table_of_figures_that_replaces_one_and_states_fewer_is_one_fault_at_its_place(tmp_path, line):
    path = tmp_path / "mine.toml"
    path.write_text(f'extends = "dgx-a100"\n{line}\nsource = "products"\n')
    with pytest.raises(HardwareError) as caught:
        load(path)
    (problem,) = caught.value.problems
    assert (problem.path, problem.line) == (str(path), 2)
    assert f"`{line[1:-1]}` lacks what the table has that it replaces" in problem.message
    assert problem.help == "state its other figures, too: such a table is replaced whole"


@pytest.mark.parametrize(
    ("line", "column", "said"),
    [
        ('    memroy = "80GB"', 5, "unknown key `memroy`"),
        ('issue = { eager = "-5us" }', 11, "found the negative `-5us`"),
        ('launch = "-7us"', 1, "found the negative `-7us`"),
        ("  interference = -1", 3, "expected a share"),
        ('  "memory" = "0GB"', 3, "above zero"),
        ('memory_bandwidth = { peak = "3TB/s", achieved = "4TB/s" }', 38, "above the `peak`"),
    ],
)
def test_a_fault_has_a_line_and_a_column(tmp_path, line, column, said):
    path = tmp_path / "mine.toml"
    path.write_text(f'extends = "dgx-a100"\n[kinds.a100]\n{line}\n')
    with pytest.raises(HardwareError) as caught:
        load(path)
    (problem,) = caught.value.problems
    assert (problem.line, problem.column) == (3, column)
    assert str(caught.value).startswith(f"{path}:3:{column}: ")
    assert said in problem.message


def test_what_is_no_toml_has_a_line_and_a_column():
    (problem,) = faults("title = 'x'\nlaunch = = 2\n")
    assert (problem.line, problem.column) == (2, 10)


# Files that are no profiles at all.


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"title = ", "not TOML"),
        (b"title = 80GB\n", "not TOML"),
        (b'title = "a"\ntitle = "b"\n', "not TOML"),
        (b"\xff\xfe", "not UTF-8"),
        (b"", "`title` is missing"),
        (b"a = " + b"[" * 5000, "not TOML"),
    ],
)
def test_broken_files(tmp_path, content, said):
    path = tmp_path / "broken.toml"
    path.write_bytes(content)
    with pytest.raises(HardwareError) as caught:
        load(path)
    problem = caught.value.problems[0]
    assert said in problem.message
    assert problem.path == str(path)


def test_broken_toml_has_its_line(tmp_path):
    path = tmp_path / "broken.toml"
    path.write_text('title = "x"\nmemory = 80GB\n')
    with pytest.raises(HardwareError) as caught:
        load(path)
    assert caught.value.problems[0].line == 2


def test_files_that_cannot_be_read(tmp_path):
    for path in (tmp_path / "none.toml", tmp_path, tmp_path / "a\0b.toml"):
        with pytest.raises(HardwareError, match="cannot be read"):
            load(f"{path}/" if path == tmp_path else path)


@pytest.mark.parametrize(
    ("extends", "said"),
    [
        ('"dgx-a10"', "unknown hardware `dgx-a10`"),
        ('"none.toml"', "cannot be read"),
        ("3", "`extends`: expected"),
        ('"mine.toml"', "in a circle: mine.toml → mine.toml"),
    ],
)
def test_extends_that_leads_nowhere(tmp_path, extends, said):
    path = tmp_path / "mine.toml"
    path.write_text(f'title = "x"\nextends = {extends}\n')
    with pytest.raises(HardwareError) as caught:
        load(path)
    (problem,) = caught.value.problems
    assert said in problem.message
    assert problem.line == 2 or said == "cannot be read"


@pytest.mark.parametrize(
    ("line", "place", "advice"),
    [
        ("streams = 2", "", "it belongs in `[kinds.a100]`"),
        ('memory = "80GB"', "", "it belongs in `[kinds.a100]`"),
        ('bandwidth = "3GB/s"', "[levels.nvlink]", "`[levels.nvlink.send]`, or in one of 7 other tables"),
        ('memry = "80GB"', "[kinds.a100]", "did you mean `memory`?"),
        ("colour = 3", "", "known here: extends, gpu, title, sources, kinds, groups, levels, published"),
    ],
)
def test_a_key_in_the_wrong_table_is_reported_with_its_place(line, place, advice):
    with pytest.raises(HardwareError) as caught:
        parse(f'extends = "dgx-a100"\n{place}\n{line}\n', "mine")
    (problem,) = caught.value.problems
    assert advice in problem.help


def test_streams_as_further_devices_say_what_to_write_instead():
    with pytest.raises(HardwareError) as caught:
        parse('extends = "dgx-a100"\n[[groups]]\nkind = "a100"\ncount = 8\nstreams = 2\n', "mine")
    (problem,) = caught.value.problems
    assert problem.line == 5
    assert "statements name the stream" in problem.message
    assert "`%b = Send[device = 2](%a) on copy`" in problem.help


def test_errors_read_as_lines_of_a_compiler():
    with pytest.raises(HardwareError) as caught:
        parse('title = "x"\nmemroy = "1GB"\n', "mine")
    first = str(caught.value).splitlines()[0]
    assert first.startswith("<mine>: `")
    assert "<mine>:2:1: unknown key `memroy`" in str(caught.value)


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.dictionaries(st.text(), inner))
)
def test_no_profile_raises_anything_else(value):
    profile = small_profile()
    for path in (
        ("kinds", "gpu"),
        ("levels", "inside"),
        ("groups",),
        ("sources",),
        ("kinds", "gpu", "flops", "Float32"),
    ):
        table = copy.deepcopy(profile)
        inner = table
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = "" if value is None else value
        with contextlib.suppress(HardwareError):
            parse(toml(_without_none(table)))


def _without_none(value):
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return value
