"""`distir search --framework`: what it prints, what it refuses, and that its figures are those of export and import."""

import re

import pytest

SMALL = ("search", "llama3-8b", "--layers", "2", "--seq", "256", "--hardware", "dgx-h100", "--devices", "4")
BATCH = ("--global-batch", "16", "--dp", "2", "--tp", "2", "--pp", "1", "--cp", "1", "--micro-batch", "2")
FEW = (*BATCH, "--zero", "1", "--checkpoint", "off", "--method", "grid", "--jobs", "1")


def test_its_figures_are_those_of_export_and_import(distir, tmp_path):
    rows, job = tmp_path / "rows.csv", tmp_path / "job.sh"
    ended = distir(*SMALL, *FEW, "--framework", "megatron", "--csv", rows)
    assert ended.code == 0
    assert "as megatron runs them" in ended.out
    assert "not tried, as megatron lacks it" in ended.out
    assert "ideal" not in ended.out
    exported = distir("export", "megatron", rows, "-o", job)
    assert exported.code == 0
    seconds = re.search(r"as megatron runs it on dgx-h100: (.+?) a step;", exported.err + exported.out)
    assert seconds, exported
    assert seconds[1] in ended.out
    assert seconds[1] in distir("import", "megatron", job, "--hardware", "dgx-h100", "--gpus", "4").out


def test_without_a_framework_it_says_that_it_is_ideal(distir):
    ended = distir(*SMALL, *FEW, "--sequence-parallel", "--no-fuse", "--overlap", "--no-explain")
    assert "ideal: no framework's costs" in ended.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--framework", "torchtitn"), ("there is no framework `torchtitn`", "did you mean `torchtitan`? there are")),
        (("--framework", "nanotron"), ("there is no framework `nanotron`", "there are torchtitan, torchtitan-python,")),
        (("--framework", "accelerate"), ("`accelerate` is read, not written",)),
        (("--framework", "megatron", "--schedule", "zb-h1"), ("megatron has no schedule zb-h1", "it has 1f1b")),
        (("--framework", "megatron", "--no-fuse"), ("`--fuse`: megatron has no fuse off", "it has on")),
        (("--framework", "megatron", "--fp8", "block"), ("`--fp8 block`: megatron scales", "`--fp8 delayed`, or")),
        (("--framework", "megatron", "--explain"), ("`--framework` excludes `--explain`",)),
        (("--framework", "megatron", "--apply", "grad"), ("`--framework` excludes `--apply`",)),
    ],
)
def test_what_a_framework_has_not_is_refused(distir, words, said):
    ended = distir(*SMALL, *(() if "--apply" in words else ("--global-batch", "16")), *words)
    assert ended.code == 2
    for text in said:
        assert text in ended.err


def test_a_program_has_no_framework(distir, tmp_path):
    program = tmp_path / "mlp.dir"
    assert distir("model", "mlp", "-o", program).code == 0
    ended = distir("search", program, "--framework", "megatron")
    assert ended.code == 2
    assert "`--framework` is for decoders by their names" in ended.err
