"""Ranges of names: what they mean, and that lists of names are written as ranges that mean them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import most_examples

from distir.files import limits
from distir.ir import DTYPES, UNKNOWN, Function, Module, Param, Return, TensorType, types
from distir.syntax import format, parse, print_module  # noqa: A004
from distir.syntax.fault import Fault
from distir.syntax.ranges import means, names_of, shortened, width


def names_from(base, first, step, count, end):
    return [f"{base}{first + step * i}{end}" for i in range(count) if first + step * i >= 0]


runs = st.builds(
    names_from,
    st.sampled_from(["a", "a_1.", "b.0."]),
    st.integers(0, 12),
    st.sampled_from([1, -1, 2, 6, -3]),
    st.integers(1, 6),
    st.sampled_from(["", "", ".w", "_3", "07"]),
)


@given(st.lists(runs, max_size=5))
@settings(max_examples=most_examples(500), deadline=None)
def test_names_are_written_as_ranges_that_stand_for_them(lists):
    names = [name for one in lists for name in one]
    assert [name for written in shortened(names) for name in names_of(written)] == names
    assert sum(map(width, shortened(names))) == len(names)


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("w_{1..4}", ["w_1", "w_2", "w_3", "w_4"]),
        ("w_{4..1}.x", ["w_4.x", "w_3.x", "w_2.x", "w_1.x"]),
        ("w_{1..7..3}", ["w_1", "w_4", "w_7"]),
        ("w_{9..3..3}", ["w_9", "w_6", "w_3"]),
        ("{2..2}", ["2"]),
    ],
)
def test_a_range_stands_for_its_names(written, names):
    assert names_of(written) == names


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("w_{1..99999999}", "more than 65536 names"),
        ("w_{1..8..3}", "does not reach its last number"),
        ("w_{1..8..0}", "does not reach its last number"),
        ("w_{01..08}", "begins with 0"),
    ],
)
def test_what_is_no_range_is_refused(written, words):
    with pytest.raises(Fault, match=words):
        names_of(written)
    found = parse(f"func @f(%{written}: Float32[1]) {{\n  return\n}}\n").diagnostics
    assert any(words in diagnostic.message for diagnostic in found)


def test_parameters_that_count_on_are_written_together():
    text = "func @f(\n  %x: Tensor[Float32, (4, 4), 1],\n  [%w.{0..4}.a: Tensor[Float32, (4, 4), 1] {param},\n"
    text += "   %w.{0..4}.b: Tensor[Float32, (4,), 1]],\n  %y_{1..4}: Tensor[Float32, (4, 4), 1]\n) {\n  return %x\n}\n"
    syntax = parse(text)
    assert not syntax.diagnostics
    params = syntax.module.functions["f"].params
    assert [p.name for p in params[:5]] == ["x", "w.0.a", "w.0.b", "w.1.a", "w.1.b"]
    assert params[3] == Param("w.1.a", params[1].type, params[1].roles)
    assert print_module(syntax.module) == text


def test_groups_whose_ranges_differ_are_refused():
    (found,) = parse("func @f([%w_{1..4}: Float32[1], %b_{1..3}: Float32[1]]) {\n  return\n}\n").diagnostics
    assert "equally long" in found.message


@pytest.mark.parametrize(
    "text",
    [
        "func @f(\n" + ",\n".join(f"  %w{i}_{{1..60000}}: Float32[1]" for i in range(200)) + "\n) {\n  return\n}\n",
        "func @f(\n" + ",\n".join(f"  %w{i}_{{1..60000}}: Float32[" for i in range(200)) + "\n) {\n  return\n}\n",
        "func @f(%x) {\n" + "\n".join(f"  %w{i}_{{1..60000}} = Relu(%x" for i in range(200)) + "\n  return\n}\n",
        "func @f(%x) {\n" + "\n".join(f"  %w{i}_{{1..60000}} = Relu(%x)" for i in range(200)) + "\n  return\n}\n",
    ],
    ids=["parameters", "broken parameters", "broken statements", "statements"],
)
def test_a_short_text_does_not_mean_millions_of_names(text):
    syntax = parse(text)
    assert syntax.diagnostics
    function = syntax.module.functions["f"]
    made = len(function.params) + sum(len(statement.results) for statement in function.body[:-1])
    assert made < limits.meant(len(text)) + 200


@given(runs, st.integers(0, 20))
@settings(max_examples=most_examples(200), deadline=None)
def test_a_range_means_its_names_and_no_others(names, number):
    for written in shortened(names):
        meant = names_of(written)
        others = {*names, f"a{number}", f"a_1.{number}.w", f"b.0.{number}_3", f"a0{number}"}
        assert {name for name in others if means(written, name)} == others & set(meant)


def test_a_parameter_that_another_is_named_by_counts_on_with_it():
    text = "func @f(\n  %w_{1..4}: Tensor[Float32, (4, 4), 1] {param},\n"
    text += '  %w_{1..4}.master: Tensor[Float32, (4, 4), 1] {state, initial = "w_{1..4}"}\n) {\n  return %w_1\n}\n'
    syntax = parse(text)
    assert not syntax.diagnostics
    params = syntax.module.functions["f"].params
    assert [param.roles["initial"] for param in params[4:]] == ["w_1", "w_2", "w_3", "w_4"]
    assert print_module(syntax.module) == text
    assert format(syntax) == text


def test_parameters_are_spread_over_devices():
    text = "func @f(\n  %x: Tensor[Float32, (4, 4), 1],\n  [%w.{0..5}.a: Tensor[Float32, (4, 4), 1..21..10] {param},\n"
    text += "   %w.{0..5}.b: Tensor[Float32, (4,), 1..21..10, offloaded]],\n"
    text += "  %y_{1..4}: Tensor[Float32, (), 2..3],\n  %z_{1..4}: Tensor[Float32, (4, 4), 3]\n) {\n  return %x\n}\n"
    syntax = parse(text)
    assert not syntax.diagnostics
    params = syntax.module.functions["f"].params
    devices = {p.name: types.device_of(p.type) for p in params}
    assert [devices[f"w.{layer}.a"] for layer in range(6)] == [1, 1, 11, 11, 21, 21]
    assert [devices[f"y_{number}"] for number in range(1, 5)] == [2, 2, 3, 3]
    assert params[2].type.offloaded
    assert print_module(syntax.module) == text
    assert format(syntax) == text


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 4)), min_size=1, max_size=4), st.sampled_from([1, 3, 1024]))
@settings(max_examples=most_examples(100), deadline=None)
def test_parameters_on_any_devices_are_read_back(stages, step):
    """Stages of equally many layers or not, on devices that count on or not."""
    devices = [1 + step * place for place, (layers, _) in enumerate(stages) for _ in range(layers)]
    devices += [number for _, number in stages]
    params = tuple(Param(f"w_{n}", TensorType(DTYPES["Float32"], (4,), device)) for n, device in enumerate(devices))
    module = Module([Function("f", params, (Return(()),))])
    assert parse(print_module(module)).module == module


@pytest.mark.parametrize(
    ("param", "words"),
    [
        ("%w_{1..4}: Tensor[Float32, (4,), 1..3]", "4 parameters are not spread evenly over 3 devices"),
        ("%w: Tensor[Float32, (4,), 1..2]", "1 parameters are not spread evenly over 2 devices"),
        ("%w_{1..4}: Tensor[Float32, (4,), 1..4..2]", "does not reach its last number"),
        ("%w_{1..4}: Tuple[Tensor[Float32, (4,), 1..2]]", "a device"),
    ],
)
def test_devices_over_which_parameters_are_not_spread_are_refused(param, words):
    (found,) = parse(f"func @f({param}) {{\n  return\n}}\n").diagnostics
    assert words in found.message


def test_a_range_of_devices_is_of_parameters():
    (found,) = parse("func @f(%x) {\n  %y: Tensor[Float32, (4,), 1..2] = Relu(%x)\n  return\n}\n").diagnostics
    assert "a device" in found.message


@given(st.lists(st.tuples(runs, st.integers(1, 3)), max_size=3), st.booleans())
@settings(max_examples=most_examples(200), deadline=None)
def test_what_is_returned_is_read_back(groups, first):
    names = ["loss"] * first
    for one, others in groups:
        names += [name + "_new" * (n + 1) for name in one for n in range(others)]
    names = [*dict.fromkeys(names)]
    params = tuple(Param(name, UNKNOWN) for name in names)
    module = Module([Function("f", params, (Return(tuple(names)),))])
    assert parse(print_module(module)).module == module


def test_what_is_returned_together_counts_on_together():
    text = "func @f(%x, [%w.{0..4}.a,\n   %w.{0..4}.b]) {\n  return %x, [%w.{0..4}.a, %w.{0..4}.b]\n}\n"
    (function,) = parse(text).module
    assert function.returned[:4] == ("x", "w.0.a", "w.0.b", "w.1.a")
    assert "return %x, [%w.{0..4}.a, %w.{0..4}.b]\n" in print_module(Module([function]))
    (found,) = parse("func @f(%w_{1..4}, %b_{1..3}) {\n  return [%w_{1..4}, %b_{1..3}]\n}\n").diagnostics
    assert "count on together" in found.message
