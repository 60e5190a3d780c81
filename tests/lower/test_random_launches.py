"""Random programs on gloo ranks: none hangs, and each gives what the reference executor does.

`DISTIR_TEST_LAUNCHES` says how many there are (500 in `make test-all`).
"""

import os

import numpy as np
import pytest
from communicating_programs import random_program
from lowering_samples import assert_close, entry, is_sound, reference
from worker_pool import Pool

from distir import parse, transform
from distir.ir import DTYPES, Apply, Attributes, Function, Module, Param, Return, TensorType, TupleType
from distir.lower import tensorfile
from distir.lower.folder import lower
from distir.ops import numpy_dtype

pytest.importorskip("torch")

COUNT = int(os.environ.get("DISTIR_TEST_LAUNCHES", "40"))
RANKS = 4


def values_of(module, seed):
    """Whole numbers, of which every order of summing gives the same."""
    rng = np.random.default_rng(seed)
    params = module.functions["main"].params
    return {p.name: rng.integers(0, 3, p.type.shape).astype(numpy_dtype(p.type.dtype)) for p in params}


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    folder = tmp_path_factory.mktemp("first")
    lower([entry(random_program(0))]).write(folder)
    pool = Pool(RANKS, folder)
    yield pool
    pool.close()


@pytest.mark.parametrize("seed", range(COUNT))
def test_a_random_program_comes_to_its_end(pool, tmp_path, seed):
    module = random_program(seed)
    assert is_sound(module)
    lowered = lower([entry(module)], more={"may_idle": True})
    lowered.write(tmp_path)
    inputs = values_of(module, seed)
    tensorfile.write(tmp_path / "inputs.safetensors", inputs)
    pool.run(tmp_path)
    found = {}
    for rank in range(len(lowered.ranks)):
        found |= tensorfile.read(tmp_path / f"results.{rank}.safetensors")
    names = [f"{r['name']}" for r in result_names(lowered)]
    assert names
    for name, value, stated in flat(module, inputs):
        assert_close(found[name], value, stated, f"seed {seed}, {name}")


def test_transfers_on_two_streams_both_ways_come_to_their_end(pool, tmp_path):
    """More than may be begun at once, and sums of one group in between."""
    x, y = (TensorType(DTYPES["Float32"], (4,), device) for device in (1, 2))
    body, sums = [], ["x", "y"]
    for i in range(20):
        body.append(Apply((f"a{i}",), "Send", ("x",), Attributes({"device": 2}), stream="there"))
        body.append(Apply((f"b{i}",), "Send", ("y",), Attributes({"device": 1}), stream="back"))
        if i % 5 == 0:
            body.append(Apply((f"s{i}", f"t{i}"), "MPIAllreduce", tuple(sums), stream=("there", "back")[i % 2]))
            sums = [f"s{i}", f"t{i}"]
    body += [Apply(("l",), "Sum", ("x", *(f"b{i}" for i in range(20)))), Return(("l", *sums))]
    module = Module([Function("main", (Param("x", x), Param("y", y)), tuple(body))])
    lower([entry(module)], more={"may_idle": True}).write(tmp_path)
    tensorfile.write(tmp_path / "inputs.safetensors", values_of(module, 1))
    pool.run(tmp_path)
    found = tensorfile.read(tmp_path / "results.0.safetensors")
    expected = reference(module, values_of(module, 1))
    assert_close(found["l"], expected[0][0], x)
    assert_close(found["s15"], expected[1][0], x)


MLP = """
func @dense(%w, %x) {
  %h = MatMul(%x, %w)
  %a = Relu(%h)
  return %a
}

func @main(
  %w1: Tensor[Float32, (8, 8), 1] {param}, %w2: Tensor[Float32, (8, 8), 1] {param},
  %w3: Tensor[Float32, (8, 8), 1] {param}, %w4: Tensor[Float32, (8, 8), 1] {param},
  %w5: Tensor[Float32, (8, 8), 1] {param}, %w6: Tensor[Float32, (8, 8), 1] {param},
  %w7: Tensor[Float32, (8, 8), 1] {param}, %w8: Tensor[Float32, (8, 8), 1] {param},
  %x: Tensor[Float32, (16, 8), 1] {batch = 0}
) {
  %a = @dense(%w1, %x)
  %b = @dense(%w2, %a)
  %c = @dense(%w3, %b)
  %d = @dense(%w4, %c)
  %e = @dense(%w5, %d)
  %f = @dense(%w6, %e)
  %g = @dense(%w7, %f)
  %h = @dense(%w8, %g)
  return %h
}
"""


@pytest.mark.each_once
@pytest.mark.parametrize("degrees", ["dtp=1,1,4", "dtp=1,2,2", "dtp=2,1,2"])
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "interleaved virtual=2", "zb-h1", "zb-v"])
def test_a_pipeline_whose_transfers_are_aside_comes_to_its_end(pool, tmp_path, schedule, degrees):
    steps = f"grad loss=mse optimizer=sgd {degrees} microbatches=8 scatter_gather=true schedule={schedule} "
    module = transform(parse(MLP), *f"{steps} overlap=transfers".split())
    assert {s.stream for s in module.functions["main"].body if getattr(s, "op", "") == "Send"} >= {"forward"}
    lowered = lower([entry(module)], more={"may_idle": True})
    lowered.write(tmp_path)
    inputs = {name: value / 8 for name, value in values_of(module, 1).items()}
    tensorfile.write(tmp_path / "inputs.safetensors", inputs)
    pool.run(tmp_path)
    found = {}
    for rank in range(len(lowered.ranks)):
        found |= tensorfile.read(tmp_path / f"results.{rank}.safetensors")
    for name, value, stated in flat(module, inputs):
        assert_close(found[name], value, stated, name)


def result_names(lowered):
    return [r for part in lowered.manifest["entries"]["main"].values() for r in part["results"]]


def flat(module, inputs):
    from distir.analysis import result_names as named

    names = named(module.functions["main"])
    for name, (value, stated) in zip(names, reference(module, inputs), strict=True):
        yield from leaves(name, value, stated)


def leaves(name, value, stated):
    if isinstance(stated, TupleType):
        for i, (item, inner) in enumerate(zip(value, stated.items, strict=True)):
            yield from leaves(f"{name}.{i}", item, inner)
    else:
        yield name, value, stated


def test_the_programs_communicate_in_every_way():
    ops = {s.op for seed in range(100) for f in random_program(seed) for s in f.body if hasattr(s, "op")}
    assert {n for n in ops if n.startswith("MPI") or n == "Send"} == {
        *("Send", "MPIBroadcast", "MPIScatter", "MPIGather", "MPIAllgather", "MPIReduce", "MPIAllreduce"),
        *("MPIReduceScatter", "MPIAlltoall"),
    }
    assert DTYPES
