"""Programs without `@main.scatter` and `@main.gather`, compared by placements that a file states."""

from pathlib import Path

import pytest

import distir
from distir.prove import ProveError, StatedError, prove, read_stated

EXAMPLES = Path(__file__).parents[2] / "examples"

SEQUENTIAL = """
func @main(
  %x: Tensor[Float32, (8, 4), 1], %w: Tensor[Float32, (4, 6), 1],
  %s: Tuple[Tensor[Float32, (6, 2), 1], Tensor[Float32, (2,), 1]]
) {
  %v, %b = UnpackTuple(%s)
  %h = MatMul(%x, %w)
  %a = Relu(%h)
  %y = MatMul(%a, %v)
  %p = Add(%y, %b)
  return %p
}
"""

SHARDS = """
func @main(
  %x_1: Tensor[Float32, (4, 4), 1], %x_2: Tensor[Float32, (4, 4), 2],
  %w_1: Tensor[Float32, (4, 6), 1], %w_2: Tensor[Float32, (4, 6), 2],
  %v_1: Tensor[Float32, (6, 2), 1], %v_2: Tensor[Float32, (6, 2), 2],
  %b_1: Tensor[Float32, (2,), 1], %b_2: Tensor[Float32, (2,), 2]
) {
  %h_1 = MatMul(%x_1, %w_1)
  %h_2 = MatMul(%x_2, %w_2)
  %a_1 = Relu(%h_1)
  %a_2 = Relu(%h_2)
  %y_1 = MatMul(%a_1, %v_1)
  %y_2 = MatMul(%a_2, %v_2)
  %p_1 = Add(%y_1, %b_1)
  %p_2 = Add(%y_2, %b_2)
  return %p_1, %p_2
}
"""

STATED = """
[parameters]
x_1 = "x[0:4]"
x_2 = "x[4:8, :]"
w_1 = "w"
w_2 = "%w"
v_1 = "s.0"
v_2 = "s.0"
b_1 = "s.1"
b_2 = "s.1"

[results]
p_1 = "p[0:4]"
p_2 = "p[4:8]"
"""


@pytest.fixture
def stated(tmp_path):
    def read(*changes, text=STATED):
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "placements.toml").write_text(text)
        return read_stated(str(tmp_path / "placements.toml"))

    return read


def found(stated, text=SHARDS, sequential=SEQUENTIAL):
    return prove(distir.parse(text), distir.parse(sequential), stated=stated)


def test_parts_copies_and_items_of_tuples(stated):
    assert found(stated()).proved


def test_runs_of_places(stated):
    zigzag = stated(('"x[0:4]"', '"x[0:2|6:8]"'), ('"x[4:8, :]"', '"x[2:6]"'), ('"p[0:4]"', '"p[:2|6:]"'),
                    ('"p[4:8]"', '"p[2:6]"'))  # fmt: skip
    assert found(zigzag).proved


def test_a_result_that_is_another_part(stated):
    proof = found(stated(('p_1 = "p[0:4]"', 'p_1 = "p[4:8]"'), ('p_2 = "p[4:8]"', 'p_2 = "p[0:4]"')))
    assert [f.reason for f in proof.failures] == [
        "expected rows 4–7 of `%p`, found rows 0–3 of `%p`",
        "expected rows 0–3 of `%p`, found rows 4–7 of `%p`",
    ]


def test_results_must_be_all_of_the_sequential_one(stated):
    one = SHARDS.replace("return %p_1, %p_2", "return %p_1")
    proof = found(stated(('p_2 = "p[4:8]"\n', "")), one)
    assert [f.reason for f in proof.failures] == ["nothing is stated to be all of `%p`"]


def test_addends(stated):
    step = "func @main(%g: Tensor[Float32, (4,), 1]) {\n  %y = Relu(%g)\n  return %y\n}\n"
    sums = """
    func @main(%g_1: Tensor[Float32, (4,), 1], %g_2: Tensor[Float32, (4,), 2]) {
      %s_1, %s_2 = MPIAllreduce(%g_1, %g_2)
      %y = Relu(%s_1)
      return %y
    }
    """
    halves = '[parameters]\ng_1 = "1 of 2 addends of g"\ng_2 = "2 of 2 addends of g"\n'
    assert found(stated(text=halves), sums, step).proved
    proof = found(stated(text=halves), sums.replace("Relu(%s_1)", "Relu(%g_1)"), step)
    assert "`%g_1` is a partial sum over 2 shards, and `Relu` needs the sum" in proof.failures[0].reason


@pytest.mark.parametrize(
    ("old", "new", "said", "place"),
    [
        ('"x[0:4]"', '"x[0:9]"', "expected places `from:to` of 8, found `0:9`", '"x[0:9]"'),
        ('"x[0:4]"', '"z[0:4]"', "the sequential program has no parameter `%z`", '"z[0:4]"'),
        ('"x[0:4]"', '"x[0:4, :, :]"', "there are 2 dimensions, found places of 3", '"x[0:4, :, :]"'),
        ('"x[0:4]"', '"x 0 to 4"', "is no placement", '"x 0 to 4"'),
        ('"x[0:4]"', "4", "expected a placement as text", "4"),
        ("x_1 = ", "x_3 = ", "the program has no parameter `%x_3`", "x_3"),
        ("[results]", "[result]", "expected the tables `[parameters]` and `[results]`", "result"),
        ('"p[0:4]"', '"1 of 2 addends of p"', "a parameter may be an addend", '"1 of 2 addends of p"'),
        ('"x[0:4]"', '"x[0:2|1:4]"', "has a place twice", '"x[0:2|1:4]"'),
    ],
)
def test_what_cannot_be_is_reported_with_its_place(stated, old, new, said, place):
    with pytest.raises(StatedError) as refused:
        found(stated((old, new)))
    (diagnostic,) = refused.value.report.diagnostics
    text = refused.value.report.source.text
    assert said in diagnostic.message
    assert text[diagnostic.site.start : diagnostic.site.end] == place


def test_what_is_not_stated_has_the_name_of_what_it_is(stated):
    with pytest.raises(StatedError, match="nothing says what `%x_1` is"):
        found(stated(text="[parameters]\n"))


def test_sizes_must_fit(stated):
    with pytest.raises(ProveError, match=r"expected `Tensor\[Float32, \(4, 4\), 1\]` for `%x_1`"):
        found(stated(('"x[0:4]"', '"x[0:5]"')))


BY_HAND = [
    ("mlp_pipeline.dir", "mlp_sequential.dir"),
    ("mlp_pipeline_swapped.dir", "mlp_sequential.dir"),
    ("mlp_checkpointing.dir", "mlp_no_checkpointing.dir"),
    ("mlp_data_parallel.dir", "mlp_zero.dir"),
]
"""The distributed, or rewritten, programs among those written by hand, each with one that it computes the same as.

`mlp_data_parallel.dir` and `mlp_zero.dir` are not one program with a batch in parts: their loss compares the rows of
a replica with each other. The others are sequential themselves.
"""


@pytest.mark.parametrize(("distributed", "against"), BY_HAND)
def test_examples_written_by_hand_are_proved(distributed, against):
    file = EXAMPLES / distributed.replace(".dir", ".placements.toml")
    stated = read_stated(str(file)) if file.exists() else None
    modules = [distir.parse((EXAMPLES / name).read_text()) for name in (distributed, against)]
    assert prove(*modules, stated=stated).proved


def test_no_example_is_left_out():
    sequential = {"gpt2_reshape.dir", "mixture_of_experts.dir"}
    on_a_mesh = {"mlp_mesh.dir"}
    named = {name for pair in BY_HAND for name in pair} | sequential | on_a_mesh
    assert {path.name for path in EXAMPLES.glob("*.dir")} == named


def test_the_example_on_a_mesh_is_proved_against_what_it_means():
    module = distir.parse((EXAMPLES / "mlp_mesh.dir").read_text())
    assert prove(distir.expand(module), distir.erase(module)).proved


MADE = {"gpt2_training": "gpt2_training", "gpt2": "gpt2", "mlp": "mlp_training"}
"""The examples of strategies by their first words, with the program that they were made from."""


@pytest.mark.parametrize("path", sorted((EXAMPLES / "strategies").glob("*_*.dir")), ids=lambda path: path.stem)
def test_examples_of_strategies_are_proved(path):
    if path.stem in MADE.values():
        return
    source = next(MADE[first] for first in MADE if path.stem.startswith(f"{first}_"))
    modules = [distir.parse(p.read_text()) for p in (path, path.with_name(f"{source}.dir"))]
    assert prove(*modules).proved
