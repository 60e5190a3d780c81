"""Steps that come before others are refused behind them, whether the program comes from a step or a file."""

import subprocess
import sys

import pytest
from declared_chains import MODELS

import distir
from distir.diagnostics import ProgramError
from distir.ir import Apply
from distir.transform import STEPS, reference, transform, verify
from distir.transform.all_steps import HOMES
from distir.transform.steps import in_order

REFUSED = {
    "grad fuse checkpoint=products": "`checkpoint=products`, then `fuse`",
    "grad fuse checkpoint=2": "`checkpoint=2`, then `fuse`",
    "grad tp=2 offload=activations": "`offload=activations`, then `accumulate`, `cp`, `dp`, `dtp`, `ep`, `mesh`, `pp`",
    "grad cp=4 offload=activations": "`offload=activations`, then",
    "accumulate=1 pp=1": "`pp=1`, then `cp`, `dp`, `ep`, `mesh` or `tp`",
    "pp=1 accumulate=2": "`accumulate=2`, then",
    "dp=2 grad": "`grad`, then",
    "grad seeded": "`seeded`, then `grad`",
    "grad attention=written": "`attention=written`, then `grad`",
    "grad optimizer=adam offload=optimizer pp=2 microbatches=2": "`pp=2`, then `offload=optimizer`",
}


@pytest.fixture(scope="module")
def llama():
    return MODELS["llama"]()


@pytest.mark.parametrize("words", REFUSED)
def test_a_step_behind_one_that_it_comes_before_is_refused_with_the_order(llama, words):
    with pytest.raises(ProgramError) as raised:
        transform(llama, *words.split())
    (found,) = raised.value.diagnostics
    assert found.code.number == "DIR605"
    assert f"the order is {REFUSED[words]}" in found.help


def test_what_a_file_shows_of_earlier_steps_counts(llama):
    written = distir.parse(distir.format(transform(llama, "grad", "fuse")))
    with pytest.raises(ProgramError, match="comes before the steps that form kernels"):
        transform(written, "checkpoint=full")


def test_the_order_of_a_chain_and_the_documentation_follow_from_the_declaration():
    names = [step.name for step in in_order(STEPS.values())]
    for first, then in (("offload", "dp"), ("checkpoint", "fuse"), ("seeded", "grad"), ("grad", "pp"), ("cse", "dtp")):
        assert names.index(first) < names.index(then)
    assert "Comes after `checkpoint`" in STEPS["fuse"].documentation
    assert "before the steps that form kernels: `fuse`" in STEPS["checkpoint"].documentation


@pytest.mark.parametrize("stage", ["zero=2", "zero=3 partition=split"])
def test_sums_of_stages_are_partitioned_too(llama, stage):
    words = f"grad dtp=2,1,2 microbatches=4 sums=stage {stage}".split()
    assert verify(reference(llama, words), transform(llama, *words)).equal


def test_a_cut_may_go_through_a_recomputed_block(llama):
    outlined = transform(llama, "inline", "grad", "outline=2", "checkpoint=2")
    words = ["pp=3", "microbatches=4", "balance=cost"]
    assert verify(outlined, transform(outlined, *words)).equal


def test_sinks_of_a_layer_with_a_named_batch_are_written_out():
    model = MODELS["gpt-oss"]()
    assert verify(model, transform(model, "attention=written")).equal


def test_a_fixed_loss_scale_that_no_pass_uses_has_its_place_in_a_pipeline():
    words = ["decompose=Attention", "grad", "loss_scale=2", "dtp=1,1,2"]
    model = MODELS["gemma2"]()
    assert verify(reference(model, words), transform(model, *words)).equal


@pytest.mark.parametrize("optimizer", ["sgd", "none"])
def test_what_gradients_of_the_whole_batch_take_belongs_to_the_backward_pass(optimizer):
    """Microbatches cut the blocks of `fp8=mx`; residuals stay on the host of their stage until it fetches them."""
    words = ["fp8=mx", "grad", f"optimizer={optimizer}", "offload=activations", "layers=2", "pp=2", "microbatches=2"]
    model = MODELS["mlp"]()
    found = transform(model, *words)
    assert verify(reference(model, words), found).equal
    where = {f.name for f in found for s in f.body if isinstance(s, Apply) and s.op in ("Fetch", "DequantizeFloat8")}
    assert where
    assert all(name.endswith("_backward") for name in where)


def test_residuals_are_fetched_in_their_stage_though_the_head_shares_a_weight():
    words = ["grad", "offload=activations", "pp=2", "microbatches=2"]
    model = MODELS["gemma2"]()
    assert verify(reference(model, words), transform(model, *words)).equal


def test_each_step_is_registered_where_it_is_looked_for():
    ours = {name: step.transform.__module__ for name, step in STEPS.items() if name in HOMES}
    assert {name: module.split(".")[2] for name, module in ours.items()} == HOMES
    assert [name for name, step in STEPS.items() if step.transform.__module__.startswith("distir.")] == [*ours]


def test_a_step_is_found_without_importing_the_others():
    code = (
        "import sys; from distir.transform import STEPS; STEPS['dce']; assert 'tp' in STEPS; "
        "print(*(n for n in sys.modules if n in ('distir.transform.dead_code', 'distir.transform.pipeline')))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["distir.transform.dead_code"]
