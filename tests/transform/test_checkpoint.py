"""Checkpointing: results stay, memory falls, time rises, and the paper's listing comes out."""

import re
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sharding_samples import EXAMPLES, VIT, assert_same, llama, mlp_with_tuples, small_gpt2
from thorough import most_examples

import distir
from distir.analysis.provenance import without_facts
from distir.diagnostics import ProgramError
from distir.ir import Apply, Call
from distir.models import gpt2, mlp
from distir.simulate import simulate
from distir.transform import StepError, transform


def steps(module, *words):
    for word in words:
        module = transform(module, *word.split())
    return module


def paper():
    return distir.parse((EXAMPLES / "mlp_no_checkpointing.dir").read_text())


def small_paper():
    text = (EXAMPLES / "mlp_no_checkpointing.dir").read_text().replace("Float32", "Float64")
    return distir.parse(text.replace("16384", "16").replace("8192", "8").replace("512", "4"))


def calls(module, function):
    return [s for s in module.entry().body if isinstance(s, Call) and s.function == function]


def peak(module):
    return max(use.peak_memory_bytes for use in simulate(module).devices.values())


MODELS = {
    "the paper's mlp": small_paper,
    "mlp with tuples": mlp_with_tuples,
    "mlp training": lambda: mlp(5, 8, 16, "Float64", training=True),
    "gpt-2 training": lambda: transform(small_gpt2(layers=3, positions=5), "grad", optimizer="adam"),
    "llama training": lambda: transform(llama(), "grad"),
    "vision transformer training": lambda: transform(distir.parse(VIT), "grad", optimizer="momentum"),
}
KEEPING = ("gpt-2 training", "llama training", "vision transformer training")
"""Models whose blocks keep something inside."""


@pytest.mark.each_once
@pytest.mark.parametrize("count", ["2", "3", "100"])
@pytest.mark.parametrize("name", MODELS)
def test_results_stay(name, count):
    module = MODELS[name]()
    assert_same(module, steps(module, f"checkpoint={count}"))


@pytest.mark.parametrize("name", KEEPING)
def test_results_stay_by_blocks(name):
    module = MODELS[name]()
    found = steps(module, "checkpoint=block")
    assert_same(module, found)
    assert found == steps(module, "checkpoint=1")


@pytest.mark.each_once
@pytest.mark.parametrize(
    "after",
    [
        ("dp=2",),
        ("tp=2",),
        ("tp=2", "dp=2"),
        ("dp=2", "zero=1"),
        ("tp=2", "dp=2", "zero=3 partition=split"),
        ("pp=2 microbatches=2",),
        ("pp=2 microbatches=2", "dp=2", "zero=2"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("name", ["mlp training", "gpt-2 training"])
def test_results_stay_on_many_devices(name, after):
    module = MODELS[name]()
    assert_same(module, steps(module, "checkpoint=2", *after))


@settings(max_examples=most_examples(25), deadline=None)
@given(
    widths=st.lists(st.integers(1, 5), min_size=3, max_size=6),
    activation=st.sampled_from(["Relu", "Gelu", "Tanh"]),
    count=st.integers(1, 5),
)
def test_results_stay_for_any_perceptron_without_functions(widths, activation, count):
    params = [f"%w{i}: Tensor[Float64, ({n}, {m}), 1] {{param}}" for i, (n, m) in enumerate(pairwise(widths))]
    params.append(f"%x: Tensor[Float64, (4, {widths[0]}), 1] {{batch = 0}}")
    body, x = [], "x"
    for i in range(len(widths) - 1):
        body += [f"%h{i} = MatMul(%{x}, %w{i})", f"%a{i} = {activation}(%h{i})"]
        x = f"a{i}"
    text = f"func @main({', '.join(params)}) {{\n" + "\n".join(body) + f"\nreturn %{x}\n}}"
    module = transform(distir.parse(text), "grad")
    try:
        found = steps(module, f"checkpoint={count}")
    except ProgramError as error:
        assert [d.code.number for d in error.diagnostics] == ["DIR680"]  # noqa: PT017
    else:
        assert found != module
        assert_same(module, found)


def test_layers_may_share_their_weights():
    """The way forward uses the same weights again: that is no reason to recompute on it."""
    layers = "\n".join(f"%x{i + 1} = @layer(%w, %x{i})" for i in range(4))
    text = f"""
        func @layer(%w, %x) {{
          %h = MatMul(%x, %w)
          %y = Gelu(%h)
          return %y
        }}
        func @main(%w: Tensor[Float64, (6, 6), 1] {{param}}, %x0: Tensor[Float64, (4, 6), 1] {{batch = 0}}) {{
          {layers}
          return %x4
        }}"""
    module = transform(distir.parse(text), "grad")
    found = steps(module, "checkpoint=2")
    assert_same(module, found)
    back = ["Grad" in s.function for s in found.entry().body if isinstance(s, Call)]
    assert back == [False] * 4 + [False, False, True, True] * 2


# What the programs look like


def test_it_gives_the_listing_of_the_paper():
    listing = distir.parse((EXAMPLES / "mlp_checkpointing.dir").read_text())
    text = distir.format(steps(paper(), "checkpoint=2")).replace("@mlp(", "@mlp_GradientCheckpointing(")
    renamed = re.sub(r"%as_again\b", "%as_b", re.sub(r"%as\b", "%as_f", text))
    assert distir.parse(renamed) == listing


@pytest.mark.parametrize("count", [1, 2, 3])
def test_each_block_is_recomputed_once_and_in_front_of_its_own_way_back(count):
    module = transform(small_gpt2(layers=6, positions=5), "grad")
    found = steps(module, f"checkpoint={count}")
    assert len(calls(found, "layer")) == 2 * 6
    order = [s.function for s in found.entry().body if isinstance(s, Call)]
    run = ["layer"] * count + ["layerGrad"] * count
    assert order == ["layer"] * 6 + run * (6 // count)


def test_functions_are_shared_not_copied():
    module = transform(small_gpt2(layers=6, positions=5), "grad")
    found = steps(module, "checkpoint=2")
    assert [f for f in found if f.name != "main"] == [f for f in module if f.name != "main"]


# Memory and time


def deep():
    return mlp(24, 64, 4096, "Float64", training=True)


@pytest.mark.parametrize("count", [2, 4, 6, 12])
def test_memory_falls_and_time_rises(count):
    module = deep()
    found = steps(module, f"checkpoint={count}")
    assert peak(found) < peak(module)
    assert simulate(found).latency_s > simulate(module).latency_s


def test_about_the_root_of_the_number_of_layers_is_best():
    """What passes between n of L blocks is kept L/n times, and n of them at once on the way back."""
    by_count = {n: peak(steps(deep(), f"checkpoint={n}")) for n in (2, 4, 6, 12, 24)}
    assert min(by_count, key=lambda n: by_count[n]) in (4, 6)


def test_recomputing_blocks_leaves_what_passes_between_them():
    module = transform(small_gpt2(layers=8, positions=5, vocabulary=12), "grad")
    assert peak(steps(module, "checkpoint=block")) < 0.8 * peak(module)


@pytest.mark.parametrize("part", [0.99, 0.9, 0.8, 0.7])
def test_a_memory_target_is_kept(part):
    module = deep()
    target = int(part * peak(module))
    assert peak(steps(module, f"checkpoint={target}B")) <= target


def test_a_program_that_fits_is_left_alone():
    assert steps(deep(), "checkpoint=80GB") == deep()


def test_of_what_fits_the_fastest_is_taken():
    module = deep()
    candidates = [steps(module, f"checkpoint={n}") for n in (2, 3, 4, 6, 8, 12, 16, 24)]
    target = sorted(map(peak, candidates))[len(candidates) // 2]
    found = steps(module, f"checkpoint={target}B")
    fitting = [simulate(c).latency_s for c in candidates if peak(c) <= target]
    assert simulate(found).latency_s == min(fitting)


def training(batch=8):
    return transform(gpt2(2, 8, 2, 32, batch=batch, vocabulary=12, positions=32, dtype="Float64"), "grad")


@pytest.mark.parametrize("distribution", ["dp=2 zero=3", "tp=2", "dtp=2,1,2 microbatches=2"])
def test_what_has_to_fit_is_each_device_of_the_program_with_the_steps_behind(distribution):
    """A mixture of recomputations does, not of everything; on one device it would take more than is given."""
    module = training()
    plain, full = (transform(module, *words, *distribution.split()) for words in ((), ("checkpoint=full",)))
    target = (peak(plain) + peak(full)) // 2
    assert peak(full) < target < peak(plain)
    found = transform(module, f"checkpoint={target}B", *distribution.split())
    assert peak(found) <= target < peak(module)
    assert simulate(found).latency_s < simulate(full).latency_s
    assert_same(transform(module, *distribution.split()), found)


def test_steps_behind_that_fit_leave_the_program_alone():
    module = training()
    target = peak(transform(module, "dp=4"))
    assert target < peak(module)
    assert transform(module, f"checkpoint={target}B", "dp=4") == transform(module, "dp=4")


def test_a_target_is_that_of_the_machine_that_has_the_devices():
    """Where the machine of `checkpoint` lacks them, of the one that a later step names."""
    module = training(16)
    words = ("dtp=16,1,1", "representative=true", "hardware=dgx-a100x2")
    found = transform(module, "checkpoint=80GB", *words)
    assert found == transform(module, *words)


def test_a_step_behind_that_refuses_says_so_itself():
    with pytest.raises(ProgramError, match="does not"):
        transform(training(), "checkpoint=80GB", "dp=3")
    with pytest.raises(ProgramError, match="at least") as raised:
        transform(training(), "checkpoint=1kB", "dp=2")
    assert number_of(raised) == "DIR681"


# Refusals


def number_of(error):
    (problem,) = error.value.diagnostics
    return problem.code.number


@pytest.mark.parametrize(
    "module",
    [lambda: mlp(4, 8, 8, "Float64"), lambda: mlp(4, 8, 8, "Float64", training=True), small_paper],
    ids=["inference", "blocks that keep nothing inside", "the paper's"],
)
def test_nothing_to_recompute(module):
    with pytest.raises(ProgramError) as raised:
        steps(module(), "checkpoint=block")
    assert number_of(raised) == "DIR680"


def test_a_target_that_cannot_be_reached_says_what_can():
    with pytest.raises(ProgramError, match="at least, `checkpoint=") as raised:
        steps(deep(), "checkpoint=1MB")
    assert number_of(raised) == "DIR681"
    assert "`checkpoint=16GB dp=8 zero=3`" in str(raised.value.diagnostics[0].help)


@pytest.mark.parametrize("before", ["dp=2", "tp=2", "pp=2 microbatches=2"])
def test_a_distributed_program_is_refused(before):
    with pytest.raises(ProgramError) as raised:
        steps(mlp(4, 8, 8, "Float64", training=True), before, "checkpoint=2")
    assert number_of(raised) == "DIR605"


def test_a_target_needs_sizes():
    with pytest.raises(ProgramError, match="`B` has no size"):
        steps(mlp(4, 8, None, "Float64", training=True), "checkpoint=4GB")


@pytest.mark.parametrize("words", ["checkpoint=0", "checkpoint=layers", "checkpoint=-3GB", "checkpoint=4 GB"])
def test_what_is_no_choice_is_refused(words):
    with pytest.raises(StepError):
        steps(deep(), words)


# In a pipeline


def passes(module):
    """By function of a stage: how many layers it runs forward, and how many back."""
    found = {}
    for function in module:
        if function.name.startswith("stage_"):
            called = [s.function for s in function.body if isinstance(s, Call)]
            found[function.name] = (called.count("layer"), len([c for c in called if c.startswith("layerGrad")]))
    return found


@pytest.mark.parametrize("count", [1, 2, 3])
def test_what_is_recomputed_makes_no_difference_to_the_stages(count):
    """Each stage recomputes its own layers, and begins with what it was sent: also where a run lies on both sides."""
    module = transform(small_gpt2(layers=6, positions=5), "grad")
    made = steps(module, f"checkpoint={count}", "pp=2 microbatches=2")
    found = passes(made)
    assert found["stage_1_forward"] == found["stage_2_forward"] == (3, 0)
    assert found["stage_1_backward"] == found["stage_2_backward"] == (3, 3)
    assert_same(module, made)


def test_gradients_of_a_checkpointed_pipeline_are_summed_over_replicas_once():
    module = transform(small_gpt2(layers=4, positions=5), "grad")
    weights = len([p for p in module.entry().params if "param" in p.roles])
    for schedule in ("1f1b", "zb-h1"):
        made = steps(module, "checkpoint", f"pp=2 microbatches=2 schedule={schedule}", "dp=2")
        sums = [s for f in made for s in f.body if getattr(s, "op", None) == "MPIAllreduce"]
        assert len(sums) == weights + 1, "the loss too"
        assert_same(module, steps(made, "zero=2"))


@pytest.mark.parametrize("words", [("checkpoint=1",), ("checkpoint=2",), ("offload=activations",)], ids=" ".join)
@pytest.mark.parametrize("name", KEEPING)
def test_what_is_recomputed_does_not_depend_on_what_was_stated(name, words):
    """Layers that are functions are found without facts."""
    stated = MODELS[name]()
    bare = without_facts(stated)
    assert without_facts(transform(bare, *words)) == without_facts(transform(stated, *words))


def test_blocks_of_a_program_without_functions_are_its_layers():
    """Where layers are stated; else each matrix is one."""
    module = transform(small_gpt2(layers=4, positions=5), "grad", optimizer="adam")
    found = transform(transform(module, "inline"), "checkpoint=2")
    norms = (s for s in found.entry().body if isinstance(s, Apply) and s.op == "LayerNormalization")
    ran = Counter((s.facts.phase, s.facts.layer) for s in norms)
    assert ran["forward", 2] == ran["backward", 2] > 0  # recomputed in the second pass, with the first layer
    assert_same(module, found)


def test_of_blocks_that_are_recomputed_the_inputs_are_offloaded():
    """The second and the third block's; the first one computes its own, and the last one's are needed at once."""
    module = steps(transform(small_gpt2(layers=4, positions=5), "grad"), "checkpoint=1", "offload=activations")
    assert sum(isinstance(s, Apply) and s.op == "Offload" for s in module.entry().body) == 2


def test_a_backward_pass_without_gradient_ops_uses_weights_again():
    """As of frameworks that differentiate to plain ops."""
    text = """
        func @main(%w1: Tensor[Float64, (4, 4), 1] {param}, %w2: Tensor[Float64, (4, 4), 1] {param},
                   %x: Tensor[Float64, (2, 4), 1] {batch = 0}) {
          %1 = MatMul(%x, %w1)
          %2 = Tanh(%1)
          %3 = MatMul(%2, %w2)
          %4 = Transpose(%w2)
          %5 = MatMul(%3, %4)
          %6 = Mul(%2, %5)
          %7 = Transpose(%x)
          %8 = MatMul(%7, %6)
          return %3, %8
        }"""
    module = distir.parse(text)
    found = steps(module, "checkpoint=2")
    assert sum(isinstance(s, Apply) and s.op == "Tanh" for s in found.entry().body) == 2
    assert_same(module, found)
