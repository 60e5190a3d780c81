"""Pipelines of whole programs: what they compute, what they send, how large they are, and what is refused."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline_samples import assert_same_results, forget, orders, register, simulated, spending, written_out
from sharding_samples import llama, mlp_with_tuples, small_gpt2
from thorough import most_examples

import distir
from distir.diagnostics import ProgramError, Severity
from distir.ir import Apply, Call, TensorType, TupleType, names, types
from distir.ir.rolling import rolled
from distir.models import gpt2, mlp
from distir.syntax import print_rolled
from distir.transform import StepError, transform, verify
from distir.transform.pipeline import schedules as known
from distir.transform.pipeline.passes import stage_devices

EXAMPLES = Path(__file__).parent.parent.parent / "examples"

SCHEDULES = [("gpipe", 1), ("1f1b", 1), ("interleaved", 2), ("zb-h1", 1), ("zb-v", 1)]


@pytest.fixture(autouse=True, scope="module")
def _spending():
    register()
    yield
    forget()


def pipeline(module, devices, microbatches=1, **options):
    return transform(module, f"pp={devices}", microbatches=microbatches, **options)


def assert_equal(module, devices, microbatches, bind=None, **options):
    """The pipeline checks without a word, reads back as itself, and gives the sequential results."""
    made = pipeline(module, devices, microbatches, **options)
    problems = [str(d) for d in distir.check(made) if d.severity is Severity.ERROR]
    assert not problems, problems
    text = distir.format(made)
    assert distir.parse(text) == made
    assert_same_results(module, made, bind or {})
    return made


# What they compute.


ON_THE_HOST = """
func @f(%x: Tensor[Float64, (B, 4), 1], %w: Tensor[Float64, (4, 4), 1], %k: {of}) {
  %h = MatMul(%x, %w)
  %s = Add(%k, 1.0)
  return %h, %s
}

func @main(
  %x: Tensor[Float64, (B, 4), 1] {batch = 0},
  %w: Tensor[Float64, (4, 4), 1] {param},
  %v: Tensor[Float64, (4, 4), 1] {param},
  %k: {of}{role}
) {
  %h, %s = @f(%x, %w, %k)
  %y = MatMul(%h, %v)
  %loss = ReduceSum[keepdims = false](%y)
  %e = Mul(%loss, {factor})
  return %e{more}
}
"""


@pytest.mark.parametrize("microbatches", [1, 2, 12])
@pytest.mark.parametrize(
    ("of", "role", "factor", "more"),
    [
        ("Tensor[Float64, (3,), host]", "", "%s", ""),
        ("Tensor[Float64, (3,), host]", "", "%s", ", %s"),
        ("Tensor[Float64, (B,), host]", " {batch = 0}", "1.0", ", %s"),
    ],
    ids=["used after all microbatches", "returned", "a part of the batch"],
)
def test_host_values_that_passes_compute(of, role, factor, more, microbatches):
    program = ON_THE_HOST.replace("{of}", of).replace("{role}", role).replace("{factor}", factor)
    assert_equal(distir.parse(program.replace("{more}", more)), 2, microbatches, {"B": 24})


STATED = """
func @layer(%x: Tensor[Float32, (B, 4), 1], %w: Tensor[Float32, (4, 4), 1]) -> (Tensor[Float32, (B, 4), 1]) {
  %h: Tensor[Float32, (B, 4), 1] = MatMul(%x, %w)
  %y = Relu(%h)
  return %y
}

func @main(
  %x: Tensor[Float32, (8, 4), 1] {batch = 0},
  %w: Tensor[Float32, (4, 4), 1] {param},
  %v: Tensor[Float32, (4, 4), 1] {param}
) {
  %a = @layer(%x, %w)
  %b = @layer(%a, %v)
  return %b
}
"""


@pytest.mark.parametrize("steps", ["pp=2 microbatches=4", "grad optimizer=sgd pp=2 microbatches=2 schedule=zb-h1"])
def test_functions_may_state_the_device(steps):
    given = distir.parse(STATED)
    stages = transform(given, *steps.split())
    assert verify(given if "grad" not in steps else transform(given, "grad", optimizer="sgd"), stages).equal


@pytest.mark.each_once
@pytest.mark.parametrize(("schedule", "virtual"), SCHEDULES)
@pytest.mark.parametrize(("devices", "microbatches"), [(1, 1), (1, 4), (2, 1), (2, 2), (2, 8), (3, 6), (4, 4), (4, 8)])
def test_mlp_training(devices, microbatches, schedule, virtual):
    if virtual > 1 and microbatches % devices:
        microbatches = 2 * devices
    module = mlp(8, 4, 24, "Float64", training=True)
    made = assert_equal(module, devices, microbatches, schedule=schedule, virtual=virtual)
    assert not distir.check(made), "no warnings either"


@settings(deadline=None, max_examples=most_examples(40))
@given(orders(), st.sampled_from(["mlp", "tied", "skip"]), st.booleans())
def test_whatever_order_a_schedule_gives_the_results_are_the_same(given, model, training):
    """Stages lie where the schedule says, several on one device in any way, its passes in any order that can be run."""
    devices, microbatches, splits, order = given
    known.schedule("own", splits=splits)(lambda *_: order)
    try:
        if model == "mlp":
            module = mlp(2 * devices, 4, 2 * microbatches, "Float64", training=training)
        elif model == "tied":
            module = gpt2(devices, 12, 4, 5, batch=microbatches, vocabulary=12, positions=7, dtype="Float64")
            module = transform(module, "grad", optimizer="momentum") if training else module
        else:
            module = with_skips(devices, 2 * microbatches, training)
        assert_equal(module, devices, microbatches, schedule="own")
    finally:
        del known.SCHEDULES["own"]


def with_skips(layers, batch, training):
    """Layers each of which adds what all before it gave, and one weight that every second of them uses."""
    size = f"Tensor[Float64, ({batch}, 4), 1]"
    params = [f"%w{i}: Tensor[Float64, (4, 4), 1] {{param}}" for i in range(layers + 1)]
    body, sums = [], "%x"
    for i in range(layers):
        body += [f"%h{i} = MatMul({sums}, %w{i})", f"%a{i} = Tanh(%h{i})"]
        body += [f"%b{i} = MatMul(%a{i}, %w{layers})" if i % 2 else f"%b{i} = Identity(%a{i})"]
        body += [f"%s{i} = Add({sums}, %b{i})"]
        sums = f"%s{i}"
    lines = "\n  ".join(body)
    module = distir.parse(
        f"func @main({', '.join(params)}, %x: {size} {{batch = 0}}) {{\n  {lines}\n  return {sums}\n}}"
    )
    return transform(module, "grad", optimizer="none") if training else module


@pytest.mark.parametrize(("schedule", "virtual"), SCHEDULES)
def test_a_named_batch_stays_named(schedule, virtual):
    module = mlp(4, 3, training=True, dtype="Float64")
    made = assert_equal(module, 2, 4, bind={"B": 8}, schedule=schedule, virtual=virtual)
    assert {str(d) for p in made.functions["main"].params for d in types.dim_names(p.type)} == {"B"}


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zb-h1"])
def test_weights_in_tuples(schedule):
    assert_equal(mlp_with_tuples(), 2, 4, schedule=schedule)


def test_a_batch_of_one():
    assert_equal(mlp(3, 4, 1, "Float64", training=True), 2, 1)
    assert_equal(gpt2(2, 4, 2, 3, batch=1, vocabulary=5, dtype="Float64"), 2, 1)


@pytest.mark.parametrize("microbatches", [1, 2, 4])
@pytest.mark.parametrize("devices", [1, 2, 3])
def test_inference(devices, microbatches):
    made = assert_equal(small_gpt2(layers=3), devices, microbatches)
    assert not [f for f in made if "backward" in f.name]
    assert_equal(mlp(5, 4, 8, "Float64", bias=False), devices, microbatches)


@pytest.mark.each_once
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "none"])
@pytest.mark.parametrize(("schedule", "virtual"), SCHEDULES)
def test_gpt2_training_with_tied_embeddings(schedule, virtual, optimizer):
    module = transform(small_gpt2(layers=4), "grad", optimizer=optimizer)
    assert_equal(module, 2, 2, schedule=schedule, virtual=virtual)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zb-h1"])
@pytest.mark.parametrize("inlined", [False, True])
def test_a_gated_block_with_grouped_queries(schedule, inlined):
    module = transform(llama(), "grad")
    module = transform(module, "inline") if inlined else module
    assert_equal(module, 2, 4, schedule=schedule)


@pytest.mark.parametrize("schedule", ["1f1b", "zb-h1"])
@pytest.mark.parametrize("balance", ["uniform", "cost"])
def test_a_program_without_calls(schedule, balance):
    module = transform(small_gpt2(layers=2), "grad", "inline")
    assert_equal(module, 3, 2, schedule=schedule, balance=balance)


MEAN_INSIDE = """
func @layer(%w, %x) {
  %h = MatMul(%x, %w)
  %y = Tanh(%h)
  return %y
}

func @layerGrad(%w, %x, %y, %dy) {
  %dh = TanhGrad(%dy, %y)
  %xt = Transpose(%x)
  %wt = Transpose(%w)
  %dw = MatMul(%xt, %dh)
  %dx = MatMul(%dh, %wt)
  return %dw, %dx
}

func @loss(%p, %y) {
  %loss = MSELoss[reduction = "mean"](%p, %y)
  %dp = MSELossGrad[reduction = "mean"](1.0, %p, %y)
  return %loss, %dp
}

func @main(
  %w1: Tensor[Float64, (3, 5), 1] {param}, %w2: Tensor[Float64, (5, 2), 1] {param},
  %x: Tensor[Float64, (12, 3), 1] {batch = 0}, %y: Tensor[Float64, (12, 2), 1] {batch = 0}
) {
  %a = @layer(%w1, %x)
  %p = @layer(%w2, %a)
  %loss, %dp = @loss(%p, %y)
  %dw2, %da = @layerGrad(%w2, %a, %p, %dp)
  %decay2 = Mul(%w2, 0.01)
  %dw1, _ = @layerGrad(%w1, %x, %a, %da)
  %g2 = Add(%dw2, %decay2)
  %norm = ReduceSumSquare[keepdims = false](%g2)
  %w1_new = SGD(%w1, %dw1)
  %w2_new = SGD(%w2, %g2)
  return %loss, %norm, %p, %dp, %w1_new, %w2_new
}
"""


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zb-h1"])
@pytest.mark.parametrize("microbatches", [1, 2, 3, 12])
def test_means_over_the_batch_decay_and_norms_of_gradients(microbatches, schedule):
    assert_equal(distir.parse(MEAN_INSIDE), 2, microbatches, schedule=schedule)


ODD = """
func @main(
  %u: Tensor[Float64, (3,), 1] {param},
  %w1: Tensor[Float64, (3, 3), 1] {param},
  %w2: Tensor[Float64, (3, 3), 1] {param},
  %step: Int64[1] {state},
  %k: Int64,
  %s: Tensor[Float64, (3,), 1],
  %x: Tensor[Float64, (4, 3), 1] {batch = 0},
  %z: Tensor[Float64, (4, 2), 1] {batch = 0},
  %m: Tensor[Float64, (3, 4), 1] {batch = 1}
) {
  %next = Add(%step, 1)
  %wt = Transpose(%w1)
  %a = MatMul(%x, %wt)
  %mt = Transpose(%m)
  %b = Add(%a, %mt)
  %c = MatMul(%b, %w2)
  %d = Mul(%c, %mt)
  %e = Add(%d, %s)
  %dead = Relu(%e)
  %f = Transpose(%e)
  %g = Add(%m, %f)
  %n = Shape(%e)
  %t = ReduceSum[keepdims = false](%e, [0])
  %tt = Add(%t, %s)
  return %x, %g, %next, %u, %t, %t, %tt, %n, %w1, 3.0, %k, %mt
}
"""


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("microbatches", [1, 2, 4])
def test_results_of_every_kind(devices, microbatches):
    """Inputs, weights, constants, sizes, sums, the same twice; batches along other axes; what nobody uses."""
    made = assert_equal(distir.parse(ODD), devices, microbatches)
    assert not distir.check(made)


@pytest.mark.parametrize("batch", [1, 3, 4])
def test_one_microbatch(batch):
    assert_equal(mlp(3, 4, batch, "Float64", training=True), 2, 1)


KINDS = ("dense", "residual", "norm", "tied", "gated")


def chain(kinds, batch, width, mean):
    """A forward program of layers of these kinds, with a loss; "tied" uses the weight of the first layer again."""
    params, body = [f"%w0: Tensor[Float64, ({width}, {width}), 1] {{param}}"], ["%a0 = MatMul(%x, %w0)"]
    for i, kind in enumerate(kinds, 1):
        before, after = f"%a{i - 1}", f"%a{i}"
        if kind in ("dense", "residual", "gated"):
            params.append(f"%w{i}: Tensor[Float64, ({width}, {width}), 1] {{param}}")
        body += {
            "dense": [f"{after} = @dense(%w{i}, {before})"],
            "residual": [f"%h{i} = @dense(%w{i}, {before})", f"{after} = Add(%h{i}, {before})"],
            "gated": [f"%h{i} = MatMul({before}, %w{i})", f"{after} = Mul(%h{i}, {before})"],
            "norm": [f"{after} = @norm(%s{i}, {before})"],
            "tied": [f"{after} = MatMul({before}, %w0)"],
        }[kind]
        if kind == "norm":
            params.append(f"%s{i}: Tensor[Float64, ({width},), 1] {{param}}")
    params += [f"%{n}: Tensor[Float64, ({batch}, {width}), 1] {{batch = 0}}" for n in ("x", "y")]
    text = f"""
func @dense(%w, %x) {{
  %h = MatMul(%x, %w)
  %y = Tanh(%h)
  return %y
}}

func @norm(%s, %x) {{
  %y = RMSNormalization(%x, %s)
  return %y
}}

func @main({", ".join(params)}) {{
  {chr(10).join(body)}
  %loss = MSELoss[reduction = "{"mean" if mean else "sum"}"](%a{len(kinds)}, %y)
  return %loss
}}
"""
    return distir.parse(text)


@settings(deadline=None, max_examples=most_examples(25))
@given(st.data())
def test_random_models(data):
    kinds = data.draw(st.lists(st.sampled_from(KINDS), min_size=3, max_size=7))
    microbatches, rows = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    schedule, virtual = data.draw(st.sampled_from(SCHEDULES))
    devices = data.draw(st.integers(1, 3))
    if virtual > 1:
        devices, microbatches = min(devices, 2), 2
    forward = chain(kinds, microbatches * rows, data.draw(st.integers(1, 4)), data.draw(st.booleans()))
    optimizer = data.draw(st.sampled_from(["sgd", "momentum", "none"]))
    module = transform(forward, "grad", loss="none", optimizer=optimizer)
    balance = data.draw(st.sampled_from(["uniform", "cost"]))
    layers = 1 + sum(kind != "tied" for kind in kinds)  # calls or statements with weights
    if layers < devices * known.SCHEDULES[schedule].stages_per_device(virtual):
        return
    assert_equal(module, devices, microbatches, schedule=schedule, virtual=virtual, balance=balance)
    assert_equal(forward, devices, microbatches)


# What they send, and how large they are.


def statements(module, name="main"):
    return [s for s in module.functions[name].body if isinstance(s, (Apply, Call))]


@pytest.mark.parametrize(("schedule", "virtual"), SCHEDULES)
def test_one_value_forward_and_one_back_per_boundary_and_microbatch(schedule, virtual):
    made = pipeline(mlp(8, 4, 32, training=True), 4, 8, schedule=schedule, virtual=virtual)
    sends = [s for s in statements(made) if isinstance(s, Apply) and s.op == "Send"]
    homes = stage_devices(known.SCHEDULES[schedule](4, 8, virtual))
    assert len(sends) == 2 * 8 * sum(a != b for a, b in itertools.pairwise(homes))
    state = distir.analysis.check(made).states["main"]
    for send in sends:
        assert state[send.results[0]].shape == (4, 4), "a microbatch of one layer's results, nothing else"


def test_a_tied_weight_is_sent_once_and_so_is_its_gradient():
    module = transform(gpt2(4, 4, 2, 3, batch=8, vocabulary=7, dtype="Float64"), "grad")
    made = pipeline(module, 4, 8)
    state = distir.analysis.check(made).states["main"]
    sends = [s for s in statements(made) if isinstance(s, Apply) and s.op == "Send"]
    tied = [s for s in sends if state[s.results[0]].shape == (7, 4)]
    assert len(tied) == 2
    assert len(sends) == 2 * 3 * 8 + 2
    assert len(made.functions["main"].params) == len(module.functions["main"].params), "one copy of each weight"


def test_a_weight_that_nothing_updates_is_on_every_device_that_needs_it():
    made = pipeline(small_gpt2(), 2, 2)
    names = [p.name for p in made.functions["main"].params]
    assert {"wte.weight.1", "wte.weight.2"} <= set(names)
    sends = [s for s in statements(made) if isinstance(s, Apply) and s.op == "Send"]
    assert len(sends) == 2


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zb-h1"])
def test_the_size_of_the_program_is_that_of_the_schedule(schedule):
    def size(layers, microbatches):
        made = written_out(pipeline(mlp(layers, 2, 64, training=True), 4, microbatches, schedule=schedule))
        updates = sum(getattr(s, "op", "") == "SGD" for s in statements(made))
        return len(statements(made)) - updates, sum(len(s.args) for s in statements(made) if isinstance(s, Call))

    assert size(8, 16) == size(16, 16), "deeper stages make no longer calls"
    assert size(8, 16)[0] <= 4 * 16 * 6 + 40
    assert size(8, 32)[0] <= 2 * size(8, 16)[0]


@pytest.mark.by_turns
@pytest.mark.parametrize(("schedule", "virtual"), [*SCHEDULES, ("inference", 1)])
def test_the_steady_state_is_written_once(schedule, virtual):
    """The text of many microbatches is as long as that of few; it means the same once it is written out."""

    def length(made):
        return len(print_rolled(made).splitlines())

    model = mlp(8, 2, 1024, training=schedule != "inference")
    options = {} if schedule == "inference" else {"schedule": schedule, "virtual": virtual}
    few, many = (pipeline(model, 2, count, **options) for count in (64, 256))
    assert length(many) == length(few)
    flat = written_out(many)
    assert "round" in set(many.functions) - set(flat.functions)
    passes = sum(isinstance(s, Call) and s.function.startswith("stage_") for s in flat.functions["main"].body)
    assert passes == 256 * sum(f.name.startswith("stage_") and "accumulate" not in f.name for f in flat)
    for other in (flat, rolled(many)):
        assert simulated(many).latency_s == simulated(other).latency_s
        assert simulated(many).devices == simulated(other).devices


@pytest.mark.parametrize(("schedule", "virtual"), [*SCHEDULES, ("inference", 1)])
def test_rounds_give_what_is_used_and_no_more(schedule, virtual):
    training = schedule != "inference"
    options = {"schedule": schedule, "virtual": virtual} if training else {}
    entry = pipeline(mlp(8, 2, 256, training=training), 2, 64, **options).entry()
    used = {name for s in entry.body for name in names(s.args)}
    given = [name for s in entry.body if isinstance(s, Call) and "round" in s.function for name in s.results]
    assert given
    assert not set(given) - used


@pytest.mark.by_turns
@pytest.mark.parametrize(("schedule", "virtual"), SCHEDULES)
@pytest.mark.parametrize(("devices", "microbatches"), [(1, 24), (2, 24), (3, 36)])
def test_rounds_compute_the_same(devices, microbatches, schedule, virtual):
    module = mlp(6, 3, 2 * microbatches, "Float64", training=True)
    made = assert_equal(module, devices, microbatches, schedule=schedule, virtual=virtual)
    assert "round" in made.functions


def test_stages_are_functions_of_any_device():
    made = pipeline(mlp(4, 4, 16, training=True), 2, 4)
    stages = [f for f in made if f.name.startswith("stage")]
    passes = [f"stage_{i}_{direction}" for i in (1, 2) for direction in ("forward", "backward")]
    summing = ["stage_1_accumulate_backward", "stage_2_accumulate_forward", "stage_2_accumulate_backward"]
    assert [f.name for f in stages] == [*passes, *summing]
    for function in stages:
        leaves = [leaf for p in function.params for leaf in types.leaves(p.type)]
        assert all(leaf.device is None for leaf in leaves)
        assert all(isinstance(p.type, (TensorType, TupleType)) for p in function.params)


def test_the_pipeline_of_the_paper_is_found():
    module = distir.parse((EXAMPLES / "mlp_sequential.dir").read_text())
    by_hand = distir.parse((EXAMPLES / "mlp_pipeline.dir").read_text())
    made = pipeline(module, 2, 2, sums="stage")
    assert distir.simulate(made).latency_s == pytest.approx(distir.simulate(by_hand).latency_s, rel=1e-9)
    assert len(statements(made, "mlp")) == len(statements(by_hand, "mlpPP")) - 2  # the loss is in a stage


# Balance.


def passes_of(made, phase):
    """By stage: the function of its pass."""
    calls = [s for f in made for s in f.body if isinstance(s, Call) and s.facts.stage and s.facts.phase in ("", phase)]
    return {s.facts.stage: made.functions[s.function] for s in reversed(calls)}


def layers_of(made, count):
    passes = passes_of(made, "forward")
    return [sum(isinstance(s, Call) for s in passes[stage].body) for stage in range(1, count + 1)]


def test_passes_that_do_the_same_are_one_function():
    module = transform(small_gpt2(layers=8), "grad")
    made = transform(module, "pp=4", "microbatches=4", "balance=uniform")
    forward, backward = passes_of(made, "forward"), passes_of(made, "backward")
    assert forward[2].name == forward[3].name == "stages_2_to_3_forward"
    assert backward[2].name == backward[3].name == "stages_2_to_3_backward"
    assert forward[1].name == "stage_1_forward"  # it has the embedding, too
    assert next(p.name for p in forward[2].params) == "weights"
    of_call = [s.facts for f in made for s in f.body if isinstance(s, Call) and s.function == "stages_2_to_3_forward"]
    assert {(facts.stage, facts.layer) for facts in of_call} == {(2, 3), (3, 5)}
    assert [s.facts.layer for s in forward[2].body if isinstance(s, Call)] == [1, 2]  # from the call's on
    assert verify(module, made).equal


def test_the_text_hardly_grows_with_the_stages():
    texts = [
        print_rolled(transform(mlp(n, 4, 16, training=True), f"pp={n}", f"microbatches={n}", "schedule=gpipe"))
        for n in (8, 16)
    ]
    functions = [text.count("func @") for text in texts]
    assert functions[0] == functions[1]
    assert len(texts[1].splitlines()) < 2 * len(texts[0].splitlines())  # 64 passes and 256


def test_stages_that_differ_are_functions_of_their_own():
    made = transform(small_gpt2(layers=8), "grad", "pp=4", "microbatches=4", "balance=2,1,3,2")
    assert len({f.name for f in passes_of(made, "forward").values()}) == 4


def test_uniform_and_given_numbers_of_layers():
    module = mlp(7, 2, 4)
    assert sorted(layers_of(pipeline(module, 3, balance="uniform"), 3)) == [2, 2, 3]
    assert layers_of(pipeline(module, 3, balance="1,4,2"), 3) == [1, 4, 2]


@pytest.mark.parametrize(
    ("devices", "options", "layers"),
    [
        (3, {"balance": "0,2,0"}, [0, 2, 0]),
        (2, {"balance": "0,1,1,0", "schedule": "interleaved", "virtual": 2}, [0, 1, 1, 0]),
    ],
)
def test_an_embedding_and_a_head_may_be_stages_by_themselves(devices, options, layers):
    module = transform(small_gpt2(layers=2), "grad")
    made = transform(module, f"pp={devices}", "microbatches=2", **options)
    assert layers_of(made, len(layers)) == layers
    assert verify(module, made).equal


@settings(deadline=None, max_examples=15)
@given(st.lists(st.integers(1, 9), min_size=3, max_size=6), st.integers(2, 3))
def test_balance_by_cost_makes_the_slowest_stage_as_fast_as_can_be(amounts, devices):
    text = distir.format(spending(len(amounts), 1, 1, 1))
    for i in range(1, len(amounts) + 1):
        text = text.replace(f"@layer(%w{i},", f"@layer{i}(%w{i},").replace(
            f"@layerGrad(%w{i},", f"@layerGrad{i}(%w{i},"
        )
    head, rest = text[: text.index("func @main")], text[text.index("func @main") :]
    for i, amount in enumerate(amounts, 1):
        own = head.replace("@layerGrad", f"@layerGrad{i}").replace("@layer(", f"@layer{i}(")
        rest = own.replace("amount = 1", f"amount = {amount}") + rest
    module = distir.parse(rest)
    made, equal = (pipeline(module, devices, 8, balance=balance) for balance in ("cost", "uniform"))
    if layers_of(made, devices) == layers_of(equal, devices):
        return  # equally many layers are as fast, or faster: filling and draining count, too
    # by the rates of another machine than that for which the cut was made: sends of nanoseconds may differ
    assert simulated(made).latency_s <= simulated(equal).latency_s * (1 + 1e-9)
    busiest = max(use.busy_s for use in simulated(made).devices.values()) / 8
    cuts = itertools.combinations(range(1, len(amounts)), devices - 1)
    runs = ([sum(amounts[a:b]) for a, b in itertools.pairwise([0, *cut, len(amounts)])] for cut in cuts)
    assert busiest == pytest.approx(3 * min(map(max, runs)), rel=1e-5)


# What is refused.


def refused(module, devices=2, microbatches=2, **options):
    with pytest.raises(ProgramError) as caught:
        pipeline(distir.parse(module) if isinstance(module, str) else module, devices, microbatches, **options)
    (diagnostic,) = caught.value.diagnostics
    return diagnostic


def test_a_batch_that_does_not_divide():
    found = refused(mlp(4, 2, 12), 2, 5)
    assert found.code.number == "DIR640"
    assert "12" in found.message
    assert found.help is not None
    assert {"2", "3", "4", "6"} <= set(found.help.replace(",", "").split())


def test_too_few_layers():
    found = refused(mlp(3, 2, 12, training=True), 4)
    assert (found.code.number, found.help) == ("DIR642", "use at most 3 stages (devices × `virtual`)")
    assert refused(mlp(4, 2, 12), 2, balance="1,2").code.number == "DIR642"
    assert "leaves a stage of `@main` empty" in refused(mlp(4, 2, 12), 3, balance="0,2,2").message
    assert refused(mlp(2, 2, 12), 4, balance="cost").code.number == "DIR642"


def test_what_is_counted_is_called_what_it_is():
    """A GPT-2 has statements with weights beside its layers, which serve as stages where layers are too few."""
    assert refused(mlp(4, 2, 12), 5).message == "`@main` has 4 layers, too few for 5 stages"
    two_layers = small_gpt2(layers=2)
    too_few = refused(two_layers, 9)
    assert too_few.message == "`@main` has 6 statements with weights (2 of them layers), too few for 9 stages"
    assert too_few.help == "use at most 6 stages (devices × `virtual`)"
    assert "add up to the 2 layers of `@main`, found 1,2" in refused(two_layers, 2, balance="1,2").message
    assert "add up to the 6 statements with weights" in refused(two_layers, 3, balance="1,1,1").message


@pytest.mark.parametrize("step", ["pp=2", "dtp=1,1,2"])
@pytest.mark.parametrize("schedule", ["interleaved", "looped-bfs"])
def test_interleaving_has_two_stages_per_device_unless_it_is_told(step, schedule):
    module, words = mlp(4, 8, 8, training=True), (step, "microbatches=4", f"schedule={schedule}")
    made = transform(module, *words)
    assert made == transform(module, *words, "virtual=2") != transform(module, *words, "virtual=1")
    with pytest.raises(ProgramError, match="has 3 layers, too few for 4 stages"):
        transform(mlp(3, 8, 8, training=True), *words)


def test_numbers_that_do_not_suit_the_schedule():
    module = mlp(8, 2, 12, training=True)
    assert refused(module, 4, 6, schedule="dualpipev").code.number == "DIR643"
    assert refused(module, 4, 6, schedule="1f1b", virtual=2).code.number == "DIR643"
    for options in ({"schedule": "1f2b"}, {"microbatches": 0}, {"balance": "1,x"}):
        with pytest.raises(StepError):
            transform(module, "pp=2", **options)
    with pytest.raises(StepError, match="did you mean `1f1b`"):
        transform(module, "pp=2", schedule="1f2b")


def test_programs_that_are_no_pipelines():
    distributed = distir.parse((EXAMPLES / "mlp_pipeline.dir").read_text())
    assert refused(distributed).code.number == "DIR605"
    no_batch = "func @main(%x: Tensor[Float32, (4, 2), 1]) {\n  %y = Relu(%x)\n  return %y\n}"
    assert refused(no_batch).code.number == "DIR644"


BEHIND_LAYERS = """
func @layer(%x, %w) {
  %y = MatMul(%x, %w)
  return %y
}

func @main(
  %w: Tensor[Float64, (4, 4), 1] {param}, %v: Tensor[Float64, (4, 4), 1] {param},
  %b: Tensor[Float64, (4, 4), 1] {param}, %s: Tensor[Float64, (), 1] {param}, %x: Tensor[Float64, (4, 4), 1] {batch = 0}
) {
  %h = MatMul(%x, %w)
  %y = MatMul(%h, %v)
  LINE
  return %z
}
"""


@pytest.mark.parametrize(
    ("line", "op"),
    [
        ("%all = ReduceSum(%y, [0])\n  %z = Mul(%y, %all)", "Mul"),
        ("%z = Add(%y, %b)", "Add"),
        ("%p = Softmax[axis = 0](%y)\n  %z = Mul(%p, %y)", "Softmax"),
        ("%p = Softmax[axis = 0](%y)\n  %z = @layer(%p, %w)", "Softmax"),
    ],
)
def test_statements_that_need_the_whole_batch(line, op):
    found = refused(BEHIND_LAYERS.replace("LINE", line))
    assert found.code.number == "DIR641"
    assert f"`{op}`" in found.message
    assert found.site.index == 2 + line[: line.index(f"= {op}")].count("\n")


MIXING = (
    "%z = Softmax[axis = 0](%y)",
    "%z = Concat[axis = 0](%y, %y)",
    "%z = Slice(%y, [1], [3], [0])",
    "%z = ReduceMax(%y, [0])",
    "%t = Transpose(%y)\n  %p = MatMul(%y, %t)\n  %e = Exp(%s)\n  %z = Mul(%p, %e)",
    "%r = Reshape(%y, [4, 2, 2])\n  %z = Softmax[axis = 0](%r)",
)


@pytest.mark.parametrize("microbatches", [1, 2, 4])
@pytest.mark.parametrize("line", MIXING)
def test_what_mixes_the_examples_behind_the_layers_is_computed_of_all_of_them_at_the_end(line, microbatches):
    """As the scores of each text for each image are. What is mixed may be returned as well."""
    for results in ("%z", "%z, %y"):
        text = BEHIND_LAYERS.replace("LINE", line).replace("return %z", f"return {results}")
        assert_equal(distir.parse(text), 2, microbatches)


@pytest.mark.parametrize("line", [line for line in MIXING if "ReduceMax" not in line])
def test_what_mixes_the_examples_is_refused_in_training(line):
    text = BEHIND_LAYERS.replace("LINE", line)
    found = refused(transform(distir.parse(text), "grad"))
    assert found.code.number == "DIR641"


def test_what_mixes_the_examples_before_all_layers_is_refused():
    text = BEHIND_LAYERS.replace("MatMul(%x, %w)", "Softmax[axis = 0](%x)").replace("LINE", "%z = Relu(%y)")
    found = refused(text)
    assert (found.code.number, found.site.index) == ("DIR641", 0)


def test_the_same_in_a_call_is_reported_at_the_call():
    text = """
func @mix(%x) {
  %y = Softmax[axis = 0](%x)
  return %y
}

func @main(%w: Tensor[Float32, (4, 4), 1] {param}, %x: Tensor[Float32, (4, 4), 1] {batch = 0}) {
  %h = @mix(%x)
  %y = MatMul(%h, %w)
  return %y
}
"""
    found = refused(text, 1)
    assert found.site.index == 0
    assert "`@mix`" in found.message
    assert "`Softmax`" in found.notes[0].message
    behind = text.replace("%h = @mix(%x)", "%h = MatMul(%x, %w)").replace(
        "%y = MatMul(%h, %w)\n  return", "%y = @mix(%h)\n  return"
    )
    assert_equal(distir.parse(behind), 1, 2)


def test_composing_with_data_parallelism_before_is_refused_kindly():
    module = mlp(4, 2, 12, training=True)
    found = refused(transform(module, "dp=2"))
    assert found.code.number == "DIR605"


def test_verify_finds_nothing_wrong():
    module = transform(small_gpt2(), "grad")
    assert verify(module, pipeline(module, 2, 4)).equal


ROWS = """
func @main(
  %w1: Tensor[Float64, (4, 4), 1] {param}, %w2: Tensor[Float64, (4, 4), 1] {param},
  %x: Tensor[Float64, (B, 3, 4), 1] {batch = 0}
) {
  %rows = Reshape(%x, [-1, 4])
  %h = MatMul(%rows, %w1)
  %y = MatMul(%h, %w2)
  return %y
}
"""


WRITTEN = """
func @block(%x: Tensor[Float64, (4, 3, 4)], %w: Tensor[Float64, (4, 4)]) {
  %rows: Tensor[Float64, (12, 4)] = Reshape(%x, [12, 4])
  %h = MatMul(%rows, %w)
  %z = Reshape(%h, [4, 3, 4])
  return %z
}

func @main(
  %w1: Tensor[Float64, (4, 4), 1] {param}, %w2: Tensor[Float64, (4, 4), 1] {param},
  %b: Tensor[Float64, (4,), 1] {param}, %x: Tensor[Float64, (4, 3, 4), 1] {batch = 0}
) {
  %h: Tensor[Float64, (4, 3, 4)] = @block(%x, %w1)
  %every = Expand(%b, [4, 3, 4])
  %sum = Add(%h, %every)
  %y = @block(%sum, %w2)
  LOSS
  return %out
}
"""
"""A program that writes the size of its batch as a number wherever it can: in heads, in claims, in shapes."""


@pytest.mark.parametrize("microbatches", [2, 4])
@pytest.mark.parametrize("loss", ["%out = Reshape(%y, [8, -1])", "%out = ReduceMean[keepdims = false](%y)"])
@pytest.mark.parametrize("steps", [[], ["grad"]])
def test_a_batch_that_is_written_as_a_number(loss, steps, microbatches):
    module = distir.parse(WRITTEN.replace("LOSS", loss))
    if "Mean" in loss and not steps:
        return  # a mean alone is nothing that is returned part by part
    assert_equal(transform(module, *steps), 2, microbatches)


@pytest.mark.parametrize("microbatches", [1, 2])
def test_a_stage_that_sees_the_named_batch_only_as_part_of_a_product(microbatches):
    made = assert_equal(distir.parse(ROWS), 2, microbatches, bind={"B": 4})
    assert simulated(made, B=4).latency_s > 0
    double = distir.parse(ROWS.replace("(B,", "(2*B,"))
    assert_equal(double, 2, microbatches, bind={"B": 4})


WITH_PLACES = """
func @Layer(%x: Tensor[Float64, (B, 5, 4)], %table: Tensor[Float64, (5, 4)], %w: Tensor[Float64, (4, 4)]) {
  %place = MatMul(%table, %w)
  %a = Add(%x, %place)
  %y = MatMul(%a, %w)
  return %y
}

func @main(
  %table: Tensor[Float64, (5, 4), 1] {param},
  %w1: Tensor[Float64, (4, 4), 1] {param},
  %w2: Tensor[Float64, (4, 4), 1] {param},
  %x: Tensor[Float64, (B, 5, 4), 1] {batch = 0}
) {
  %a = @Layer(%x, %table, %w1)
  %b = @Layer(%a, %table, %w2)
  return %b
}
"""


def test_a_product_of_what_is_summed_over_the_batch_is_a_term_of_a_sum_inside_a_layer():
    """The gradient of `%table` is a sum over the batch, times a weight, in the function of a layer."""
    step = transform(distir.parse(WITH_PLACES), "grad")
    assert any(isinstance(s, Apply) and s.op == "Gemm" for s in step.functions["LayerGrad"].body)
    assert_equal(step, 2, 2, {"B": 4})


ADDED = """
func @Pooled(%x: Tensor[Float64, (B, 5, 4)], %w: Tensor[Float64, (4, 4)], %bias: Tensor[Float64, (4,)]) {
  %sum = ReduceSum[keepdims = false](%x, [0])
  %y = Gemm(%sum, %w, %bias)
  return %y
}

func @main(
  %w1: Tensor[Float64, (4, 4), 1] {param},
  %w2: Tensor[Float64, (4, 4), 1] {param},
  %bias: Tensor[Float64, (4,), 1] {param},
  %x: Tensor[Float64, (B, 5, 4), 1] {batch = 0}
) {
  %a = MatMul(%x, %w1)
  %b = @Pooled(%a, %w2, %bias)
  return %b
}
"""


def test_an_addend_counts_once_not_once_for_each_microbatch():
    assert_equal(distir.parse(ADDED), 1, 2, {"B": 4})
    assert_equal(distir.parse(ADDED.replace("%w, %bias)\n", "%w)\n")), 1, 2, {"B": 4})


MASKED = ADDED.replace(
    "%y = Gemm(%sum, %w, %bias)", "%seen = Greater(%w, 0.0)\n  %y = Where(%seen, %sum, OTHERWISE)"
).replace("(%x, [0])", "(%x, [0, 1])")


def test_a_masked_sum_is_the_same_whatever_is_put_in_for_what_is_masked():
    assert_equal(distir.parse(MASKED.replace("OTHERWISE", "0.0")), 1, 2, {"B": 4})
    assert_equal(distir.parse(MASKED.replace("OTHERWISE", "1.0")), 1, 2, {"B": 4})


GATHERED_ON_THE_WAY = """
func @Grad(%x: Tensor[Float64, (B, 4)], %dy: Tensor[Float64, (B, 4)], %w: Tensor[Float64, (4, 4)], %dw) {
  %dx = Gemm[transB = true](%dy, %w)
  %own = Gemm[transA = true](%x, %dy)
  %sum = Add(%dw, %own)
  return %dx, %sum
}

func @main(
  %w: Tensor[Float64, (4, 4), 1] {param},
  %x: Tensor[Float64, (B, 4), 1] {batch = 0},
  %target: Tensor[Float64, (B, 4), 1] {batch = 0}
) {
  %a = MatMul(%x, %w)
  %b = MatMul(%a, %w)
  %db = Sub(%b, %target)
  %last = Gemm[transA = true](%a, %db)
  %da = Gemm[transB = true](%db, %w)
  %dx, %dw = @Grad(%x, %da, %w, %last)
  %w_new = SGD(%w, %dw)
  return %w_new, %dx
}
"""


def test_a_layer_adds_to_the_gradient_of_a_weight_that_it_shares():
    """It takes a sum over the batch and a part of it: of a microbatch, the term of that sum."""
    assert_equal(distir.parse(GATHERED_ON_THE_WAY), 2, 2, {"B": 4})


SIDE_RESULT = """
func @Layer(%x: Tensor[Float32, (B, 4)], %w: Tensor[Float32, (4, 4)]) {
  %h = MatMul(%x, %w)
  %twice = Mul(%w, 2.0)
  return %h, %twice
}

func @main(
  %w1: Tensor[Float32, (4, 4), 1] {param},
  %w2: Tensor[Float32, (4, 4), 1] {param},
  %x: Tensor[Float32, (B, 4), 1] {batch = 0}
) {
  %a, %t = @Layer(%x, %w1)
  %u = Relu(%t)
  %b, _ = @Layer(%a, %w2)
  %c = MatMul(%b, %u)
  return %c, %u
}
"""


@pytest.mark.parametrize("devices", [1, 2])
def test_what_a_layer_computes_of_weights_alone_is_used_behind_it(devices):
    assert_equal(distir.parse(SIDE_RESULT), devices, 2, {"B": 4})
