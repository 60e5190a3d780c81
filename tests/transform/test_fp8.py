"""Products in 8-bit floats: what they give, what they cost, and the same in distributed programs."""

from collections import Counter
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from sharding_samples import statements
from thorough import also, also_together

import distir
from distir.analysis import check, execute, random_inputs
from distir.cost import load
from distir.diagnostics import ProgramError
from distir.ir import DTYPES, Call, Module
from distir.models import gpt2, named
from distir.ops import OPS, run
from distir.simulate import simulate
from distir.transform import transform, verify
from distir.transform.steps import StepError

E4M3, E5M2, FLOAT32 = (DTYPES[name] for name in ("Float8E4M3FN", "Float8E5M2", "Float32"))


def gpt(**sizes):
    given = {"batch": 8, "vocabulary": 32, "dtype": "Float32", "positions": 8}
    return gpt2(2, 16, 4, 8, **{**given, **sizes})


def quantised(x, block, to=E4M3):
    return run(OPS["QuantizeFloat8"], [x], {"to": to, "block": block}, 2)


@pytest.mark.parametrize(("to", "largest"), [(E4M3, 448.0), (E5M2, 57344.0)])
@pytest.mark.parametrize("block", [(), (1, 4), (4, 1), (3, 5), (128, 128), (7, 0), (1, 0, 0), (2, 0, 0)])
def test_a_scale_is_the_greatest_of_its_block_by_the_largest_number(to, largest, block):
    x = np.random.default_rng(0).normal(size=(2, 7, 10)).astype(np.float32)
    x[0, :, :5] = 0
    q, scale = quantised(x, block, to)
    if len(block) == 3:  # whole examples
        expected = np.abs(x).reshape(-1, block[0], 7, 10).max((1, 2, 3)) / np.float32(largest)
        assert (scale.ravel() == expected).all()
        assert scale.shape == (2 // block[0], 1, 1)
        return
    rows, columns = (size or n for size, n in zip(block or x.shape[-2:], x.shape[-2:], strict=True))
    for k in range(2):
        for i in range(0, 7, rows):
            for j in range(0, 10, columns):
                part = x[k, i : i + rows, j : j + columns] if block else x
                own = scale[k, i // rows, j // columns] if block else scale
                greatest = np.abs(part).max()
                assert own == (np.float32(greatest) / np.float32(largest) if greatest else 1)
    back = run(OPS["DequantizeFloat8"], [q, scale], {"to": FLOAT32, "block": block}, 1)[0]
    bits = 4 if to is E4M3 else 3
    smallest = (np.abs(x).max() / largest) * float(ml_dtypes.finfo(q.dtype).smallest_subnormal)
    assert (np.abs(back - x) <= np.abs(x) * 2.0**-bits + smallest).all()


def test_a_product_sums_in_float32():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(5, 8)).astype(np.float32), rng.normal(size=(8, 6)).astype(np.float32)
    (qa, sa), (qb, sb) = quantised(a, (1, 4)), quantised(b, (4, 4))
    given = {"to": FLOAT32, "transA": False, "transB": False, "block_a": (1, 4), "block_b": (4, 4)}
    (found,) = run(OPS["ScaledMatMul"], [qa, qb, sa, sb], given, 1)
    wide_a, wide_b = (
        run(OPS["DequantizeFloat8"], [q, s], {"to": FLOAT32, "block": block}, 1)[0]
        for q, s, block in ((qa, sa, (1, 4)), (qb, sb, (4, 4)))
    )
    np.testing.assert_allclose(found, wide_a @ wide_b, rtol=1e-6)
    assert np.abs(found - a @ b).max() < 0.05 * np.abs(a @ b).max()


CHAINS = {
    "fp8 block=4": [
        "dp=2",
        "tp=2",
        "tp=2 sequence=true",
        "pp=2 microbatches=2",
        "accumulate=2 dp=2 zero=1",
        "dtp=2,2,2 microbatches=2",
        "checkpoint dp=2",
        "dtp=2,1,2 microbatches=4 schedule=gpipe zero=3 partition=split",
        "dp=4 zero=3 partition=split shard=2",
    ],
    "fp8=mx block=4": ["dp=2", "tp=2 sequence=true", "tp=2 dp=2 zero=3", "dtp=2,2,2 microbatches=2"],
    "fp8=tensor": ["dp=2", "tp=2", "tp=2 dp=2 zero=3"],
    "fp8=tensor micro_batch=2": [
        "dp=4",
        "tp=2",
        "tp=2 sequence=true",
        "tp=2 dp=2 zero=3",
        "pp=2 microbatches=2",
        "pp=2 microbatches=4 schedule=zb-h1",
        "accumulate=2 dp=2 zero=2",
        "dtp=2,2,2 microbatches=2",
        "checkpoint dp=2",
    ],
    "fp8=delayed history=4": [
        "dp=2",
        "tp=2",
        "tp=2 sequence=true",
        "tp=2 dp=2 zero=3",
        "pp=2 microbatches=2",
        "pp=2 microbatches=4 schedule=zb-h1",
        "accumulate=2 dp=2 zero=1",
        "accumulate=2 dp=2 zero=3 partition=split",
        "dtp=2,2,2 microbatches=2",
        "dtp=2,1,2 microbatches=2 zero=3",
        "checkpoint dp=2",
    ],
}


def cases():
    """Each scaling with some of its chains, and with DISTIR_TEST_ALL=1 with the others, which further scalings have."""
    for first, (scaling, chains) in enumerate(CHAINS.items()):
        for number, chain in enumerate(chains):
            more = number % 3 != first % 3 and "partition" not in chain
            yield from also_together((scaling, chain)) if more else [(scaling, chain)]


@pytest.mark.by_turns
@pytest.mark.parametrize(("scaling", "chain"), list(cases()))
def test_distributed_programs_give_the_same(scaling, chain):
    step = transform(gpt(), *scaling.split(), "grad")
    assert verify(step, transform(step, *chain.split())).equal


@pytest.mark.parametrize("chain", ["accumulate=2 dp=2", *also("pp=2 microbatches=2", "dp=2")])
@pytest.mark.parametrize("scaling", ["fp8=mx", *also("fp8=block")])
def test_microbatches_cut_no_blocks_of_a_batch_of_any_size(scaling, chain):
    """Gradients of weights are of blocks of 32 tokens, 4 examples, whatever the batch is."""
    step = transform(gpt(batch=None), scaling, "block=32", "grad")
    assert verify(step, transform(step, *chain.split()), bind={"B": 4}).equal


def test_shards_quantise_a_dimension_of_one_block_as_a_part_of_one():
    step = transform(gpt(), "fp8=block", "block=64", "grad")
    program = transform(step, "tp=2")
    assert verify(step, program).equal
    larger = transform(gpt(), "fp8=block", "block=65", "grad", "tp=2", "inline")
    assert len(statements(transform(program, "inline"), "MPIAllreduce")) == len(statements(larger, "MPIAllreduce"))


def stepped(module, times):
    """A training step so many times: its inputs, with the state that it hands on, and its results."""
    entry = module.entry()
    inputs = random_inputs(module, 0, {})
    inputs |= {p.name: np.zeros_like(inputs[p.name]) for p in entry.params if p.name.endswith(".history")}
    for _ in range(times):
        found = {output.name: output.value for output in execute(module, inputs)}
        yield inputs, found
        inputs = inputs | {p.name: found[f"{p.name}_new"] for p in entry.params if f"{p.name}_new" in found}


def test_delayed_scales_follow_what_was_greatest_in_the_last_steps():
    text = """
        func @layer(%x, %w) {
          %y = MatMul(%x, %w)
          return %y
        }
        func @main(%x: Tensor[Float32, (8, 4), 1] {batch = 0}, %w: Tensor[Float32, (4, 4), 1] {param}) {
          %y = @layer(%x, %w)
          return %y
        }"""
    step = transform(distir.parse(text), "fp8=delayed", "history=2", "grad", "loss=mse", "lr=0.5")
    seen = list(stepped(step, 4))
    for inputs, found in seen:
        history, x, w = (inputs[name] for name in ("y.history", "x", "w"))
        new = found["y.history_new"]
        assert new[0, 0] == np.abs(x).max()
        assert new[1, 0] == np.abs(w).max()
        assert (new[:, 1] == history[:, 0]).all()
        expected = history.max(1) / np.float32([448, 448, 57344])
        scale = np.where(expected > 0, expected, 1)
        qx, qw = (np.clip(a / s, -448, 448).astype(ml_dtypes.float8_e4m3fn) for a, s in ((x, scale[0]), (w, scale[1])))
        y = (qx.astype(np.float32) * np.float32(scale[0])) @ (qw.astype(np.float32) * np.float32(scale[1]))
        loss = next(iter(found.values()))
        np.testing.assert_allclose(loss, ((y - inputs["target"]) ** 2).mean(), rtol=1e-5)
        np.testing.assert_allclose(new[2, 0], np.abs(2 * (y - inputs["target"]) / y.size).max(), rtol=1e-5)


def test_delayed_scaling_is_near_to_none_once_its_histories_are_filled():
    plain, delayed = (transform(gpt(), *words, "grad") for words in ((), ("fp8=delayed", "history=4")))
    (inputs, first), (after, _) = stepped(delayed, 2)
    again = {name: after[name] if name.endswith(".history") else value for name, value in inputs.items()}
    expected = execute(plain, random_inputs(plain, 0, {}))
    found = {output.name: output.value for output in execute(delayed, again)}
    far = [[np.abs(a.value - given[a.name]).max() for a in expected] for given in (first, found)]
    assert sum(far[1]) < sum(far[0])
    assert all(off <= 0.02 * max(0.1, np.abs(a.value).max()) for off, a in zip(far[1], expected, strict=True))


LLAMA = {"width": 32, "heads": 4, "kv_heads": 2, "head_size": 8, "ffn": 32, "vocabulary": 32, "batch": 4}


def llama_step(sequence, *scaling):
    """The training step of one layer of Llama 3, in 16 bits but for what `scaling` says."""
    model = named("llama3-8b", layers=1, sequence=sequence, dtype="BFloat16", **LLAMA)
    return transform(model, *scaling, "grad")


def gathered(module, nbytes):
    """How often values of a type of so many bytes and of a shape are gathered, calls written out."""
    inlined = transform(module, "inline")
    state = check(inlined).states["main"]
    types = [state[s.results[0]] for s in statements(inlined, "MPIAllgather")]
    return Counter((t.dtype.name, t.shape) for t in types if t.dtype.bytes == nbytes)


@pytest.mark.parametrize("chain", ["cp=2", *also("cp=2 cp_kind=ring", "dtp=2,1,1 microbatches=2 context=2 zero=1")])
def test_parts_of_sequences_are_quantised_where_they_are(chain):
    """Blocks of 4 tokens lie within each of the 4 parts of 16: only what attention takes is gathered."""
    without, step = llama_step(16), llama_step(16, "fp8=mx", "block=4")
    program = transform(step, *chain.split())
    assert verify(step, program).equal
    assert gathered(program, 2) == gathered(transform(without, *chain.split()), 2)
    assert not gathered(program, 1)


def test_parts_of_sequences_that_cut_blocks_are_gathered():
    step = llama_step(8, "fp8=mx", "block=4")
    program = transform(step, "cp=2")
    assert verify(step, program).equal
    assert gathered(program, 2) != gathered(transform(llama_step(8), "cp=2"), 2)


def test_functions_within_layers_are_of_the_sizes_that_they_are_called_with():
    """An outlined function that states the sizes of a part holds for this batch alone, and so do its callers."""
    sizes = {**LLAMA, "layers": 1, "sequence": 8, "dtype": "Float32"}
    step = transform(named("qwen3-8b", **sizes), "fp8=block", "block=4", "outline=3", "grad")
    assert verify(step, transform(step, "cp=2", "cp_kind=a2a")).equal


@pytest.mark.parametrize("chain", ["tp=2 sequence=true", *also("cp=2 tp=2 sequence=true")])
def test_shards_gather_tokens_in_8_bits(chain):
    """For gradients of weights, too, as Transformer Engine does; in 16 bits only what the head multiplies."""
    step = llama_step(32, "fp8=mx", "block=4")
    program = transform(step, *chain.split())
    assert verify(step, program).equal
    shapes = {shape for _, shape in gathered(program, 1)}
    contexts = 2 if "cp=2" in chain else 1
    assert shapes == {(4, 32 // contexts, LLAMA["width"])}
    assert sum(n for (_, shape), n in gathered(program, 2).items() if shape in shapes) == contexts


def test_histories_are_buffers_whose_memory_is_used_again():
    step = transform(gpt(), "fp8=delayed", "grad")
    histories = [p for p in step.entry().params if p.name.endswith(".history")]
    assert [p.type.shape for p in histories] == [(12, 1024)] * 2
    assert all("buffer" in p.roles for p in histories)
    assert len(step.entry().returned) == len(transform(gpt(), "grad").entry().returned) + 2


def test_one_scale_of_all_devices_takes_a_number_of_each():
    """Activations are not gathered for it."""
    module = transform(gpt(), "fp8=tensor", "grad", "dp=2")
    checked = check(module)
    calls = [s for s in module.entry().body if isinstance(s, Call)]
    state = checked.states[module.entry().name]
    inner = [checked.domain.instance(s.function, state(s.args)) for s in calls]
    gathered = [i.state[s.results[0]] for i in inner for s in i.function.body if getattr(s, "op", "") == "MPIAllgather"]
    assert gathered
    assert {t.elements for t in gathered} == {2}


def test_layers_in_layers_are_written_into_what_the_program_calls():
    text = """
        func @dense(%x, %w) {
          %y = MatMul(%x, %w)
          return %y
        }
        func @layer(%x, %w, %v) {
          %h = @dense(%x, %w)
          %y = @dense(%h, %v)
          return %y
        }
        func @main(%x: Tensor[Float32, (8, 4), 1] {batch = 0}, %w: Tensor[Float32, (4, 4), 1] {param},
                   %v: Tensor[Float32, (4, 4), 1] {param}) {
          %y = @layer(%x, %w, %v)
          return %y
        }"""
    step = transform(distir.parse(text), "fp8=delayed", "grad", "loss=mse")
    assert [p.type.shape for p in step.entry().params if p.name.endswith(".history")] == [(6, 1024)]
    assert verify(step, transform(step, "dp=2")).equal
    flat = transform(
        distir.parse(FLAT.replace("%c, %c2", "%c, %w").replace("%a, %w, %w", "%a, %w")),
        "fp8=delayed",
        "grad",
        "loss=mse",
    )
    assert [p.type.shape for p in flat.entry().params if p.name.endswith(".history")] == [(5, 1024)]
    assert verify(flat, transform(flat, "dp=2")).equal


@pytest.mark.parametrize("steps", [("accumulate=12",), ("dtp=1,1,2", "microbatches=12")])
def test_delayed_scales_are_those_of_the_whole_batch_in_many_microbatches(steps):
    """Where rounds of microbatches are functions, too: what is found of weights is the same in each."""
    step = transform(gpt2(2, 16, 2, 4, batch=24, vocabulary=32, dtype="Float32"), "fp8=delayed", "grad", "loss=mse")
    distributed = transform(step, *steps)
    assert "round" in distributed.functions
    assert verify(step, distributed).equal


@pytest.mark.by_turns
@pytest.mark.parametrize(
    ("steps", "axes"),
    [("tp=2", 1), ("dp=2", 1), ("accumulate=2 dp=2", 1), ("tp=2 sequence=true", 1), ("dtp=2,2,1 microbatches=2", 2)],
)
def test_what_was_greatest_on_several_devices_is_found_at_once_for_each_layer(steps, axes):
    """Not tensor by tensor, nor in layers: as Transformer Engine reduces it."""
    step, plain = (transform(gpt(), *words, "grad", "loss=mse") for words in (("fp8=delayed", "history=4"), ()))
    made = transform(step, *steps.split(), "inline")
    assert verify(step, made).equal
    more, before = (len(statements(m, "MPIAllgather")) for m in (made, transform(plain, *steps.split(), "inline")))
    groups = 2 if axes == 2 else 1  # along one axis there is a collective for each place along the other
    assert more - before == 2 * axes * groups


def test_one_scale_per_tensor_is_no_scale_per_microbatch():
    step = transform(gpt(), "fp8=tensor", "grad")
    with pytest.raises(ProgramError) as caught:
        transform(step, "pp=2", "microbatches=2")
    (note,) = caught.value.diagnostics[0].notes
    assert "`QuantizeFloat8` cannot be computed by microbatches" in str(note)
    assert "`fp8=tensor micro_batch=N`" in str(caught.value.diagnostics[0])


def test_microbatches_of_their_own_scales_are_steps_by_themselves():
    """The gradients are the means of those of each microbatch alone, which has one scale per tensor."""
    words = ("grad", "optimizer=none")
    together = transform(gpt(), "fp8=tensor", "micro_batch=2", *words, "accumulate=2", "dp=2")
    whole = transform(gpt(), "fp8=tensor", "micro_batch=2", *words)
    alone = transform(gpt(batch=2), "fp8=tensor", *words)
    assert verify(whole, together).equal
    inputs = random_inputs(whole, 0, {})
    batch = {p.name for p in whole.entry().params if "batch" in p.roles}
    parts = [inputs | {name: inputs[name][k : k + 2] for name in batch} for k in range(0, 8, 2)]
    each = [[output.value for output in execute(alone, part)] for part in parts]
    for found, own in zip(execute(whole, inputs), zip(*each, strict=True), strict=True):
        np.testing.assert_allclose(found.value, np.mean(own, axis=0), rtol=1e-4, atol=1e-6)
    other = execute(transform(gpt(), "fp8=tensor", *words), inputs)
    assert any(np.abs(a.value - b.value).max() > 1e-4 for a, b in zip(execute(whole, inputs), other, strict=True))


def test_microbatches_of_their_own_scales_are_those_of_a_sequence_and_of_experts():
    sizes = {"width": 16, "heads": 4, "kv_heads": 2, "head_size": 4, "vocabulary": 32, "sequence": 8, "experts": 4}
    model = named("mixtral-8x7b", layers=2, batch=8, expert_ffn=16, top_k=2, dtype="Float32", **sizes)
    step = transform(model, "fp8=tensor", "micro_batch=2", "grad", "precision=mixed")
    for chain in ("cp=2", "dtp=2,1,1 microbatches=2 context=2", "dtp=2,2,1 microbatches=2 experts=2"):
        assert verify(step, transform(step, *chain.split())).equal, chain


def test_examples_of_their_own_scales_are_those_of_a_batch_of_any_size():
    words = ("fp8=tensor", "micro_batch=1", "grad", "precision=mixed")
    step = transform(named("mpt-7b", dtype="Float32", **{**MPT, "batch": None}), *words)
    assert verify(step, transform(step, "dtp=2,2,2", "microbatches=2"), bind={"B": 8}).equal
    with pytest.raises(ProgramError, match="expected a batch whose size is known"):
        transform(named("mpt-7b", **{**MPT, "batch": None}), "fp8=tensor", "micro_batch=2")


def test_replicas_of_their_own_scales_exchange_nothing_for_them():
    step = transform(gpt(), "fp8=tensor", "micro_batch=2", "grad")
    for chain in (["dp=4"], ["accumulate=2", "dp=2"]):
        program = transform(step, *chain, "inline")
        assert not statements(program, "MPIAllgather")
    sharded = transform(step, "tp=2", "inline")
    checked = check(sharded)
    own = {s.results[0] for s in statements(sharded, "GreatestOfBlocks")}
    gathers = [s for s in statements(sharded, "MPIAllgather") if own & {*s.args}]
    found = {checked.states["main"][s.results[0]].elements for s in gathers}
    assert found == {2 * 4}  # of each microbatch a number of each shard


MPT = {"width": 16, "heads": 4, "vocabulary": 32, "ffn": 16, "layers": 2, "sequence": 4, "batch": 8}


def test_roundings_of_8_bit_floats_are_told_from_errors():
    """In 16 bits, too, where a tolerance alone would hide either."""
    step = transform(named("mpt-7b", dtype="Float32", **MPT), "fp8=tensor", "micro_batch=2", "grad", "precision=mixed")
    assert verify(step, transform(step, "dtp=2,2,2", "microbatches=2")).equal
    sharded = transform(step, "tp=2", "inline")
    assert verify(step, sharded).equal
    main = sharded.entry()
    own = [replace(s, args=s.args[:1]) if getattr(s, "op", "") == "QuantizeFloat8" else s for s in main.body]
    changed = Module(replace(f, body=tuple(own)) if f is main else f for f in sharded)
    wrong = [r for r in verify(step, changed).results if not r.equal]
    assert any(r.difference.startswith("in Float64, ") for r in wrong)


def test_layers_are_changed_and_the_head_stays():
    module = transform(gpt(), "fp8")
    assert len(statements(module, "ScaledMatMul", "layer")) == 4
    assert statements(module, "Gemm", "main")
    assert not statements(module, "ScaledMatMul", "main")
    step = transform(module, "grad")
    forms = {(s.attrs.get("to"), s.attrs["block"]) for s in statements(step, "QuantizeFloat8", "layerGrad")}
    assert forms == {(E5M2, (1, 128)), (E5M2, (128, 1)), (E4M3, (128, 1))}


def test_a_step_with_it_is_near_to_one_without():
    plain, changed = transform(gpt(), "grad"), transform(gpt(), "fp8", "block=8", "grad")
    inputs = random_inputs(plain, 0, {})
    for a, b in zip(execute(plain, inputs), execute(changed, inputs), strict=True):
        change = np.abs(a.value - b.value).max()
        assert change <= 0.02 * max(1.0, np.abs(a.value).max())


def test_products_of_a_large_model_are_faster_where_the_machine_has_them():
    model = gpt2(2, 4096, 32, 2048, batch=1, dtype="BFloat16")
    times = {
        steps: {h: simulate(transform(model, *steps), hardware=h).latency_s for h in ("dgx-h100", "dgx-a100")}
        for steps in ((), ("fp8",))
    }
    assert times["fp8",]["dgx-h100"] < times[()]["dgx-h100"]
    assert times["fp8",]["dgx-a100"] >= times[()]["dgx-a100"]


FLAT = """
func @main(%x: Tensor[Float32, (8, 4), 1] {batch = 0}, %w: Tensor[Float32, (4, 4), 1] {param}) {
  %a = MatMul(%x, %w)
  %b = Gemm(%a, %w, %w)
  %c = Gemm[transB = true](%b, %w)
  %d = MatMul(%c, %c2)
  return %d
}
"""


def test_without_layers_the_first_and_the_last_product_stay():
    text = FLAT.replace("%c, %c2", "%c, %w").replace("%a, %w, %w", "%a, %w")
    module = transform(distir.parse(text), "fp8=block", "block=2")
    assert len(statements(module, "ScaledMatMul")) == 2
    assert verify(distir.parse(text), module, tolerance=0.2).equal
    assert verify(transform(module, "grad", "loss=mse"), transform(module, "grad", "loss=mse", "dp=2")).equal


def test_what_it_cannot_do_is_said():
    with pytest.raises(StepError, match="`fp8` expected one of tensor, block, mx, delayed, found `row`"):
        transform(gpt(), "fp8=row")
    with pytest.raises(StepError, match="`block` expected 1 or more, found 0"):
        transform(gpt(), "fp8", "block=0")
    with pytest.raises(StepError, match="`block` is an option of `fp8=block` and `fp8=mx`"):
        transform(gpt(), "fp8=delayed", "block=4")
    with pytest.raises(StepError, match="`history` expected 1 step or more, found 0"):
        transform(gpt(), "fp8=delayed", "history=0")
    with pytest.raises(StepError, match="`history` is an option of `fp8=delayed`"):
        transform(gpt(), "fp8", "history=4")
    with pytest.raises(StepError, match="`micro_batch` is an option of `fp8=tensor`"):
        transform(gpt(), "fp8", "micro_batch=2")
    with pytest.raises(ProgramError, match="does not divide into microbatches of 3"):
        transform(gpt(), "fp8=tensor", "micro_batch=3")
    with pytest.raises(ProgramError) as refused:
        transform(gpt(), "fp8=tensor", "micro_batch=2", "grad", "accumulate=8")
    assert "expected a multiple of 2 in dimension 0" in str(refused.value.diagnostics[0].notes)
    short = "func @main(%x: Tensor[Float32, (8, 4), 1]) {\n  %y = Relu(%x)\n  return %y\n}\n"
    with pytest.raises(ProgramError) as caught:
        transform(distir.parse(short), "fp8")
    assert caught.value.diagnostics[0].code.number == "DIR610"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("%q, %s = QuantizeFloat8[to = Float16](%x)", "expected `Float8E4M3FN` or `Float8E5M2`, found `Float16`"),
        ("%q, %s = QuantizeFloat8[block = [2]](%x)", "expected a block of rows and columns"),
        ("%q = DequantizeFloat8[block = []](%x, 1.0)", "expected `Float8E4M3FN` or `Float8E5M2`, found `Float32`"),
    ],
)
def test_operands_that_do_not_fit_are_refused(statement, message):
    text = f"func @main(%x: Tensor[Float32, (8, 4), 1]) {{\n  {statement}\n  return %q\n}}\n"
    assert any(message in found.message for found in distir.check(distir.parse(text)))


@pytest.mark.parametrize(
    ("dtype", "hardware", "said"),
    [
        ("BFloat16", "dgx-h100", []),
        ("BFloat16", "dgx-a100", ["no arithmetic in Float8E4M3FN on `NVIDIA A100-SXM-80GB`: it runs as Float16"]),
        (
            "BFloat16",
            "dgx2-v100",
            [
                "no arithmetic in BFloat16 on `NVIDIA V100-SXM3-32GB`: it runs as Float32",
                "no arithmetic in Float8E4M3FN on `NVIDIA V100-SXM3-32GB`: it runs as Float16",
            ],
        ),
        (
            "Float32",
            "laptop-cpu",
            ["no arithmetic in Float8E4M3FN on `2 CPU cores with a quarter of the memory`: it runs as Float32"],
        ),
    ],
)
def test_a_precision_that_the_machine_lacks_is_said(dtype, hardware, said):
    found = simulate(transform(gpt(dtype=dtype), "fp8"), hardware=hardware).notices()
    assert [notice.message for notice in found] == said
    assert all(notice.code.number == "DIR512" for notice in found)
    assert not simulate(gpt(dtype="Float16"), hardware=hardware).notices()


def quantisations_of_weights(program):
    """How often the program quantises a weight, calls written out: 8 of 2 layers at least."""
    main = transform(program, "inline").entry()
    known = {p.name for p in main.params if "param" in p.roles or "state" in p.roles}
    count = 0
    for s in main.body:
        values = {name for arg in s.args for name in ([arg] if isinstance(arg, str) else [])}
        if getattr(s, "op", "") in ("QuantizeFloat8", "ScaleToFloat8"):
            count += s.args[0] in known
        elif getattr(s, "op", "") in ("Cast", "Transpose", "ReduceMax", "MakeTuple", "UnpackTuple") and values <= known:
            known.update(s.results)
    return count


@pytest.mark.each_once
@pytest.mark.parametrize("scaling", ["fp8 block=4", "fp8=delayed history=4"])
@pytest.mark.parametrize("master", ["beside", "only"])
@pytest.mark.parametrize(
    ("chain", "copies"),
    [("accumulate=4", 1), ("pp=2 microbatches=4", 1), ("dtp=2,1,2 microbatches=4 zero=1", 2), ("checkpoint", 1)],
)
def test_weights_are_quantised_once_in_a_step(scaling, master, chain, copies):
    """However many microbatches there are, and not again for the backward pass: as Transformer Engine keeps them."""
    step = transform(gpt(), *scaling.split(), "grad", "optimizer=adamw", "precision=mixed", f"master={master}")
    program = transform(step, *chain.split())
    assert quantisations_of_weights(program) == 8 * copies
    if master == "only" or "delayed" in scaling:
        assert verify(step, program).equal


@pytest.mark.parametrize("scaling", ["fp8", "fp8=delayed"])
def test_kept_weights_take_a_byte_for_each_element(scaling):
    """Until the last microbatch; with scales of 128 x 128 elements, or one."""
    step = transform(gpt2(2, 256, 4, 32, batch=8, dtype="BFloat16"), *scaling.split(), "grad", "precision=mixed")
    program = transform(step, "accumulate=4")
    state = check(program).states["main"]
    made = [s for s in program.entry().body if getattr(s, "op", "") in ("QuantizeFloat8", "ScaleToFloat8")]
    kept, scales = ([state[s.results[i]] for s in made if s.args[0].endswith("weight")] for i in (0, 1))
    assert sum(t.elements * t.dtype.bytes for t in kept) == 2 * 12 * 256**2
    assert sum(t.elements for t in scales) == (2 * 12 * 4 if scaling == "fp8" else 2 * 4)


@pytest.mark.parametrize("scaling", ["fp8 block=8", "fp8=delayed", *also("fp8=tensor micro_batch=1")])
def test_partitioned_weights_leave_no_8_bit_copies_behind(scaling):
    """With ZeRO-3, at most those of one layer are added to what the step holds in 16 bits, however many layers."""
    width, layers = 256, 6
    sizes = {"batch": 8, "vocabulary": 64, "positions": 8, "dtype": "BFloat16"}
    peaks, words = [], ["accumulate=2", "dp=4", "zero=3", "partition=split"]
    for given in ([], scaling.split()):
        step = transform(gpt2(layers, width, 4, 8, **sizes), *given, "grad", "optimizer=adamw", "precision=mixed")
        uses = simulate(transform(step, *words), load("dgx-h100")).memory_uses
        peaks.append(max(use.peak_memory_bytes for use in uses.values()))
    histories = layers * 4 * 12 * 1024 * 2 * ("delayed" in scaling)
    assert peaks[1] <= peaks[0] + 12 * width**2 + histories


def test_gradients_of_quantised_weights_are_parts_of_sums_with_zero():
    """As without: they have the type of gradients, and are not rounded before replicas add them up."""
    step = transform(gpt(), "fp8", "block=4", "grad", "optimizer=adamw", "precision=mixed")
    program = transform(step, "accumulate=2", "dp=2", "zero=2")
    assert verify(step, program).equal
    held = {p.name for p in program.entry().params if p.name.startswith("h.0.mlp.c_fc.weight.m")}
    assert held in ({f"h.0.mlp.c_fc.weight.{kept}_{d}" for kept in ("m", "master")} for d in (1, 2))


@pytest.mark.parametrize("precision", ["mixed", "bf16", "fp16"])
def test_scales_are_float32_in_any_precision(precision):
    for scaling in ("fp8", "fp8=delayed"):
        step = transform(gpt(), scaling, "grad", f"precision={precision}")
        checked = check(step)
        assert not checked.errors
        layer = step.functions["layer"]
        state = checked.domain.instance(
            "layer",
            checked.states["main"](
                next(s for s in step.entry().body if isinstance(s, Call) and s.function == "layer").args
            ),
        ).state
        scales = [state[n] for s in layer.body for n in getattr(s, "results", ()) if n.endswith(".scale")]
        scales += [state[p.name] for p in layer.params if p.name.endswith((".scale", "greatest"))]
        assert {t.dtype for t in scales} == {FLOAT32}
        products = [state[s.results[0]] for s in layer.body if getattr(s, "op", "") == "ScaledMatMul"]
        assert {t.dtype.bytes for t in products} == {2}


@pytest.mark.parametrize("scaling", ["tensor", "block", "mx", "delayed"])
def test_blocks_whose_weights_are_quantised_outside_are_recomputed(scaling):
    """Also where both passes quantise weights by scales of their own."""
    given = transform(gpt2(3, 32, 4, 64, batch=8, vocabulary=32, positions=64), "grad", "loss=cross_entropy")
    kept = transform(given, f"fp8={scaling}")
    again = transform(kept, "checkpoint")
    peaks = [max(use.peak_memory_bytes for use in simulate(m).devices.values()) for m in (kept, again)]
    assert peaks[1] < 0.9 * peaks[0]
    assert verify(kept, again).equal


MIXTRAL = {"width": 16, "heads": 4, "kv_heads": 2, "head_size": 4, "vocabulary": 32, "sequence": 8, "experts": 4}
"""Sizes of a small model with experts."""


def mixtral(**sizes):
    return named("mixtral-8x7b", layers=2, batch=4, expert_ffn=16, top_k=2, dtype="Float32", **{**MIXTRAL, **sizes})


def test_products_of_experts_are_those_of_the_rows_and_matrices_that_quantised_ones_stand_for():
    rng = np.random.default_rng(0)
    x, w, dy = rng.normal(size=(2, 6, 8)), rng.normal(size=(3, 8, 4)), rng.normal(size=(2, 6, 4))
    counts = np.array([[2, 0, 4], [1, 2, 1]])
    found = {}
    for name, value, block in (("x", x, (1, 4)), ("w", w, (4, 2)), ("dy", dy, (1, 4))):
        q, scale = OPS["QuantizeFloat8"].body(value.astype(np.float32), to=E4M3, block=block)
        found[name] = q, scale, OPS["DequantizeFloat8"].body(q, scale, block=block)
    (qx, sx, wide_x), (qw, sw, wide_w), (qd, sd, wide_dy) = found.values()
    y = OPS["ScaledRaggedMatMul"].body(qx, qw, counts, sx, sw, block_x=(1, 4), block_w=(4, 2))
    np.testing.assert_allclose(y, OPS["RaggedMatMul"].body(wide_x, wide_w, counts), rtol=1e-6)
    dw = OPS["ScaledRaggedMatMulGrad"].body(qd, qx, counts, sd, sx, block=(1, 4))
    np.testing.assert_allclose(dw, OPS["RaggedMatMulGrad"].body(wide_dy, wide_x, counts), rtol=1e-6)


@pytest.mark.parametrize("scaling", ["fp8", "fp8=mx", "fp8=delayed", "fp8=tensor"])
def test_all_products_of_experts_are_in_8_bits(scaling):
    step = transform(mixtral(), scaling, "experts=true", "grad")
    own = {f.name: [getattr(s, "op", "") for s in f.body] for f in step}
    assert not any("RaggedMatMul" in ops or "RaggedMatMulGrad" in ops for ops in own.values())
    assert own["MixtralDecoderLayer"].count("ScaledRaggedMatMul") == 3
    assert own["MixtralDecoderLayerGrad"].count("ScaledRaggedMatMul") == 3
    assert own["MixtralDecoderLayerGrad"].count("ScaledRaggedMatMulGrad") == 3


@pytest.mark.by_turns
@pytest.mark.parametrize("scaling", ["fp8 block=4", "fp8=mx block=4", "fp8=delayed history=4"])
@pytest.mark.parametrize(
    "chain", ["ep=2", "dp=2", "tp=2", "ep=2 dp=2 zero=1", "dtp=2,1,2 microbatches=2 experts=2", "dp=2 zero=3"]
)
def test_experts_in_8_bits_are_the_same_on_several_devices(scaling, chain):
    step = transform(mixtral(), *scaling.split(), "experts=true", "grad", "optimizer=adamw", "precision=mixed")
    assert verify(step, transform(step, *chain.split())).equal


def test_rows_are_sent_to_experts_before_they_are_quantised():
    """As Megatron's dispatchers do: they travel in 16 bits."""
    step = transform(mixtral(), "fp8=mx", "block=4", "experts=true", "grad", "precision=mixed", "ep=2", "inline")
    checked = check(step)
    rows = [s for s in statements(step, "MPIAlltoall") if "count" not in s.results[0]]
    assert rows
    assert {checked.states["main"][name].dtype.bytes for s in rows for name in s.results} == {2}
