"""Dimensions that are split in zig-zag: device i of n has the parts i and 2n - 1 - i of 2n."""

import re

import pytest
from each_device import as_each_device
from mesh_programs import ZIGZAG
from test_mesh_step import placed, time_of
from test_mesh_step import program as program_of

import distir
from distir.analysis.program import read
from distir.cost import load
from distir.diagnostics import Severity
from distir.ide.completion import completions
from distir.ide.hover import hover
from distir.ir import Apply, SplitAlong
from distir.models import named
from distir.syntax import print_module
from distir.transform import StepError
from distir.transform.mesh import erase, expand
from distir.transform.verification import verify
from tests.ide.editing_samples import opened
from tests.ide.reading_samples import viewed


def errors(text):
    return [d for d in read(text).diagnostics if d.severity is Severity.ERROR]


def program(*body, x="Tensor[Float32, (8@zigzag(cp), 4), 1]", y="Tensor[Float32, (8, 4), 1]"):
    lines = "".join(f"  {line}\n" for line in body)
    return f"func @main(%x: {x}, %y: {y}) mesh (dp = 2, cp = 2) {{\n{lines}  return %z\n}}\n"


@pytest.mark.parametrize(
    ("text", "code", "message", "help"),
    [
        (
            program("%z = Add(%x, %y)", y="Tensor[Float32, (8@cp, 4), 1]"),
            "DIR423",
            "`Add` is given parts of other rows: operands are split along a dimension in other orders",
            'insert `AllGather[axis = "cp", dim = 0]` for `%x`',
        ),
        (
            program("%z = Add(%x, %y)"),
            "DIR423",
            "`Add` expected `%y` split in dimension 0 in zig-zag along `cp`, found whole",
            'insert `Shard[axis = "cp", dim = 0, zigzag = true]` for `%y`',
        ),
        (
            program('%z = AllToAll[axis = "cp", split = 1, join = 0](%x)', x="Tensor[Float32, (8@cp[4, 4], 4), 1]"),
            "DIR424",
            "`AllToAll` expected one part of dimension 0 on each device, found several",
            "write `AllGather` and `Shard`, or split the blocks apart before",
        ),
        (
            program('%z = AllGather[axis = ["dp", "cp"]](%x)', x="Tensor[Float32, (8@(dp, zigzag(cp)), 4), 1]"),
            "DIR424",
            "would put rows of `Tensor[Float32, (8@(dp, zigzag(cp)), 4), 1]` in another order",
            "gather along one axis after the other",
        ),
        (
            program('%z = AllGather[axis = ["dp", "cp"]](%x)', x="Tensor[Float32, (16@(dp, cp[4, 4, 4, 4]), 4), 1]"),
            "DIR424",
            "would put rows of `Tensor[Float32, (16@(dp, cp[4, 4, 4, 4]), 4), 1]` in another order",
            "gather along one axis after the other",
        ),
        (
            program("%z = Relu(%x)", x="Tensor[Float32, (16@(zigzag(dp), tp, zigzag(cp)), 4), 1]").replace(
                "cp = 2)", "cp = 2, tp = 2)"
            ),
            "DIR422",
            "dimension 0 is split in order between axes along which it is in zig-zag",
            "name the axes along which it is in zig-zag one after the other",
        ),
        (
            program("%z = Relu(%x)", x="Tensor[Float32, (6@zigzag(cp), 4), 1]"),
            "DIR422",
            "dimension 0, which is 6, does not split into 4 parts, two for each device in zig-zag (cp = 2)",
            "1 or 3 would do",
        ),
        (
            program("%z = Relu(%x)", x="Tensor[Float32, (5@zigzag(cp), 4), 1]"),
            "DIR422",
            "dimension 0, which is 5, does not split into 4 parts",
            "split it in order",
        ),
        (
            program("%s = Send[device = 2](%x)", "%z = Relu(%s)").replace(") {", "), mesh 2 (dp = 1, cp = 4) {"),
            "DIR423",
            "dimension 0 is split in zig-zag, over `cp = 2` here and `cp = 4` there",
            'insert `AllGather[axis = "cp", dim = 0]` for `%x`',
        ),
    ],
)
def test_rows_in_another_order_are_refused_with_the_remedy(text, code, message, help):
    (found,) = errors(text)
    assert found.code.number == code
    assert message in found.message
    assert found.help == help


@pytest.mark.parametrize(
    "body",
    [
        '%z = AllToAll[axis = "cp", split = 1, join = 0](%x)',
        '%z = AllGather[axis = ["dp", "cp"], dim = 0](%x)',
        '%z = AllToAll[axis = ["dp", "cp"], split = 1, join = 0](%x)',
        '%z = AllToAll[axis = ["dp", "cp"], split = 0, join = 1, zigzag = true](%t)',
        '%z = Shard[axis = ["dp", "cp"], dim = 0, zigzag = true](%y)',
    ],
)
def test_in_zigzag_along_several_axes_it_is_that_of_all_their_devices(body):
    transposed = '%t = AllToAll[axis = ["dp", "cp"], split = 1, join = 0](%x)'
    text = program(transposed, body, "%u = Relu(%z)", x="Tensor[Float32, (8@(zigzag(dp), zigzag(cp)), 4), 1]")
    text = text.replace("return %z", "return %u, %t")
    assert not errors(text)
    module = read(text).module
    assert read(print_module(module)).module == module
    assert verify(erase(module), module).equal
    as_each_device(module, load("dgx-a100"))
    scattered = print_module(expand(module))
    of_devices = (0, 7, 1, 6, 2, 5, 3, 4)
    assert f"({', '.join(f'%x_run_{k}' if k else '%x_run' for k in of_devices)})" in scattered


def test_axes_behind_those_in_zigzag_cut_what_a_device_has():
    text = program("%z = Relu(%x)", x="Tensor[Float32, (4@(zigzag(dp), cp), 4), 1]")
    assert not errors(text)  # each device has one of four rows
    assert verify(erase(read(text).module), read(text).module).equal


def test_attention_is_split_in_zigzag_where_it_is_causal():
    ids = next(p for p in placed("llama", "step", "dp=2 cp=2").entry().params if p.name == "input_ids")
    assert ids.type.places == (SplitAlong(0, "dp"), SplitAlong(1, "cp", zigzag=True))
    for model, strategy in (("bert", "cp=2"), ("llama", "cp=2 cp_kind=a2a"), ("llama", "cp=2 zigzag=false")):
        assert "zigzag" not in print_module(placed(model, "forward", strategy))
    assert "zigzag(cp)" in print_module(placed("bert", "forward", "cp=2 zigzag=true"))


def test_stages_of_a_pipeline_have_parts_in_zigzag():
    before = program_of("llama", "step")
    made = distir.transform(before, "pp=2", "microbatches=2", "mesh", "cp=2")
    assert verify(before, made).equal
    steps = ("dtp=1,1,2", "microbatches=2", "context=2")
    assert time_of(expand(made)) == time_of(distir.transform(before, *steps))


def test_it_is_refused_where_each_device_has_whole_sequences():
    with pytest.raises(StepError, match="`zigzag` balances queries, and with `cp_kind=a2a` each device has whole"):
        distir.transform(program_of("llama", "forward"), "mesh", "cp=2", "cp_kind=a2a", "zigzag=true")


def test_positions_follow_the_rows():
    text = print_module(expand(placed("llama", "forward", "cp=2")))
    for table in ("cos", "sin"):
        cut = re.findall(rf"^ *(.*) = Split\[axis = 1, num_outputs = 4\]\(%{table}\)", text, re.MULTILINE)
        assert [[name != "_" for name in names.split(", ")] for names in cut] == [
            [True, False, False, True],
            [False, True, True, False],
        ]


def test_each_device_has_the_first_and_the_last_of_the_parts_that_are_left():
    text = program("%z = Relu(%x)", x="Tensor[Float32, (16@zigzag(cp), 4), 1]").replace("cp = 2", "cp = 4")
    scattered = print_module(expand(read(text.replace("dp = 2", "dp = 1")).module))
    assert (
        "%x_ordered = Concat[axis = 0](%x_run, %x_run_7, %x_run_1, %x_run_6, %x_run_2, %x_run_5, %x_run_3, %x_run_4)"
        in scattered
    )


def test_one_device_stands_for_thousands_that_have_as_many_scores():
    model = named("llama3-8b", layers=1, batch=256, sequence=4096, width=256, heads=16, kv_heads=8, head_size=16)
    found = distir.simulate(distir.transform(model, "mesh", "dp=256", "cp=4", "tp=8"), "dgx-h100x1024")
    assert found.copies == 8192


def test_windows_of_the_first_queries_are_cut_off_so_that_no_device_stands_for_all():
    heads = 'is_causal = true, q_num_heads = 8, kv_num_heads = 8, context = "allgather"'
    text = program(f"%z = Attention[{heads}](%x, %x, %x)", x="Tensor[Float32, (4@dp, 4096@zigzag(cp), 512), 1]")
    assert as_each_device(read(text).module, load("dgx-a100")) == 4
    sliding = text.replace("[is_causal = true", "[is_causal = true, window = 1024")
    assert as_each_device(read(sliding).module, load("dgx-a100")) == 1


def test_what_devices_that_wait_do_sooner_is_said(distir, tmp_path):
    path = tmp_path / "zigzag.dir"
    path.write_text(ZIGZAG.replace(', context = "ring"', ', context = "allgather"'))
    shown = distir("simulate", path).out
    assert (
        "each device that is listed represents 4, which do the same; some finish `Attention` sooner, and wait" in shown
    )


def test_hover_shows_which_rows_devices_have_and_what_the_word_means():
    text = program("%z = Relu(%x)", x="Tensor[Float32, (16@zigzag(cp), 4), 1]")
    said = hover(viewed(text), text.index("%z =") + 1).markdown
    assert "  cp 0                cp 1\n  [0:4 and 12:16, :]  [4:12, :]" in said
    said = hover(viewed(text), text.index("@zigzag") + 2).markdown
    assert said == "`zigzag`: device i of n has the parts i and 2n - 1 - i of 2n"
    assert hover(viewed(text), text.index("(cp)") + 1).markdown.startswith("axis `cp` of `mesh (dp = 2, cp = 2)`")


@pytest.mark.parametrize(
    ("written", "labels"),
    [("8@|, 4", ["@dp", "@cp", "@zigzag"]), ("8@zigzag(|), 4", ["dp", "cp"]), ("8@(dp, |), 4", ["dp", "cp", "zigzag"])],
)
def test_it_is_completed(written, labels):
    text = program(f"%z: Tensor[Float32, ({written}), 1] = Relu(%x)")
    offset = text.index("|")
    found = completions(opened(text.replace("|", "")), offset)
    assert [item.label for item in found.items] == labels


def test_a_reduced_gradient_and_a_part_say_their_order():
    entry = read(ZIGZAG).module.entry()
    assert [s.op for s in entry.body if isinstance(s, Apply) and s.attrs.get("zigzag")] == ["Shard", "ReduceScatter"]
    assert "8@zigzag(cp)" in str(entry.params[0].type)
