"""ZeRO: results stay, memory and communication are what is published, and the paper's listing comes out."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sharding_samples import EXAMPLES, VIT, assert_same, llama, mlp_with_tuples, small_gpt2, statements
from thorough import most_examples

import distir
from distir.diagnostics import ProgramError
from distir.ir import Apply, Call, Literal, types
from distir.models import mlp
from distir.simulate import simulate
from distir.transform import StepError, difference, listening, transform, verify


def steps(module, *words):
    for word in words:
        module = transform(module, *word.split())
    return module


MODELS = {
    "mlp with tuples": mlp_with_tuples,
    "mlp training": lambda: mlp(3, 8, 16, "Float64", training=True),
    "odd widths": lambda: transform(mlp(3, 7, 8, "Float64"), "grad", optimizer="momentum"),
    "gpt-2 training": lambda: transform(small_gpt2(positions=5), "grad", optimizer="adam"),
    "llama training": lambda: transform(llama(), "grad"),
    "vision transformer training": lambda: transform(distir.parse(VIT), "grad", optimizer="momentum"),
}


@pytest.mark.each_once
@pytest.mark.parametrize("partition", ["owner", "split"])
@pytest.mark.parametrize("stage", [1, 2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_results_stay(name, stage, partition):
    module = MODELS[name]()
    assert_same(module, steps(module, "dp=2", f"zero={stage} partition={partition}"))


@pytest.mark.each_once
@pytest.mark.parametrize("partition", ["owner", "split"])
@pytest.mark.parametrize("stage", [1, 2, 3])
@pytest.mark.parametrize(
    "before",
    [
        ("dp=4",),
        ("dp=2", "tp=2"),
        ("tp=2", "dp=2"),
        ("dp=2 bucket_bytes=1000",),
        ("pp=2 microbatches=2", "dp=2"),
        ("pp=2 microbatches=2", "tp=2", "dp=2"),
    ],
    ids=" ".join,
)
def test_results_stay_on_meshes(before, stage, partition):
    module = transform(mlp(4, 8, 16, "Float64"), "grad", optimizer="adam")
    assert_same(module, steps(module, *before, f"zero={stage} partition={partition}"))


@settings(max_examples=most_examples(25), deadline=None)
@given(
    widths=st.lists(st.integers(1, 6), min_size=2, max_size=4),
    optimizer=st.sampled_from(["sgd", "momentum", "adam"]),
    replicas=st.sampled_from([2, 3]),
    stage=st.integers(0, 3),
    partition=st.sampled_from(["owner", "split"]),
)
def test_results_stay_for_any_perceptron(widths, optimizer, replicas, stage, partition):
    params = [f"%w{i}: Tensor[Float64, ({n}, {m}), 1] {{param}}" for i, (n, m) in enumerate(pairwise(widths))]
    params.append(f"%x: Tensor[Float64, (6, {widths[0]}), 1] {{batch = 0}}")
    body, x = [], "x"
    for i in range(len(widths) - 1):
        body += [f"%h{i} = MatMul(%{x}, %w{i})", f"%a{i} = Tanh(%h{i})"]
        x = f"a{i}"
    text = f"func @main({', '.join(params)}) {{\n" + "\n".join(body) + f"\nreturn %{x}\n}}"
    module = transform(distir.parse(text), "grad", optimizer=optimizer)
    assert_same(module, steps(module, f"dp={replicas}", f"zero={stage} partition={partition}"))


# What is held where


def trained(optimizer="adam", dtype="Float64"):
    return transform(mlp(8, 64, 64, dtype), "grad", optimizer=optimizer)


def held(module, role):
    """Bytes of the entry function's parameters with a role, by device."""
    found = {}
    for param in module.entry().params:
        if role in param.roles and types.devices(param.type):
            device = types.device_of(param.type)
            found[device] = found.get(device, 0) + types.nbytes(param.type)
    return found


def peaks(module):
    return [use.peak_memory_bytes for use in simulate(module).devices.values()]


@pytest.mark.parametrize("replicas", [2, 4, 8])
def test_parts_are_as_large_as_the_paper_on_zero_says(replicas):
    module = trained()
    weights, state = held(module, "param")[1], held(module, "state")[1]
    replicated = steps(module, f"dp={replicas}")
    for stage in (1, 2, 3):
        found = steps(replicated, f"zero={stage} partition=split")
        every = range(1, replicas + 1)
        assert held(found, "state") == dict.fromkeys(every, state // replicas)
        assert held(found, "param") == dict.fromkeys(every, weights // replicas if stage == 3 else weights)


def test_owners_hold_about_as_much_as_each_other():
    module = trained()
    found = steps(module, "dp=4", "zero=3")
    for role in ("param", "state"):
        loads = held(found, role)
        assert sum(loads.values()) == held(module, role)[1]
        assert max(loads.values()) - min(loads.values()) <= 64 * 64 * 8


@pytest.mark.parametrize("partition", ["owner", "split"])
def test_every_stage_needs_less_memory(partition):
    replicated = steps(trained(), "dp=4")
    state, weights = held(replicated, "state")[1], held(replicated, "param")[1]
    before = peaks(replicated)
    first, second, third = (peaks(steps(replicated, f"zero={n} partition={partition}")) for n in (1, 2, 3))
    largest = 64 * 64 * 8
    assert all(b - a >= state * 3 // 4 - 2 * largest for a, b in zip(first, before, strict=True))
    assert all(a < b for a, b in zip(second, first, strict=True))
    assert all(b - a >= weights for a, b in zip(third, first, strict=True))


def test_gradients_are_not_kept_from_stage_2_on():
    first, second, third = (steps(trained("sgd"), "dp=2", f"zero={n}").entry().body for n in (1, 2, 3))
    weights, replicas, of_one_layer = 16, 2, 2
    assert waiting(first) == weights * replicas
    assert waiting(second) == waiting(third) == of_one_layer * replicas


def waiting(body):
    """The most gradients that wait to be summed."""
    sums = {name for s in body if isinstance(s, Apply) and s.op == "MPIReduce" for name in s.args}
    count = most = 0
    for statement in body:
        if isinstance(statement, Apply) and statement.op == "MPIReduce":
            count -= len(statement.args)
        count += len(sums.intersection(getattr(statement, "results", ())))
        most = max(most, count)
    return most


# What is sent

FACTORS = {"allreduce": 2, "reducescatter": 1, "allgather": 1, "reduce": 1, "broadcast": 1}


def volume(module, replicas):
    """Bytes over all links, divided by those that a reduction of one byte takes; the loss's sum left out."""
    simulation = simulate(module)
    found = difference(simulation, simulation).left.communication_bytes
    total = sum(found.get(pattern, 0) * factor for pattern, factor in FACTORS.items())
    return total + found.get("send", 0) / (replicas - 1) - 2 * 8


@pytest.mark.parametrize("partition", ["owner", "split"])
@pytest.mark.parametrize("replicas", [2, 4])
def test_communication_is_that_of_data_parallelism_and_half_more_in_stage_3(replicas, partition):
    module = trained("adam")
    size = held(module, "param")[1]
    unused = (64 * 64 + 8 * 64) * 8  # on the way back: the weights of the first layer, and all biases
    replicated = steps(module, f"dp={replicas}")
    assert volume(replicated, replicas) == 2 * size
    for stage, expected in ((1, 2 * size), (2, 2 * size), (3, 3 * size - unused)):
        found = steps(replicated, f"zero={stage} partition={partition}")
        assert volume(found, replicas) == expected


def test_weights_of_a_pipeline_are_sent_for_each_microbatch_and_forgotten():
    """Each layer's, where it runs, not those of a stage together; biases and `w1` are used in forward passes only."""
    found = steps(trained("sgd"), "pp=2 microbatches=4", "dp=2", "zero=3 partition=split")
    assert len(statements(transform(found, "inline"), "MPIAllgather")) == 4 * (8 + 8 + 7)


@pytest.mark.by_turns
@pytest.mark.parametrize("partition", ["owner", "split"])
@pytest.mark.parametrize(
    "model",
    [trained, lambda: transform(distir.models.gpt2(2, 16, 2, 4, batch=8, vocabulary=32), "grad", "loss=cross_entropy")],
)
def test_gradients_of_each_microbatch_are_reduced_so_that_sums_are_of_parts(model, partition):
    found = {}
    for stage in (1, 2, 3):
        module = transform(model(), "dtp=2,1,1", "microbatches=4", f"zero={stage}", f"partition={partition}")
        assert verify(model(), module).equal
        found[stage] = transform(module, "inline")
    reduce = "MPIReduce" if partition == "owner" else "MPIReduceScatter"
    once, each = len(statements(found[1], reduce)), len(statements(found[2], reduce))
    assert each >= 4 * once > 0
    assert len(statements(found[3], reduce)) == each


def test_accumulation_leaves_each_replica_its_part_of_the_state():
    """Of weights, gradients and both of Adam's states an eighth; whole weights and gradients of a layer at a time."""
    step = transform(mlp(8, 64, 64, "Float32"), "grad", optimizer="adam")
    module = transform(step, "dtp=8,1,1", "microbatches=8", "representative=true", "zero=3", "partition=split")
    weights = sum(types.nbytes(p.type) for p in step.entry().params if "param" in p.roles)
    peak = max(use.peak_memory_bytes for use in simulate(module).devices.values())
    assert peak <= 4 * weights / 8 + 3 * weights / 8


# The listing of the paper


def flow(module, function, params):
    """What each statement computes, by data flow: names and the order of independent statements do not matter."""
    found = {param: (place,) for place, param in enumerate(params)}

    def of(arg):
        if isinstance(arg, tuple):
            return tuple(map(of, arg))
        return found[arg] if isinstance(arg, str) else arg if isinstance(arg, Literal) else None

    computed = []
    for statement in module.functions[function].body:
        if isinstance(statement, (Apply, Call)):
            what = statement.function if isinstance(statement, Call) else (statement.op, str(dict(statement.attrs)))
            value = (what, tuple(map(of, statement.args)))
            found.update({name: (*value, i) for i, name in enumerate(statement.results) if name})
            computed.append(repr(value))
    return sorted(computed), [of(arg) for arg in module.functions[function].returned]


def test_stage_3_gives_the_listing_of_the_paper():
    sequential = distir.parse((EXAMPLES / "mlp_no_checkpointing.dir").read_text())
    listing = distir.parse((EXAMPLES / "mlp_zero.dir").read_text())
    found = steps(summed_loss(sequential), "dp=2", "zero=3")
    (name,) = [f for f in listing.functions if f.startswith("mlp")]
    order = [p.name for p in found.entry().params]
    wanted = [p.name for p in listing.functions[name].params]
    assert [n.replace("_1", "").replace("_2", "") for n in order] == [
        n.replace("_1", "").replace("_2", "") for n in wanted
    ]
    assert flow(found, found.entry().name, order) == flow(listing, name, wanted)


def summed_loss(module):
    """The module with a loss whose gradient each replica can take of its part of the batch."""
    loss = distir.parse("func @lossGrad(%p, %y) {\n%dp = Sub(%p, %y)\nreturn %dp\n}").functions["lossGrad"]
    return type(module)(loss if f.name == "lossGrad" else f for f in module)


# Refusals


@pytest.mark.parametrize("before", [(), ("tp=2",), ("pp=2 microbatches=2",)], ids=str)
def test_a_program_without_replicas_is_refused(before):
    with pytest.raises(ProgramError) as raised:
        steps(mlp(2, 8, 8, "Float64", training=True), *before, "zero=1")
    assert [d.code.number for d in raised.value.diagnostics] == ["DIR660"]


def test_inference_is_refused():
    with pytest.raises(ProgramError, match="update"):
        steps(mlp(2, 8, 8, "Float64"), "dp=2", "zero=3")


CLIPPED = """
func @main(%w: Tensor[Float64, (4, 4), 1] {param}, %x: Tensor[Float64, (4, 4), 1] {batch = 0}) {
  %dw = Gemm[transA = true](%x, %x)
  %norm = ReduceL2[keepdims = false](%dw)
  %w_new = SGD(%w, %dw)
  return %norm, %w_new
}
"""


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_gradient_that_is_needed_whole_too_is_summed_for_its_update_once_more(stage):
    """As clipping by the norm of the gradients does."""
    module = steps(distir.parse(CLIPPED), "dp=2")
    with listening() as said:
        partitioned = steps(module, f"zero={stage}")
    assert any("summed twice" in line for line in said)
    assert verify(distir.parse(CLIPPED), partitioned).equal


LOOKED_AT = """
func @main(
  %w: Tensor[Float64, (4, 4), 1] {param}, %m: Tensor[Float64, (4, 4), 1] {state},
  %x: Tensor[Float64, (4, 4), 1] {batch = 0}
) {
  %dw = Gemm[transA = true](%x, %x)
  %w_new, %m_new = Momentum(%w, %dw, %m)
  %size = ReduceL2[keepdims = false](VALUE)
  return %size, %w_new, %m_newRETURNED
}
"""


@pytest.mark.parametrize(
    ("value", "returned", "refused"),
    [
        ("%m_new", "", {(1, "owner"), (1, "split"), (3, "owner"), (3, "split")}),
        ("%m", "", {(1, "owner"), (1, "split"), (3, "owner"), (3, "split")}),
        ("%w_new", "", {(3, "split")}),
        ("%w", "", set()),
        ("%w", ", %w", {(3, "owner"), (3, "split")}),
    ],
)
def test_what_is_looked_at_whole_is_refused_or_right(value, returned, refused):
    module = distir.parse(LOOKED_AT.replace("VALUE", value).replace("RETURNED", returned))
    for stage in (1, 3):
        for partition in ("owner", "split"):
            words = ("dp=2", f"zero={stage} partition={partition}")
            if (stage, partition) in refused:
                with pytest.raises(ProgramError) as raised:
                    steps(module, *words)
                assert [d.code.number for d in raised.value.diagnostics] == ["DIR661"]
            else:
                assert_same(module, steps(module, *words))


def casts(module):
    return sum(s.op == "Cast" for f in module for s in f.body if isinstance(s, Apply))


@pytest.mark.parametrize("before", [("dp=2",), ("tp=2", "dp=2"), ("pp=2 microbatches=2", "dp=2")], ids=" ".join)
def test_sums_in_float32_are_whole_on_each_replica(before):
    module = steps(mlp(4, 8, 16, "Float32"), "grad optimizer=adam precision=mixed gradients=bf16 clip=1")
    parts = steps(module, *before, "zero=1 partition=split")
    whole = steps(module, *before, "zero=1 partition=split sums=float32")
    assert_same(steps(module, *before), whole)
    assert casts(whole) > casts(parts)
    if before == ("dp=2",):
        elements = held(module, "param")[1] // 2
        assert volume(whole, 2) - volume(parts, 2) == (2 * 4 - 2) * elements  # an all-reduce of Float32


def test_parameters_with_owners_are_summed_in_float32_there():
    module = steps(mlp(3, 7, 8, "Float32"), "grad optimizer=momentum precision=mixed gradients=bf16")
    whole = steps(module, "dp=2", "zero=1 partition=split sums=float32")
    reduced = [s for s in whole.entry().body if isinstance(s, Apply) and s.op == "MPIReduce"]
    assert reduced
    assert all(name.endswith("_wide") for s in reduced for name in (*s.args, *s.results))
    assert_same(steps(module, "dp=2"), whole)


def test_sums_of_wider_gradients_are_not_narrowed():
    module = transform(mlp(4, 8, 16, "Float64"), "grad", optimizer="adam")
    whole = steps(module, "dp=2", "zero=1 partition=split sums=float32")
    assert_same(module, whole)
    assert casts(whole) == casts(module)


@pytest.mark.parametrize(
    "words",
    ["zero=4", "zero=-1", "zero=1 partition=halves", "zero=1 partition=split sums=float16", "zero=1 sums=float32"]
    + ["zero=2 partition=split sums=float32", "zero=1 partition=split shard=2 sums=float32"],
)
def test_what_does_not_exist_is_refused(words):
    with pytest.raises(StepError):
        steps(mlp(2, 8, 8, "Float64", training=True), "dp=2", words)


def test_functions_that_the_step_does_not_call_stay():
    spare = distir.parse("func @spare(%x: Tensor[Float32, (8,)]) {\n  %y = Relu(%x)\n  return %y\n}\n")
    module = distir.ir.Module([*transform(trained("sgd"), "dtp=2,1,1", "microbatches=4"), *spare])
    for stage in (1, 2, 3):
        assert "spare" in transform(module, f"zero={stage}").functions
