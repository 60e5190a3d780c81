# ruff: noqa: E501 - lines of MLIR
"""StableHLO as others write it: torch-xla, earlier versions of jax, tools that print the generic form; `shard_map`; GSPMD.

Forms are those of modules in public repositories, as openxla/stablehlo, openxla/shardy, pytorch/xla and tenstorrent's.
"""

import math

import numpy as np
import pytest
from test_stablehlo import function, ops, written

import distir
from distir.importers import ImportRefused
from distir.ir import Apply


def imported(tmp_path, text, **options):
    return distir.import_stablehlo(written(tmp_path, text), **options)


def run(module, *arrays):
    names = [param.name for param in module.entry().params]
    found = distir.run(module, dict(zip(names, arrays, strict=True)))
    return list(found.values()) if isinstance(found, dict) else list(found)


def random(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    "reduction",
    [
        "%0 = stablehlo.reduce(%arg0 init: %c) applies stablehlo.add across dimensions = [1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>",
        "%0 = stablehlo.reduce(%arg0 init: %c) across dimensions = [1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>\n"
        " reducer(%a: tensor<f32>, %b: tensor<f32>)  {\n  %s = stablehlo.add %a, %b : tensor<f32>\n  stablehlo.return %s : tensor<f32>\n}",
        '%0 = "stablehlo.reduce"(%arg0, %c) ({\n^bb0(%a: tensor<f32>, %b: tensor<f32>):\n  %s = "stablehlo.add"(%b, %a) : (tensor<f32>, tensor<f32>) -> tensor<f32>\n'
        '  "stablehlo.return"(%s) : (tensor<f32>) -> ()\n}) {dimensions = dense<1> : tensor<1xi64>} : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>',
    ],
    ids=["applies", "reducer", "generic"],
)
def test_reducers_are_read_in_all_forms(tmp_path, reduction):
    body = f"%c = stablehlo.constant dense<0.0> : tensor<f32>\n{reduction}\nreturn %0 : tensor<4xf32>"
    found = imported(tmp_path, function(body, result="tensor<4xf32>"))
    assert ops(found)["ReduceSum"] == 1


def test_several_operands_are_reduced_at_once(tmp_path):
    body = """
%z = stablehlo.constant dense<0.0> : tensor<f32>
%o = stablehlo.constant dense<1.0> : tensor<f32>
%0:2 = stablehlo.reduce(%arg0 init: %z), (%arg0 init: %o) across dimensions = [1] : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
 reducer(%a: tensor<f32>, %b: tensor<f32>) (%c: tensor<f32>, %d: tensor<f32>) {
  %s = stablehlo.add %a, %b : tensor<f32>
  %p = stablehlo.multiply %c, %d : tensor<f32>
  stablehlo.return %s, %p : tensor<f32>, tensor<f32>
}
return %0#0, %0#1 : tensor<4xf32>, tensor<4xf32>"""
    found = imported(tmp_path, function(body, result="(tensor<4xf32>, tensor<4xf32>)"))
    x = random(4, 6)
    total, product = run(found, x)
    np.testing.assert_allclose(total, x.sum(1), rtol=1e-5)
    np.testing.assert_allclose(product, x.prod(1), rtol=1e-5)


def test_a_whole_module_in_the_generic_form(tmp_path):
    text = """
"builtin.module"() <{sym_name = "m"}> ({
  "func.func"() <{arg_attrs = [{tf.aliasing_output = 0 : i32}, {}], function_type = (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>, sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>):
    %0 = "func.call"(%arg0, %arg1) <{callee = @f}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    "func.return"(%0) : (tensor<4xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>, sym_name = "f", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>):
    %0 = "stablehlo.multiply"(%arg0, %arg1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    "func.return"(%0) : (tensor<4xf32>) -> ()
  }) : () -> ()
}) : () -> ()
"""
    found = imported(tmp_path, text)
    assert ops(found) == {"Mul": 1}
    assert found.entry().params[0].roles.get("donated")


def test_modules_inside_modules_declarations_and_maps_are_read(tmp_path):
    text = """#map = affine_map<(d0, d1) -> (d0 * 2 + d1)>
module @outer {
  module @inner attributes {mhlo.num_partitions = 1 : i32} {
    func.func private @elsewhere(tensor<4xf32>) -> tensor<4xf32>
    func.func @f(%x: tensor<4xf32>) -> tuple<tensor<4xf32>, tensor<4xf32>> attributes {llvm.emit_c_interface} {
      %c = arith.constant dense<2.0> : tensor<4xf32>
      %0 = mhlo.multiply %x, %c : tensor<4xf32>
      %1 = stablehlo.tuple %x, %0 : tuple<tensor<4xf32>, tensor<4xf32>>
      func.return %1 : tuple<tensor<4xf32>, tensor<4xf32>>
    }
  }
}
"""
    same, doubled = run(imported(tmp_path, text), random(4))
    np.testing.assert_array_equal(doubled, 2 * same)


def test_two_modules_in_a_file_are_no_one_program(tmp_path):
    one = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  return %x : tensor<4xf32>\n}\n"
    with pytest.raises(ImportRefused, match=r"a second function `@main` .*line 5, column 1.*split the file"):
        imported(tmp_path, f"{one}// -----\n{one}")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("%0 = tosa.add %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>", "of the dialect `tosa`"),
        ('%0 = "ttir.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>', "of the dialect `ttir` of Tenstorrent's compiler"),
        ("%0 = vhlo.add_v1 %x, %x : !vhlo.tensor_v1<4x!vhlo.f32_v1>", "of the dialect `vhlo` of StableHLO's portable"),
        ("%0 = torch.aten.relu %x : !torch.vtensor<[4],f32> -> !torch.vtensor<[4],f32>", "of the dialect `torch`"),
        (
            '%0 = linalg.generic {iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%x : tensor<4xf32>) {\n'
            "^bb0(%a: f32, %b: f32):\n  %s = arith.addf %a, %a : f32\n  linalg.yield %s : f32\n} -> tensor<4xf32>",
            "of the dialect `linalg` of a later stage of compilers",
        ),
    ],
)
def test_what_is_no_stablehlo_is_said_by_its_dialect(tmp_path, body, said):
    text = f"module {{\nfunc.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{\n{body}\nreturn %0 : tensor<4xf32>\n}}\n}}\n"
    with pytest.raises(ImportRefused) as refused:
        imported(tmp_path, text)
    assert said in refused.value.message
    assert "not StableHLO" in refused.value.message


def test_hlo_is_named(tmp_path):
    with pytest.raises(ImportRefused, match="is HLO, not StableHLO; convert it"):
        imported(tmp_path, "HloModule jit_f, entry_computation_layout={(f32[4]{0})->f32[4]{0}}\n")


ROTARY = """
%re = stablehlo.slice %arg0 [0:4, 0:1] : (tensor<4x2xf32>) -> tensor<4x1xf32>
%im = stablehlo.slice %arg0 [0:4, 1:2] : (tensor<4x2xf32>) -> tensor<4x1xf32>
%z = stablehlo.complex %re, %im : tensor<4x1xcomplex<f32>>
%i = stablehlo.constant dense<(0.000000e+00,1.000000e+00)> : tensor<complex<f32>>
%w = stablehlo.broadcast_in_dim %i, dims = [] : (tensor<complex<f32>>) -> tensor<4x1xcomplex<f32>>
%t = stablehlo.multiply %z, %w : tensor<4x1xcomplex<f32>>
%u = stablehlo.multiply %t, %arg1 : tensor<4x1xcomplex<f32>>
%r = stablehlo.real %u : (tensor<4x1xcomplex<f32>>) -> tensor<4x1xf32>
%j = stablehlo.imag %u : (tensor<4x1xcomplex<f32>>) -> tensor<4x1xf32>
%0 = stablehlo.concatenate %r, %j, dim = 1 : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x2xf32>
return %0, %u : tensor<4x2xf32>, tensor<4x1xcomplex<f32>>"""


def test_complex_values_are_pairs_of_real_ones(tmp_path):
    params = "%arg0: tensor<4x2xf32>, %arg1: tensor<4x1xcomplex<f32>>"
    found = imported(tmp_path, function(ROTARY, params, "(tensor<4x2xf32>, tensor<4x1xcomplex<f32>>)"))
    assert [p.name for p in found.entry().params] == ["arg0", "arg1.real", "arg1.imag"]
    x, y = random(4, 2), random(4, 1) + 1j * random(4, 1)[::-1]
    joined, real, imaginary = run(found, x, y.real.astype(np.float32), y.imag.astype(np.float32))
    expected = (x[:, :1] + 1j * x[:, 1:]) * 1j * y
    np.testing.assert_allclose(joined, np.concatenate([expected.real, expected.imag], 1), rtol=1e-5)
    np.testing.assert_allclose(real + 1j * imaginary, expected, rtol=1e-5)


def test_layer_norm_as_torch_xla_writes_it(tmp_path):
    body = """
%s, %m, %v = "stablehlo.batch_norm_training"(%arg0, %arg1, %arg2) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<1x4x6xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<1x4x6xf32>, tensor<4xf32>, tensor<4xf32>)
%e = stablehlo.custom_call @mhlo.erf(%s) {mhlo.attributes = {}, mhlo.version = 1 : i64} : (tensor<1x4x6xf32>) -> tensor<1x4x6xf32>
return %e, %m, %v : tensor<1x4x6xf32>, tensor<4xf32>, tensor<4xf32>"""
    params = "%arg0: tensor<1x4x6xf32>, %arg1: tensor<4xf32>, %arg2: tensor<4xf32>"
    found = imported(tmp_path, function(body, params, "(tensor<1x4x6xf32>, tensor<4xf32>, tensor<4xf32>)"))
    x, scale, offset = random(1, 4, 6), random(4), random(4)[::-1].copy()
    made, mean, variance = run(found, x, scale, offset)
    mu, var = x.mean((0, 2)), x.var((0, 2))
    normal = (x - mu[:, None]) / np.sqrt(var + 1e-5)[:, None] * scale[:, None] + offset[:, None]
    np.testing.assert_allclose(made, np.vectorize(math.erf)(normal), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(mean, mu, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(variance, var, rtol=1e-4)


def test_patches_are_a_convolution(tmp_path):
    body = (
        "%0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2]} "
        "{batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x4x3xf32>, tensor<2x2x3x5xf32>) -> tensor<1x2x2x5xf32>\n"
        "return %0 : tensor<1x2x2x5xf32>"
    )
    found = imported(
        tmp_path,
        function(body, "%arg0: tensor<1x4x4x3xf32>, %arg1: tensor<2x2x3x5xf32>", "tensor<1x2x2x5xf32>"),
    )
    x, w = random(1, 4, 4, 3), random(2, 2, 3, 5)
    patches = x.reshape(1, 2, 2, 2, 2, 3).transpose(0, 1, 3, 2, 4, 5).reshape(1, 2, 2, 12)
    np.testing.assert_allclose(run(found, x, w)[0], patches @ w.reshape(12, 5), rtol=1e-4, atol=1e-5)


def test_sorting_by_a_key_takes_the_others_along(tmp_path):
    body = """
%i = stablehlo.iota dim = 0 : tensor<6xi32>
%0:2 = "stablehlo.sort"(%arg0, %i) <{dimension = 0 : i64, is_stable = true}> ({
^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
  %9 = stablehlo.compare GT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
  stablehlo.return %9 : tensor<i1>
}) : (tensor<6xf32>, tensor<6xi32>) -> (tensor<6xf32>, tensor<6xi32>)
return %0#0, %0#1 : tensor<6xf32>, tensor<6xi32>"""
    found = imported(tmp_path, function(body, "%arg0: tensor<6xf32>", "(tensor<6xf32>, tensor<6xi32>)"))
    x = random(6)
    values, places = run(found, x)
    np.testing.assert_array_equal(values, np.sort(x)[::-1])
    np.testing.assert_array_equal(places, np.argsort(-x))


def test_padding_between_elements(tmp_path):
    body = (
        "%c = stablehlo.constant dense<7.0> : tensor<f32>\n"
        "%0 = stablehlo.pad %arg0, %c, low = [1, 0], high = [0, -1], interior = [1, 2] : (tensor<2x3xf32>, tensor<f32>) -> tensor<4x6xf32>\n"
        "return %0 : tensor<4x6xf32>"
    )
    x = random(2, 3)
    expected = np.full((4, 6), 7, np.float32)
    expected[1::2, ::3] = x[:, :2]
    np.testing.assert_array_equal(run(imported(tmp_path, function(body, "%arg0: tensor<2x3xf32>")), x)[0], expected)


def test_windows_of_a_batch_are_read_and_written_where_its_indices_say(tmp_path):
    """As jax writes `vmap` of `dynamic_slice` and `dynamic_update_slice`: a cache of several sequences."""
    body = """
%r = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1, 2], index_vector_dim = 1>, slice_sizes = array<i64: 1, 2, 3>}> : (tensor<2x5x3xf32>, tensor<2x2xi32>) -> tensor<2x2x3xf32>
%w = "stablehlo.scatter"(%arg0, %arg1, %arg2) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1, 2], index_vector_dim = 1>, unique_indices = true}> ({
^bb0(%a: tensor<f32>, %b: tensor<f32>):
  stablehlo.return %b : tensor<f32>
}) : (tensor<2x5x3xf32>, tensor<2x2xi32>, tensor<2x2x3xf32>) -> tensor<2x5x3xf32>
return %r, %w : tensor<2x2x3xf32>, tensor<2x5x3xf32>"""
    params = "%arg0: tensor<2x5x3xf32>, %arg1: tensor<2x2xi32>, %arg2: tensor<2x2x3xf32>"
    found = imported(tmp_path, function(body, params, "(tensor<2x2x3xf32>, tensor<2x5x3xf32>)"))
    cache, new = random(2, 5, 3), random(2, 2, 3)
    expected = cache.copy()
    expected[0, 1:3], expected[1, 3:5] = new
    read, wrote = run(found, cache, np.array([[1, 0], [3, 0]], np.int32), new)
    np.testing.assert_array_equal(read, np.stack([cache[0, 1:3], cache[1, 3:5]]))
    np.testing.assert_array_equal(wrote, expected)


def test_a_batch_may_be_a_component_of_indices(tmp_path):
    """As jax wrote the same until it had batching dimensions (0.4.31)."""
    body = """
%i = stablehlo.iota dim = 0 : tensor<2x1xi32>
%j = stablehlo.concatenate %i, %arg1, dim = 1 : (tensor<2x1xi32>, tensor<2x2xi32>) -> tensor<2x3xi32>
%m = stablehlo.constant dense<[[1, 3, 0], [1, 3, 0]]> : tensor<2x3xi32>
%k = stablehlo.minimum %j, %m : tensor<2x3xi32>
%w = "stablehlo.scatter"(%arg0, %k, %arg2) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0, 1, 2], index_vector_dim = 1>, unique_indices = true}> ({
^bb0(%a: tensor<f32>, %b: tensor<f32>):
  stablehlo.return %b : tensor<f32>
}) : (tensor<2x5x3xf32>, tensor<2x3xi32>, tensor<2x2x3xf32>) -> tensor<2x5x3xf32>
return %w : tensor<2x5x3xf32>"""
    params = "%arg0: tensor<2x5x3xf32>, %arg1: tensor<2x2xi32>, %arg2: tensor<2x2x3xf32>"
    cache, new = random(2, 5, 3), random(2, 2, 3)
    expected = cache.copy()
    expected[0, 1:3], expected[1, 3:5] = new
    found = imported(tmp_path, function(body, params, "tensor<2x5x3xf32>"))
    np.testing.assert_array_equal(run(found, cache, np.array([[1, 0], [9, 0]], np.int32), new)[0], expected)


def weight(name):
    body = f"%w = stablehlo.constant dense_resource<{name}> : tensor<2xf32>\n%0 = stablehlo.multiply %arg0, %w : tensor<2xf32>\nreturn %0 : tensor<2xf32>"
    return function(body, "%arg0: tensor<2xf32>", "tensor<2xf32>")


def test_weights_behind_the_module_are_parameters_with_their_data(tmp_path):
    data = np.array([2, 3], np.float32)
    behind = f'{{-#\n  dialect_resources: {{\n    builtin: {{\n      w_1: "0x04000000{data.tobytes().hex()}"\n    }}\n  }}\n#-}}\n'
    found = imported(tmp_path, weight("w_1") + behind)
    (param,) = [param for param in found.entry().params if param.roles.get("param")]
    np.testing.assert_array_equal(found.weights[param.name], data)
    with pytest.raises(ImportRefused, match="`dense_resource<w_1>` has 4 bytes, where its type takes 8"):
        imported(tmp_path, weight("w_1") + behind.replace(data.tobytes().hex(), data.tobytes().hex()[:8]))


def test_weights_that_are_left_out_are_parameters_and_reported(tmp_path):
    found = imported(tmp_path, weight("__elided__"))
    assert len(found.entry().params) == 2
    assert not found.weights
    assert any("are parameters without data" in note for note in found.notes)


def test_what_dropout_keeps_is_drawn(tmp_path):
    before = """  func.func private @_bernoulli(%k: tensor<2xui32>, %p: tensor<f32>) -> tensor<32x64xi1> {
    %0 = stablehlo.shift_right_logical %k, %k : tensor<2xui32>
    return %0 : tensor<32x64xi1>
  }
"""
    body = """
%p = stablehlo.constant dense<0.75> : tensor<f32>
%m = call @_bernoulli(%arg1, %p) : (tensor<2xui32>, tensor<f32>) -> tensor<32x64xi1>
%z = stablehlo.constant dense<0.0> : tensor<32x64xf32>
%0 = stablehlo.select %m, %arg0, %z : tensor<32x64xi1>, tensor<32x64xf32>
return %0 : tensor<32x64xf32>"""
    params = "%arg0: tensor<32x64xf32>, %arg1: tensor<2xui32>"
    found = imported(tmp_path, function(body, params, "tensor<32x64xf32>", before))
    assert ops(found)["Dropout"] == 1
    assert any("what dropout keeps is drawn anew" in note for note in found.notes)


POOLED = """
%c = stablehlo.constant dense<START> : tensor<f32>
%0 = "stablehlo.reduce_window"(%arg0, %c) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<[[0, 0], [1, 2], [0, 1], [0, 0]]> : tensor<4x2xi64>, window_dilations = array<i64: 1, 2, 1, 1>, window_dimensions = array<i64: 1, 2, 3, 1>, window_strides = array<i64: 1, 2, 1, 1>}> ({
^bb0(%a: tensor<f32>, %b: tensor<f32>):
  %s = stablehlo.APPLIED %a, %b : tensor<f32>
  stablehlo.return %s : tensor<f32>
}) : (tensor<2x7x6x3xf32>, tensor<f32>) -> tensor<2x4x5x3xf32>
return %0 : tensor<2x4x5x3xf32>"""


def pooled(applied, start):
    text = POOLED.replace("APPLIED", applied).replace("START", start)
    return function(text, "%arg0: tensor<2x7x6x3xf32>", "tensor<2x4x5x3xf32>")


@pytest.mark.parametrize(
    ("applied", "start", "fill", "combined", "op"),
    [("maximum", "0xFF800000", -np.inf, np.max, "MaxPool"), ("add", "0.0", 0.0, np.sum, "AveragePool")],
)
def test_a_reduction_over_windows_is_pooling(tmp_path, applied, start, fill, combined, op):
    """As `jax.lax.reduce_window` writes it: dimensions of images in the middle, windows with gaps, padding."""
    found = imported(tmp_path, pooled(applied, start))
    assert ops(found)[op] == 1
    x = random(2, 7, 6, 3)
    around = np.pad(x, ((0, 0), (1, 2), (0, 1), (0, 0)), constant_values=fill)
    rows = [around[:, 2 * i : 2 * i + 3 : 2, j : j + 3] for i in range(4) for j in range(5)]
    expected = np.stack([combined(row, axis=(1, 2)) for row in rows], 1).reshape(2, 4, 5, 3)
    np.testing.assert_allclose(run(found, x)[0], expected, rtol=1e-5, atol=1e-6)


def test_windows_that_begin_at_another_number_are_refused(tmp_path):
    with pytest.raises(
        ImportRefused, match="a reduction over windows has no op here, but a cumulative sum, and pooling"
    ):
        imported(tmp_path, pooled("maximum", "0.0"))


# Regions for one device of a mesh.


MESH = '  sdy.mesh @mesh = <["data"=2, "model"=4]>\n'
SUMMED = """({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    })"""


def region(inside, result="tensor<8x16xf32>", out='[{"data"}, {}]', after="return %0 : tensor<8x16xf32>", given=None):
    """`shard_map` of `%x`, split over data along rows, and `%w`, over model along rows, by what is inside."""
    body = f"""
%0 = sdy.manual_computation(%arg0, %arg1) in_shardings=[<@mesh, [{{"data"}}, {{"model"}}]>, <@mesh, [{{"model"}}, {{}}]>] out_shardings=[<@mesh, {out}>] manual_axes={{"data", "model"}} (%x: tensor<4x8xf32>, %w: tensor<8x16xf32>) {{
{inside}
}} : (tensor<8x32xf32>, tensor<32x16xf32>) -> {given or result}
{after}"""
    return function(body, "%arg0: tensor<8x32xf32>, %arg1: tensor<32x16xf32>", result, before=MESH)


PRODUCT = """  %1 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
"""


def statements(module):
    return [(s.op, dict(s.attrs)) for s in module.entry().body if isinstance(s, Apply) and s.op.startswith("Group")]


@pytest.mark.parametrize(
    ("inside", "out", "result", "expected"),
    [
        (
            f'  %2 = "stablehlo.all_reduce"(%1) <{{replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>}}> {SUMMED} : (tensor<4x16xf32>) -> tensor<4x16xf32>\n'
            "  sdy.return %2 : tensor<4x16xf32>",
            '[{"data"}, {}]',
            "tensor<8x16xf32>",
            [("GroupAllreduce", {"size": 4, "stride": 1})],
        ),
        (
            f'  %2 = "stablehlo.reduce_scatter"(%1) <{{replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, scatter_dimension = 1 : i64}}> {SUMMED} : (tensor<4x16xf32>) -> tensor<4x4xf32>\n'
            "  sdy.return %2 : tensor<4x4xf32>",
            '[{"data"}, {"model"}]',
            "tensor<8x16xf32>",
            [("GroupReduceScatter", {"size": 4, "stride": 1, "axis": 1})],
        ),
        (
            '  %2 = "stablehlo.all_gather"(%1) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>}> : (tensor<4x16xf32>) -> tensor<8x16xf32>\n'
            "  sdy.return %2 : tensor<8x16xf32>",
            "[{}, {}]",
            "tensor<8x16xf32>",
            [("GroupAllgather", {"size": 2, "stride": 4, "axis": 0})],
        ),
        (
            '  %2 = "stablehlo.collective_permute"(%1) <{source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [3, 0], [4, 5], [5, 6], [6, 7], [7, 4]]> : tensor<8x2xi64>}> : (tensor<4x16xf32>) -> tensor<4x16xf32>\n'
            "  sdy.return %2 : tensor<4x16xf32>",
            '[{"data"}, {}]',
            "tensor<8x16xf32>",
            [("GroupShift", {"size": 4, "stride": 1, "by": 1})],
        ),
        (
            f'  %2 = "stablehlo.all_reduce"(%1) <{{replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>}}> {SUMMED.replace("add", "maximum")} : (tensor<4x16xf32>) -> tensor<4x16xf32>\n'
            "  sdy.return %2 : tensor<4x16xf32>",
            '[{"data"}, {}]',
            "tensor<8x16xf32>",
            [("GroupAllgather", {"size": 8, "stride": 1, "axis": 0})],
        ),
    ],
    ids=["all-reduce", "reduce-scatter", "all-gather", "permute", "maximum"],
)
def test_a_region_for_one_device_is_the_program_of_a_representative(tmp_path, inside, out, result, expected):
    found = imported(tmp_path, region(PRODUCT + inside, result, out))
    assert statements(found) == expected
    assert [param.type.shape for param in found.entry().params] == [(4, 8), (8, 16)]
    assert "the program is that of one of 8 devices (data=2 · model=4)" in found.notes[0]


def test_an_all_reduce_by_maximum_of_much_takes_as_long_as_one_by_sum(tmp_path):
    """`jax.lax.pmax`: each device reduces a part of the others' operands, where it gathered them all."""
    reduced = """  %2 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>}> SUMMED : (tensor<4096x2048xf32>) -> tensor<4096x2048xf32>
  sdy.return %2 : tensor<4096x2048xf32>"""
    text = region(
        reduced.replace("SUMMED", SUMMED),
        "tensor<8192x2048xf32>",
        '[{"data"}, {}]',
        "return %0 : tensor<8192x2048xf32>",
    )
    text = text.replace("4x8xf32", "4096x2048xf32").replace("8x32xf32", "8192x8192xf32")
    of_sum, of_maximum = (imported(tmp_path, text.replace("add", name)) for name in ("add", "maximum"))
    assert statements(of_maximum) == [
        ("GroupAlltoall", {"size": 8, "stride": 1}),
        ("GroupAllgather", {"size": 8, "stride": 1, "axis": 0}),
    ]
    times = [distir.simulate(module, hardware="dgx-h100").latency_s for module in (of_sum, of_maximum)]
    assert times[1] == pytest.approx(times[0], rel=0.35)


def test_a_step_along_a_pipeline_gives_the_first_stage_zeros(tmp_path):
    shift = '  %2 = "stablehlo.collective_permute"(%1) <{source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [4, 5], [5, 6], [6, 7]]> : tensor<6x2xi64>}> : (tensor<4x16xf32>) -> tensor<4x16xf32>\n  sdy.return %2 : tensor<4x16xf32>'
    found = statements(imported(tmp_path, region(PRODUCT + shift)))
    assert found[0] == ("GroupShift", {"size": 4, "stride": 1, "by": 1})
    assert found[1] == ("GroupConstant", {"values": (0.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0), "stride": 1})


def test_the_number_of_a_device_is_no_constant(tmp_path):
    inside = """  %1 = stablehlo.partition_id : tensor<ui32>
  %2 = stablehlo.convert %1 : (tensor<ui32>) -> tensor<f32>
  %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
  %4 = stablehlo.add %x, %3 : tensor<4x8xf32>
  sdy.return %4 : tensor<4x8xf32>"""
    text = region(inside, "tensor<8x32xf32>", '[{"data"}, {"model"}]', "return %0 : tensor<8x32xf32>")
    found = imported(tmp_path, text)
    assert statements(found) == [("GroupConstant", {"values": tuple(range(8)), "stride": 1})]
    assert ops(found)["Add"] == 1  # though the first device's number is 0


def test_what_is_outside_of_regions_is_done_on_whole_values(tmp_path):
    inside = PRODUCT + "  sdy.return %1 : tensor<4x16xf32>"
    after = "%9 = stablehlo.transpose %0, dims = [1, 0] : (tensor<8x16xf32>) -> tensor<16x8xf32>\nreturn %9 : tensor<16x8xf32>"
    found = imported(tmp_path, region(inside, "tensor<16x8xf32>", '[{"data"}, {}]', after, "tensor<8x16xf32>"))
    assert statements(found) == [("GroupAllgather", {"size": 2, "stride": 4, "axis": 0})]
    assert any("each device gathers" in note for note in found.notes)


def test_functions_are_each_over_the_mesh_that_they_name(tmp_path):
    def over(name, mesh, body="return %x : tensor<4xf32>"):
        sharding = f'#sdy.sharding<@{mesh}, [{{"a"}}]>'
        return f"func.func @{name}(%x: tensor<4xf32> {{sdy.sharding = {sharding}}}) -> tensor<4xf32> {{\n{body}\n}}\n"

    meshes = 'sdy.mesh @two = <["a"=2]>\nsdy.mesh @four = <["a"=4]>\nsdy.mesh @one = <[], device_ids=[0]>\n'
    unknown = "%0 = stablehlo.fft %x, type = FFT : tensor<4xf32>\nreturn %0 : tensor<4xf32>"
    found = imported(tmp_path, meshes + over("f", "two") + over("g", "four") + over("h", "two", unknown))
    assert [len(found.functions[name].params) for name in ("f", "g")] == [2, 4]
    assert "h" not in found.functions
    assert any(note.startswith("`@h` is left out: `stablehlo.fft` has no op here") for note in found.notes)


def test_a_region_has_no_program_of_one_device(tmp_path):
    with pytest.raises(
        ImportRefused, match=r"written for the devices of a mesh .*without `--one-device` and `--verify`"
    ):
        imported(tmp_path, region(PRODUCT + "  sdy.return %1 : tensor<4x16xf32>"), distribute=False)


# GSPMD.

BOTH = {
    "rows over data": ('[{"data"}, {}]', "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"),
    "columns over model": ('[{}, {"model"}]', "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"),
    "rows over both": ('[{"data", "model"}, {}]', "{devices=[8,1]<=[8]}"),
    "listed": ('[{"data"}, {"model"}]', "{devices=[2,4]0,1,2,3,4,5,6,7}"),
}


@pytest.mark.parametrize("kind", BOTH)
def test_annotations_of_gspmd_split_as_those_of_shardy(tmp_path, kind):
    shardy, gspmd = BOTH[kind]
    body = "%0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>\nreturn %0 : tensor<8x4xf32>"
    other = "{devices=[4,2]<=[2,4]T(1,0)}"
    of_shardy = f'%arg0: tensor<8x16xf32> {{sdy.sharding = #sdy.sharding<@mesh, {shardy}>}}, %arg1: tensor<16x4xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"model"}}, {{"data"}}]>}}'
    of_gspmd = (
        f'%arg0: tensor<8x16xf32> {{mhlo.sharding = "{gspmd}"}}, %arg1: tensor<16x4xf32> {{mhlo.sharding = "{other}"}}'
    )
    found = imported(tmp_path, function(body, of_gspmd, "tensor<8x4xf32>"))
    assert found == imported(tmp_path, function(body, of_shardy, "tensor<8x4xf32>", before=MESH))


def test_a_region_of_gspmd_is_that_of_shardy(tmp_path):
    inside = PRODUCT + (
        f'  %2 = "stablehlo.all_reduce"(%1) <{{replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>}}> {SUMMED} : (tensor<4x16xf32>) -> tensor<4x16xf32>\n'
    )
    before = f"  func.func private @shmap_body(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>) -> tensor<4x16xf32> {{\n{inside}  return %2 : tensor<4x16xf32>\n  }}\n"
    body = """
%0 = stablehlo.custom_call @Sharding(%arg0) {backend_config = "", mhlo.sharding = "{devices=[2,4]<=[8]}"} : (tensor<8x32xf32>) -> tensor<8x32xf32>
%1 = stablehlo.custom_call @SPMDFullToShardShape(%0) {backend_config = "", mhlo.sharding = "{manual}"} : (tensor<8x32xf32>) -> tensor<4x8xf32>
%2 = stablehlo.custom_call @Sharding(%arg1) {backend_config = "", mhlo.sharding = "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"} : (tensor<32x16xf32>) -> tensor<32x16xf32>
%3 = stablehlo.custom_call @SPMDFullToShardShape(%2) {backend_config = "", mhlo.sharding = "{manual}"} : (tensor<32x16xf32>) -> tensor<8x16xf32>
%4 = call @shmap_body(%1, %3) : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
%5 = stablehlo.custom_call @Sharding(%4) {backend_config = "", mhlo.sharding = "{manual}"} : (tensor<4x16xf32>) -> tensor<4x16xf32>
%6 = stablehlo.custom_call @SPMDShardToFullShape(%5) {backend_config = "", mhlo.sharding = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"} : (tensor<4x16xf32>) -> tensor<8x16xf32>
return %6 : tensor<8x16xf32>"""
    text = function(body, "%arg0: tensor<8x32xf32>, %arg1: tensor<32x16xf32>", "tensor<8x16xf32>", before=before)
    found = imported(tmp_path, text)
    assert statements(found) == [("GroupAllreduce", {"size": 4, "stride": 1})]
    assert [param.type.shape for param in found.entry().params] == [(4, 8), (8, 16)]


@pytest.mark.parametrize(
    "params",
    [
        '%arg0: tensor<8x4xf32> {mhlo.sharding = "{devices=[4,,1]0,1,2,3}"}',
        "%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@bad, [{}, {}]>}",
    ],
)
def test_malformed_annotations_are_refused_with_their_function(tmp_path, params):
    before = '  sdy.mesh @bad = <["a", "b"=2=3]>\n'
    with pytest.raises(ImportRefused, match=r"annotations of `@main`, and what it calls, do not fit \(.*line \d"):
        imported(tmp_path, function("return %arg0 : tensor<8x4xf32>", params, "tensor<8x4xf32>", before))


def test_an_order_of_devices_that_no_mesh_has_is_refused(tmp_path):
    body = "return %arg0 : tensor<8x4xf32>"
    params = '%arg0: tensor<8x4xf32> {mhlo.sharding = "{devices=[4,1]0,2,3,1}"}'
    with pytest.raises(ImportRefused, match="devices in another order than the axes of the mesh"):
        imported(tmp_path, function(body, params, "tensor<8x4xf32>"))


# Convolutions with elements between those of their operand, with groups of a batch; integers' bits; angles.


def convolved(window, params, result, labels="[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]", groups=(1, 1)):
    types = ", ".join(f"tensor<{shape}xf32>" for shape in params)
    body = (
        f"%0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = {labels}, window = {{{window}}} "
        f"{{batch_group_count = {groups[0]} : i64, feature_group_count = {groups[1]} : i64}} : ({types}) -> tensor<{result}xf32>\n"
        f"return %0 : tensor<{result}xf32>"
    )
    given = ", ".join(f"%arg{i}: tensor<{shape}xf32>" for i, shape in enumerate(params))
    return function(body, given, f"tensor<{result}xf32>")


def plainly(x, w, low, high, stride=1, spread=1, gap=1, reverse=False):
    """A convolution along one dimension: `x` is (batch, places, channels), `w` (places, channels, features)."""
    wide = np.zeros((x.shape[0], (x.shape[1] - 1) * spread + 1, x.shape[2]))
    wide[:, ::spread] = x
    wide = np.pad(wide, ((0, 0), (max(low, 0), max(high, 0)), (0, 0)))
    wide = wide[:, max(-low, 0) : wide.shape[1] - max(-high, 0)]
    kernel = w[::-1] if reverse else w
    count = (wide.shape[1] - (len(w) - 1) * gap - 1) // stride + 1
    return np.stack([sum(wide[:, i * stride + k * gap] @ kernel[k] for k in range(len(w))) for i in range(count)], 1)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("low", "high", "stride", "spread", "gap"),
    [(1, 2, 1, 2, 1), (2, 2, 1, 3, 2), (4, 5, 1, 2, 1), (0, 0, 1, 2, 1), (-1, 1, 1, 1, 1), (-2, -1, 2, 1, 1)],
)
def test_a_convolution_of_what_is_spread_or_cut(tmp_path, low, high, stride, spread, gap, reverse):
    """As jax writes gradients of convolutions with strides, and `conv_transpose`; the second dimension is one."""
    x, w = random(2, 7, 3), random(3, 3, 4)
    expected = plainly(x, w, low, high, stride, spread, gap, reverse)
    window = (
        f"stride = [{stride}, 1], pad = [[{low}, {high}], [0, 0]], lhs_dilate = [{spread}, 1], "
        f"rhs_dilate = [{gap}, 1], reverse = [{str(reverse).lower()}, false]"
    )
    text = convolved(window, ("2x7x1x3", "3x1x3x4"), f"2x{expected.shape[1]}x1x4")
    found = imported(tmp_path, text)
    assert ops(found)["ConvTranspose" if spread > 1 else "Conv"] == 1
    given = run(found, x[:, :, None], w[:, None])[0]
    np.testing.assert_allclose(given[:, :, 0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("spread", [1, 2])
def test_groups_of_channels_and_of_a_batch_have_weights_of_their_own(tmp_path, spread):
    x, w = random(4, 5, 3), random(2, 3, 6)
    by_batch = [plainly(x[2 * i : 2 * i + 2], w[..., 3 * i : 3 * i + 3], 1, 1, spread=spread) for i in range(2)]
    expected = np.concatenate(by_batch, 2)
    window = f"pad = [[1, 1], [0, 0]], lhs_dilate = [{spread}, 1]"
    text = convolved(window, ("4x5x1x3", "2x1x3x6"), f"2x{expected.shape[1]}x1x6", groups=(2, 1))
    given = run(imported(tmp_path, text), x[:, :, None], w[:, None])[0]
    np.testing.assert_allclose(given[:, :, 0], expected, rtol=1e-4, atol=1e-5)

    x = random(2, 5, 6)
    by_channel = [plainly(x[..., 3 * i : 3 * i + 3], w[..., 3 * i : 3 * i + 3], 1, 1, spread=spread) for i in range(2)]
    expected = np.concatenate(by_channel, 2)
    text = convolved(window, ("2x5x1x6", "2x1x3x6"), f"2x{expected.shape[1]}x1x6", groups=(1, 2))
    given = run(imported(tmp_path, text), x[:, :, None], w[:, None])[0]
    np.testing.assert_allclose(given[:, :, 0], expected, rtol=1e-4, atol=1e-5)


def test_the_gradient_of_a_maximum_over_windows(tmp_path):
    """As `jax.grad` writes it of `reduce_window`, which `flax.linen.max_pool` is."""
    body = """
%c = stablehlo.constant dense<0.0> : tensor<f32>
%0 = "stablehlo.select_and_scatter"(%arg0, %arg1, %c) <{padding = dense<0> : tensor<4x2xi64>, window_dimensions = array<i64: 1, 2, 2, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
^bb0(%a: tensor<f32>, %b: tensor<f32>):
  %9 = stablehlo.compare GE, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
  stablehlo.return %9 : tensor<i1>
}, {
^bb0(%a: tensor<f32>, %b: tensor<f32>):
  %9 = stablehlo.add %a, %b : tensor<f32>
  stablehlo.return %9 : tensor<f32>
}) : (tensor<2x4x6x3xf32>, tensor<2x2x3x3xf32>, tensor<f32>) -> tensor<2x4x6x3xf32>
return %0 : tensor<2x4x6x3xf32>"""
    params = "%arg0: tensor<2x4x6x3xf32>, %arg1: tensor<2x2x3x3xf32>"
    found = imported(tmp_path, function(body, params, "tensor<2x4x6x3xf32>"))
    assert ops(found)["MaxPoolGrad"] == 1
    x, dy = random(2, 4, 6, 3), random(2, 2, 3, 3)
    most = x.reshape(2, 2, 2, 3, 2, 3).max((2, 4)).repeat(2, 1).repeat(2, 2)
    expected = np.where(x == most, dy.repeat(2, 1).repeat(2, 2), 0)
    np.testing.assert_array_equal(run(found, x, dy)[0], expected)
    least = body.replace("compare GE", "compare LE")
    with pytest.raises(ImportRefused, match="but to the greatest"):
        imported(tmp_path, function(least, params, "tensor<2x4x6x3xf32>"))


BITS = """
%c = stablehlo.constant dense<3> : tensor<6xTYPE>
%0 = stablehlo.and %arg0, %c : tensor<6xTYPE>
%1 = stablehlo.or %arg0, %c : tensor<6xTYPE>
%2 = stablehlo.xor %arg0, %c : tensor<6xTYPE>
%3 = stablehlo.not %arg0 : tensor<6xTYPE>
%4 = stablehlo.shift_left %arg0, %c : tensor<6xTYPE>
%5 = stablehlo.shift_right_KIND %arg0, %c : tensor<6xTYPE>
return %0, %1, %2, %3, %4, %5 : RESULTS"""


def bits(type, kind):
    results = ", ".join(f"tensor<6x{type}>" for _ in range(6))
    body = BITS.replace("TYPE", type).replace("KIND", kind).replace("RESULTS", results)
    return function(body, f"%arg0: tensor<6x{type}>", f"({results})")


@pytest.mark.parametrize(
    ("type", "dtype", "kind"),
    [("i32", np.int32, "arithmetic"), ("i8", np.int8, "arithmetic"), ("ui8", np.uint8, "logical")],
)
def test_bits_of_integers(tmp_path, type, dtype, kind):
    """As weights of four bits are unpacked."""
    x = np.array([0, 1, 7, 100, -9, -128]).astype(dtype)
    by = dtype(3)
    for found, expected in zip(
        run(imported(tmp_path, bits(type, kind)), x), [x & by, x | by, x ^ by, ~x, x << by, x >> by], strict=True
    ):
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == dtype


def test_bits_that_may_be_random_and_shifts_of_unknown_size_are_refused(tmp_path):
    """What is made of random keys is not followed: nothing that is computed of it may look as if it were."""
    with pytest.raises(ImportRefused, match="of UInt32 has no op here"):
        imported(tmp_path, bits("ui32", "logical"))
    with pytest.raises(ImportRefused, match=r"shift_right_logical` of Int32"):
        imported(tmp_path, bits("i32", "logical"))
    with pytest.raises(ImportRefused, match="by another than a known number of bits"):
        imported(tmp_path, bits("ui8", "logical").replace("dense<3>", "dense<8>"))


@pytest.mark.parametrize(
    ("operation", "computed"),
    [
        ("stablehlo.cbrt %arg0", lambda x, y: np.cbrt(x)),
        ("stablehlo.round_nearest_afz %arg0", lambda x, y: np.sign(x) * np.floor(np.abs(x) + 0.5)),
        ("stablehlo.atan2 %arg0, %arg1", lambda x, y: np.arctan2(x, y)),
        ("chlo.asinh %arg0", lambda x, y: np.arcsinh(x)),
        ("chlo.sinh %arg0", lambda x, y: np.sinh(x)),
        ("chlo.atan %arg0", lambda x, y: np.arctan(x)),
    ],
)
def test_functions_of_a_number(tmp_path, operation, computed):
    x = np.array([0, 0.5, -0.5, 1.5, -2.5, 2, -3, 0.25], np.float32)
    y = np.array([0, 1, 0, -1, -2, -0.0, 2, -0.5], np.float32)
    body = f"%0 = {operation} : tensor<8xf32>\nreturn %0 : tensor<8xf32>"
    text = function(body, "%arg0: tensor<8xf32>, %arg1: tensor<8xf32>", "tensor<8xf32>")
    found = run(imported(tmp_path, text), x, y)[0]
    np.testing.assert_allclose(found, computed(x, y), rtol=1e-6, atol=1e-7)
