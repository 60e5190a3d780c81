"""Attention on gloo ranks: a training step, and a step of a decoder with its cache, give what the executor does."""

import pytest
from lowering_samples import assert_close, entry, from_torch, lowered_program, to_torch
from worker_pool import Pool

import distir
from distir.analysis import execute, random_inputs, result_names
from distir.lower import tensorfile
from distir.lower.folder import lower

pytest.importorskip("torch")

LAYER = """func @main(
  %x: Tensor[Float32, (4, {tokens}, 16), 1] {{batch = 0}},
  %wq: Tensor[Float32, (16, 32), 1] {{param}}, %wk: Tensor[Float32, (16, 16), 1] {{param}},
  %wv: Tensor[Float32, (16, 8), 1] {{param}}, %wo: Tensor[Float32, (16, 16), 1] {{param}},
  %sinks: Tensor[Float32, (4,), 1] {{param}}
) {{
  %q = MatMul(%x, %wq)
  %k = MatMul(%x, %wk)
  %v = MatMul(%x, %wv)
  %a = Attention[q_num_heads = 4, kv_num_heads = 2{attrs}](%q, %k, %v{sinks})
  %y = MatMul(%a, %wo)
  return %y
}}
"""

DECODE = """func @main(
  %x: Tensor[Float32, (4, 1, 16), 1] {batch = 0},
  %keys: Tensor[Float32, (4, 9, 16), 1] {batch = 0, state}, %values: Tensor[Float32, (4, 9, 8), 1] {batch = 0, state},
  %wq: Tensor[Float32, (16, 32), 1] {param}, %wk: Tensor[Float32, (16, 16), 1] {param},
  %wv: Tensor[Float32, (16, 8), 1] {param}, %wo: Tensor[Float32, (16, 16), 1] {param}
) {
  %q = MatMul(%x, %wq)
  %k = MatMul(%x, %wk)
  %v = MatMul(%x, %wv)
  %new_keys = TensorScatter[axis = 1](%keys, %k, 5)
  %new_values = TensorScatter[axis = 1](%values, %v, 5)
  %a = Attention[q_num_heads = 4, kv_num_heads = 2, is_causal = true](%q, %new_keys, %new_values, _, _, 6)
  %y = MatMul(%a, %wo)
  return %y, %new_keys, %new_values
}
"""


def trained(attrs, sinks="", tokens=6):
    return distir.transform(
        distir.parse(LAYER.format(attrs=attrs, sinks=sinks, tokens=tokens)), "grad", "loss=mse", "lr=0.1"
    )


PROGRAMS = {
    "causal": trained(", is_causal = true"),
    "window and sinks": trained(", is_causal = true, window = 2", ", _, %sinks"),
    "softcap, everywhere": trained(", softcap = 2.0"),
    "decode": distir.parse(DECODE),
}


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    folder = tmp_path_factory.mktemp("first")
    lower([entry(distir.transform(PROGRAMS["decode"], "dp=2", "tp=2"))]).write(folder)
    pool = Pool(4, folder)
    yield pool
    pool.close()


@pytest.mark.parametrize("name", PROGRAMS)
def test_ranks_give_what_the_executor_does(pool, tmp_path, name):
    module = distir.transform(PROGRAMS[name], "dp=2", "tp=2")
    inputs = random_inputs(module, 0, {}, "main")
    lower([entry(module)]).write(tmp_path)
    tensorfile.write(tmp_path / "inputs.safetensors", inputs)
    pool.run(tmp_path)
    found = {}
    for rank in range(4):
        found |= tensorfile.read(tmp_path / f"results.{rank}.safetensors")
    names = result_names(module.functions["main"])
    for each, output in zip(names, execute(module, inputs), strict=True):
        assert_close(found[each], output.value, output.type, each)


def test_sequences_of_more_than_a_block_of_queries(tmp_path):
    module = trained(", is_causal = true, window = 200", ", _, %sinks", tokens=600)
    inputs = random_inputs(module, 0, {}, "main")
    program = lowered_program([entry(module)], tmp_path)
    found = program.call("main", [to_torch(value) for value in inputs.values()])
    for value, output in zip(found, execute(module, inputs), strict=True):
        assert_close(from_torch(value), output.value, output.type)
