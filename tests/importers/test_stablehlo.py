# ruff: noqa: E501 - lines of MLIR
"""StableHLO as jax writes it: the values of jax, attention and normalisations as ops, Shardy's annotations honoured.

The files in `stablehlo` were written by `stablehlo/make_stablehlo.py`, which needs jax: with its libraries half a
gigabyte, so that `make test-all` installs it and `make test` does not. The last tests have jax write the files anew.
"""

import importlib.util
import subprocess
import sys
from collections import Counter
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import distir
from distir.importers import ImportRefused
from distir.ir import Apply
from distir.transform import verify
from distir.transform.checking import checked

FILES = Path(__file__).parent / "stablehlo"


PLAIN = ["gpt", "gpt_step", "llama", "llama_step", "llama_bf16", "flax", "pieces", "places", "attentions", "rotations"]
ANNOTATED = ["megatron", "megatron_step", "sequence", "fsdp_step"]


def imported(name, folder=FILES, **options):
    return distir.import_stablehlo(folder / f"{name}.mlir", **options)


def ops(module, function=None):
    found = module if function is None else [module.functions[function]]
    return Counter(s.op for f in found for s in f.body if isinstance(s, Apply))


def written(tmp_path, text):
    path = tmp_path / "f.mlir"
    path.write_text(text)
    return path


def function(body, params="%arg0: tensor<4x6xf32>", result="tensor<4x6xf32>", before=""):
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return f"module @m {{\n{before}  func.func public @main({params}) -> {result} {{\n{lines}\n  }}\n}}\n"


def in_elements_of(array, type):
    return array.astype(ml_dtypes.bfloat16) if type.dtype.name == "BFloat16" else array


@pytest.mark.parametrize("name", PLAIN)
def test_a_program_gives_what_jax_gives(name):
    gives_what_jax_gives(name, FILES)


def gives_what_jax_gives(name, folder):
    module, values = imported(name, folder), np.load(folder / f"{name}.npz")
    assert not distir.check(module)
    given = [values[key] for key in values if key.startswith("given")]
    expected = [values[key] for key in values if key.startswith("expected")]
    given = [in_elements_of(array, p.type) for array, p in zip(given, module.entry().params, strict=True)]
    found = [*distir.run(module, given).values()]
    assert len(found) == len(expected)
    rounding = 2e-2 if name in ("llama_bf16", "attentions") else 1e-5
    for array, wanted in zip(found, expected, strict=True):
        assert array.shape == wanted.shape
        most = max(1.0, float(np.max(np.abs(np.nan_to_num(wanted.astype(np.float64))))))
        np.testing.assert_allclose(array.astype(np.float64), wanted, atol=rounding * most, rtol=0)
        assert array.dtype == wanted.dtype or name == "llama_bf16"


def test_what_jax_spells_out_is_recognised():
    layer = {"LayerNormalization": 2, "Attention": 1, "Gelu": 1}
    gpt = imported("gpt")
    assert [f.name for f in gpt] == ["block", "main"]
    assert ops(gpt, "block") & Counter(layer) == Counter(layer)
    assert not ops(gpt).keys() & {"Softmax", "Exp", "Where", "Tanh", "ReduceSum"}
    attention = next(s for s in gpt.functions["block"].body if isinstance(s, Apply) and s.op == "Attention")
    assert attention.attrs["is_causal"] is True
    flax = imported("flax")
    wanted = Counter({"LayerNormalization": 1, "RMSNormalization": 1, "Attention": 1, "Gelu": 1})
    assert ops(flax, "block") & wanted == wanted
    llama = imported("llama")
    assert ops(llama, "block") & Counter({"RMSNormalization": 2, "Swish": 1}) == {"RMSNormalization": 2, "Swish": 1}
    assert ops(imported("gpt_step"))["LogSoftmax"] == 0  # its parts are needed for the gradient


def test_attention_of_shared_heads_and_rotations_are_ops_however_they_are_written():
    attentions = ops(imported("attentions"))
    assert attentions["Attention"] == 9
    assert not attentions.keys() & {"Softmax", "Einsum", "MatMul"}
    rotations = ops(imported("rotations"))
    assert rotations["RotaryEmbedding"] == 7
    assert not rotations.keys() & {"Neg", "Concat", "Slice"}
    llama = ops(imported("llama"), "block")
    assert llama["Attention"] == 1


def test_heads_that_share_keys_are_split_by_tensor_parallelism():
    split = distir.transform(imported("llama"), "tp=2")
    assert ops(split, "block")["MPIAllreduce"] == 2  # Megatron's
    queries = next(p for p in split.entry().params if p.name == "params.layers.wq_1")
    assert queries.type.shape == (2, 8, 4)


def test_indices_that_are_in_range_are_taken_as_they_are():
    module = imported("places")
    made = {s.results[0]: s for s in module.entry().body if isinstance(s, Apply)}
    assert made[made["result.in_range"].args[1]].op != "Min"
    assert made[made["result.plain"].args[1]].op == "Min"


def test_layers_of_a_scan_are_calls_of_one_function():
    llama = imported("llama")
    calls = [s.function for s in llama.entry().body if not isinstance(s, Apply) and hasattr(s, "function")]
    assert calls.count("block") == 2  # its layers
    assert "Concat" not in ops(llama, "main")


def test_arguments_and_results_are_called_as_in_python():
    module = imported("gpt_step")
    params = {p.name: p for p in module.entry().params}
    assert dict(params["params.layers.1.wq"].roles) == {"param": True, "donated": True}
    assert not params["tokens"].roles
    assert module.entry().returned[0] == "result.0"
    assert "result.1.layers.0.w1" in module.entry().returned
    assert module.notes == ()


def test_weights_are_named_by_patterns(tmp_path):
    text = function("return %arg0 : tensor<4x6xf32>")
    path = written(tmp_path, text)
    assert [dict(p.roles) for p in distir.import_stablehlo(path).entry().params] == [{}]
    assert "--params" in distir.import_stablehlo(path).notes[0]
    (param,) = distir.import_stablehlo(path, params=["arg*"], batch={"arg0": 0}).entry().params
    assert dict(param.roles) == {"param": True, "batch": 0}
    with pytest.raises(ImportRefused, match="no argument `x` for the batch"):
        distir.import_stablehlo(path, batch={"x": 0})


def test_strategies_apply():
    gpt = imported("gpt", batch={"tokens": 0})
    step = distir.transform(gpt, "grad", loss="cross_entropy")
    assert verify(step, distir.transform(step, "dp=2", "tp=2")).equal


# Annotated.


@pytest.mark.parametrize("name", ANNOTATED)
def test_an_annotated_program_gives_the_same_on_all_devices(name):
    gives_the_same_on_all_devices(name, FILES)


def gives_the_same_on_all_devices(name, folder):
    module = imported(name, folder)
    assert not distir.check(module)
    assert verify(imported(name, folder, distribute=False), module).equal
    assert not [note for note in module.notes if "line" in note]


def types_of(module, prefix):
    found = [p.type for p in module.entry().params if p.name.startswith(prefix)]
    return [(t.shape, t.device) for t in found]


def test_arguments_and_results_lie_as_annotated():
    module = imported("megatron")
    assert types_of(module, "params.layers.0.wq") == [((8, 4), device) for device in (1, 2, 3, 4)]
    assert types_of(module, "params.layers.0.wo") == [((4, 8), device) for device in (1, 2, 3, 4)]
    assert types_of(module, "tokens") == [((2, 8), device) for device in (1, 2, 3, 4)]
    assert ops(module, "block")["MPIAllreduce"] == 2  # Megatron's, for each layer
    outputs = checked(module).states["main"]
    assert [str(outputs[name]) for name in module.entry().returned] == [
        f"Tensor[Float32, (2, 8, 8), {device}]" for device in (1, 2, 3, 4)
    ]


def test_parts_are_those_that_jax_gives_to_each_device():
    """A dimension over two axes: the first one is the outer one, and devices are numbered in the mesh's order."""
    module = imported("fsdp_step")
    assert types_of(module, "params.layers.0.wo") == [((2, 8), device) for device in (1, 2, 3, 4)]
    given = {p.name: np.zeros(p.type.shape) for p in module.functions["main.scatter"].params}
    given["params.layers.0.wo"] = np.arange(64.0).reshape(8, 8)
    given = {n: v.astype(np.int32 if n in ("tokens", "labels") else np.float32) for n, v in given.items()}
    parts = [v for n, v in distir.run(module, given, "main.scatter").items() if n.startswith("params.layers.0.wo")]
    np.testing.assert_array_equal(np.concatenate(parts), given["params.layers.0.wo"])


def test_a_constraint_between_layers_is_honoured():
    plain, spread = ops(imported("megatron")), ops(imported("sequence"))
    assert not plain["MPIReduceScatter"]
    assert spread["MPIReduceScatter"]
    assert spread["MPIAllgather"] > plain["MPIAllgather"]


MESH = '  sdy.mesh @mesh = <["data"=2, "model"=2]>\n'


def annotated(sharding, body="return %arg0 : tensor<4x6xf32>"):
    return function(body, f"%arg0: tensor<4x6xf32> {{sdy.sharding = #sdy.sharding<@mesh, {sharding}>}}", before=MESH)


def test_what_has_no_sharding_is_reported(tmp_path):
    params = '%arg0: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %arg1: tensor<6xf32>'
    path = written(tmp_path, function("return %arg0 : tensor<4x6xf32>", params, before=MESH))
    notes = distir.import_stablehlo(path).notes
    assert any("`%arg1`" in note and "each device has all of it" in note for note in notes)


@pytest.mark.parametrize(
    ("sharding", "expected"),
    [
        ('[{"model", "data"}, {}]', "in another order than the mesh has them"),
        ('[{}, {"data", "model"}]', "dimension 1 of 6 does not split over 4 devices"),
        ('[{"rows"}, {}]', "the mesh has no axis `rows`"),
        ('[{"data":(1)2}, {}]', "a sharding over a part of an axis"),
        ('[{"data"}]', "expected a sharding of 2 dimensions"),
        ('[{}, {}], unreduced={"data"}', "leaves sums open"),
    ],
)
def test_a_sharding_that_cannot_be_honoured_is_refused_with_its_line(tmp_path, sharding, expected):
    with pytest.raises(ImportRefused, match=r"`\S*f.mlir`, line 3, column \d+") as refused:
        distir.import_stablehlo(written(tmp_path, annotated(sharding)))
    assert expected in refused.value.message


def test_open_dimensions_are_as_stated(tmp_path):
    module = distir.import_stablehlo(written(tmp_path, annotated('[{"data", ?}, {?}p1]')))
    assert types_of(module, "arg0") == [((2, 6), device) for device in (1, 2, 3, 4)]


# Syntax, and what is refused.


def test_the_generic_form_is_read(tmp_path):
    text = function(
        """
%0 = "stablehlo.transpose"(%arg0) <{permutation = array<i64: 1, 0>}> : (tensor<4x6xf32>) -> tensor<6x4xf32>
%1 = "stablehlo.constant"() <{value = dense<2.5> : tensor<f32>}> : () -> tensor<f32>
%2 = "stablehlo.broadcast_in_dim"(%1) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> tensor<4x6xf32>
%3 = "stablehlo.dot_general"(%arg0, %0) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<4x6xf32>, tensor<6x4xf32>) -> tensor<4x4xf32>
%4 = "stablehlo.slice"(%3) <{limit_indices = array<i64: 4, 1>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<4x4xf32>) -> tensor<4x1xf32>
%5 = "stablehlo.broadcast_in_dim"(%4) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<4x1xf32>) -> tensor<4x6xf32>
%6 = "stablehlo.add"(%5, %2) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
%7 = "stablehlo.compare"(%6, %2) <{comparison_direction = #stablehlo<comparison_direction GT>}> : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xi1>
%8 = "stablehlo.select"(%7, %6, %2) : (tensor<4x6xi1>, tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
"func.return"(%8) : (tensor<4x6xf32>) -> ()
"""
    )
    x = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    (found,) = distir.run(distir.import_stablehlo(written(tmp_path, text)), [x]).values()
    np.testing.assert_allclose(found, np.maximum((x @ x.T)[:, :1] + 2.5, 2.5) * np.ones((1, 6)), rtol=1e-5)


def test_constants_are_read_in_all_spellings(tmp_path):
    body = """
%0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
%1 = stablehlo.constant dense<"0x0000803F00000040"> : tensor<2xf32>
%2 = stablehlo.constant dense<[[true, false], [false, true]]> : tensor<2x2xi1>
%3 = stablehlo.constant dense<"0x05"> : tensor<3xi1>
%4 = stablehlo.constant dense<[1.000000e-01, -2.5]> : tensor<2xbf16>
%5 = stablehlo.constant dense<-7> : tensor<100xi32>
%6 = stablehlo.constant dense<> : tensor<0x3xf32>
return %0, %1, %2, %3, %4, %5, %6 : tensor<f32>, tensor<2xf32>
"""
    kinds = ["f32", "2xf32", "2x2xi1", "3xi1", "2xbf16", "100xi32", "0x3xf32"]
    text = function(body, "", f"({', '.join(f'tensor<{kind}>' for kind in kinds)})")
    found = [*distir.run(distir.import_stablehlo(written(tmp_path, text)), []).values()]
    assert found[0] == -np.inf
    assert found[1].tolist() == [1.0, 2.0]
    assert found[2].tolist() == [[True, False], [False, True]]
    assert found[3].tolist() == [True, False, True]
    assert found[4].astype(float).tolist() == pytest.approx([0.1, -2.5], rel=1e-2)
    assert found[5].tolist() == [-7] * 100
    assert found[6].shape == (0, 3)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("%0 = stablehlo.fft %arg0, type = FFT : tensor<4x6xf32>", "`stablehlo.fft` has no op here"),
        ("%0 = stablehlo.custom_call @mine(%arg0) : (tensor<4x6xf32>) -> tensor<4x6xf32>", "`@mine` has no op here"),
        ("%0 = stablehlo.negate %nothing : tensor<4x6xf32>", "`%nothing` is not defined"),
        ("%0 = call @nothing(%arg0) : (tensor<4x6xf32>) -> tensor<4x6xf32>", "there is no function `@nothing`"),
        ("%0 = stablehlo.negate %arg0 : tensor<5x6xf32>", "`stablehlo.negate` gives `Tensor[Float32, (5, 6), 1]`"),
        ("%0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<3xf32>", "expected 3 elements, found 2"),
        ("%0 = stablehlo.constant sparse<[[0]], [1.0]> : tensor<3xf32>", "expected `dense<…>`"),
        (
            "%0 = stablehlo.log %c : tensor<complex<f32>>",
            "`stablehlo.log` of complex values has no op here",
        ),
        ("%0 = stablehlo.convert %arg0 : (tensor<4x6xf32>) -> tensor<?x6xf32>", "has a size that is left open"),
        ("%0 = stablehlo.negate %arg0 : tensor<4x6xf32> ;", "expected a token of MLIR, found `;`"),
    ],
)
def test_what_is_not_known_is_named_with_its_line(tmp_path, body, expected):
    text = function(f"%c = stablehlo.constant dense<0.0> : tensor<f32>\n{body}\nreturn %0 : tensor<4x6xf32>")
    with pytest.raises(ImportRefused, match=r"`\S*f.mlir`, line 4, column \d+") as refused:
        distir.import_stablehlo(written(tmp_path, text))
    assert expected in refused.value.message


def test_loops_of_unknown_length_and_branches_are_refused(tmp_path):
    body = """
%0 = stablehlo.while(%iterArg = %arg0) : tensor<i32>
cond {
  %c = stablehlo.constant dense<3> : tensor<i32>
  %1 = stablehlo.compare LT, %iterArg, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.return %1 : tensor<i1>
} do {
  stablehlo.return %iterArg : tensor<i32>
}
return %0 : tensor<i32>
"""
    with pytest.raises(ImportRefused, match=r"how often the loop runs .*line 3"):
        distir.import_stablehlo(written(tmp_path, function(body, "%arg0: tensor<i32>", "tensor<i32>")))
    endless = body.replace("%iterArg = %arg0", "%iterArg = %z").strip()
    endless = f"%z = stablehlo.constant dense<0> : tensor<i32>\n{endless}"
    with pytest.raises(ImportRefused, match=r"more than 1024 steps .*line 4"):
        distir.import_stablehlo(written(tmp_path, function(endless, "%arg0: tensor<i32>", "tensor<i32>")))
    case = """
%0 = "stablehlo.case"(%arg0) ({
  %c = stablehlo.constant dense<3> : tensor<i32>
  stablehlo.return %c : tensor<i32>
}) : (tensor<i32>) -> tensor<i32>
return %0 : tensor<i32>
"""
    with pytest.raises(ImportRefused, match=r"which branch is taken .*line 3"):
        distir.import_stablehlo(written(tmp_path, function(case, "%arg0: tensor<i32>", "tensor<i32>")))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"ML\xefR\x06StableHLO", "is MLIR bytecode"),
        (b"\xff\xfe\x00", "is no MLIR text"),
        (b"", "has no function `func.func`"),
        (b"module {", "no function|expected"),
        (b"module {\n func.func @main() -> tensor<f32> {\n", "the region is not closed"),
        (b"module @a {" + b"(" * 10_000, "expected an operation"),
        (b"x = " + b"[" * 10_000, "nested deeper|expected"),
    ],
)
def test_other_files_are_refused_in_a_line(tmp_path, data, expected):
    path = tmp_path / "f.mlir"
    path.write_bytes(data)
    with pytest.raises(ImportRefused, match=expected):
        distir.import_stablehlo(path)


def test_a_function_that_calls_itself_is_refused(tmp_path):
    text = function("%0 = call @main(%arg0) : (tensor<4x6xf32>) -> tensor<4x6xf32>\nreturn %0 : tensor<4x6xf32>")
    with pytest.raises(ImportRefused, match="calls are nested deeper than"):
        distir.import_stablehlo(written(tmp_path, text))


# The command line.


@pytest.fixture
def call(distir, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return lambda *words: distir("import", "stablehlo", *words)


def test_the_command_imports_and_verifies(call, tmp_path):
    ended = call(FILES / "megatron.mlir", "--verify", "-o", "m.dir")
    assert ended.code == 0
    assert "verified: both programs give the same results" in ended.out + ended.err
    assert (tmp_path / "m.dir").read_text().startswith("// Imported from megatron.mlir.")
    ended = call(FILES / "megatron.mlir", "--one-device")
    assert ended.code == 0
    assert "MPI" not in ended.out


def test_the_command_refuses_what_does_not_fit(call):
    ended = call("nothing.mlir")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: cannot read `nothing.mlir`")
    assert "`--layers` is not for StableHLO" in call(FILES / "gpt.mlir", "--layers", "2").err


# With jax, where it is installed.


@pytest.fixture(scope="module")
def written_now(tmp_path_factory):
    """A folder of the files as this jax writes them, and the values that it computes."""
    if importlib.util.find_spec("jax") is None:
        pytest.skip("jax is not installed")
    folder = tmp_path_factory.mktemp("stablehlo")
    subprocess.run([sys.executable, FILES / "make_stablehlo.py", folder], check=True)
    return folder


@pytest.mark.parametrize("name", PLAIN)
def test_what_this_jax_writes_gives_what_it_computes(written_now, name):
    if name == "flax" and importlib.util.find_spec("flax") is None:
        pytest.skip("flax is not installed")
    gives_what_jax_gives(name, written_now)
    assert ops(imported(name, written_now)) == ops(imported(name))


@pytest.mark.parametrize("name", ANNOTATED)
def test_what_this_jax_annotates_gives_the_same_on_all_devices(written_now, name):
    gives_the_same_on_all_devices(name, written_now)
    assert ops(imported(name, written_now)) == ops(imported(name))


def doubling(name, kind="public"):
    return (
        f"  func.func {kind} @{name}(%arg0: tensor<4xf32>) -> tensor<4xf32> {{\n"
        "    %0 = stablehlo.add %arg0, %arg0 : tensor<4xf32>\n    return %0 : tensor<4xf32>\n  }\n"
    )


def test_of_several_functions_the_entry_is_named_or_all_are(tmp_path):
    path = tmp_path / "a.mlir"
    path.write_text(f"module {{\n{doubling('first')}{doubling('second')}}}\n")
    both = distir.import_stablehlo(path)
    assert list(both.functions) == ["first", "second"]
    assert "no function is called `@main`: each public one is imported" in both.notes[0]
    path.write_text(f"module {{\n{doubling('first')}{doubling('main')}}}\n")
    notes = distir.import_stablehlo(path).notes
    assert "imported is `@main` with what it calls; the file also has `@first`" in notes
    path.write_text(f"module {{\n{doubling('inner', 'private')}{doubling('outer')}}}\n")
    assert not any("the file also has" in note for note in distir.import_stablehlo(path).notes)
