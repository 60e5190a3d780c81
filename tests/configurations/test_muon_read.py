"""Muon in configurations of frameworks: read as the optimizer of the job, and written as each framework says it."""

import pytest
from drawn_jobs import changed, job_of

from distir.configurations import FORMATS, Supplied
from distir.models import PUBLISHED

MODEL = "--num-layers 2 --hidden-size 256 --num-attention-heads 4 --seq-length 128 --vocab-size 512 --bf16"
BATCH = "--micro-batch-size 1 --global-batch-size 8"

READ = [
    ("megatron", f"{MODEL} {BATCH} --optimizer dist_muon", "muon", 1),
    ("megatron", f"{MODEL} {BATCH} --optimizer muon", "muon", 0),
    ("megatron", f"{MODEL} {BATCH} --optimizer adam --use-distributed-optimizer", "", 1),
    ("megatron-bridge", "optimizer: {optimizer: dist_muon}\ntrain: {micro_batch_size: 1}\n", "muon", 1),
    (
        "deepspeed",
        '{"optimizer": {"type": "Muon"}, "zero_optimization": {"stage": 1}, "bf16": {"enabled": true}}',
        "muon",
        1,
    ),
    (
        "deepspeed",
        '{"optimizer": {"type": "AdamW"}, "zero_optimization": {"stage": 1}, "bf16": {"enabled": true}}',
        "",
        1,
    ),
    ("torchtitan", '[optimizer]\nname = "Muon"\n[model]\nname = "llama3"\nflavor = "8B"\n', "muon", 3),
]


@pytest.mark.parametrize(("format", "text", "optimizer", "zero"), READ)
def test_the_optimizer_is_read(format, text, optimizer, zero):
    read = FORMATS[format].read(text, "job", Supplied(gpus=8, model=PUBLISHED["llama3-8b"], name="llama3-8b"))
    assert (read.job.strategy.optimizer, read.job.strategy.zero) == (optimizer, zero)
    assert not any("optimizer" in note.text for note in read.notes)


def test_shards_that_megatron_orthogonalises_by_themselves_are_noted():
    text = f"{MODEL} {BATCH} --optimizer dist_muon --tensor-model-parallel-size 2"
    read = FORMATS["megatron"].read(text, "job", Supplied(gpus=8))
    assert any("orthogonalised together" in note.text for note in read.notes)
    exact = FORMATS["megatron"].read(f"{text} --muon-tp-mode duplicated", "job", Supplied(gpus=8))
    assert not any("orthogonalised" in note.text for note in exact.notes)


def test_megatron_distributes_it_matrix_by_matrix():
    job = job_of(
        name="llama3-8b", model=PUBLISHED["llama3-8b"], data=8, zero=1, overlap=True, micro_batch=1, global_batch=8
    )
    muon = FORMATS["megatron"].write(changed(job, optimizer="muon")).text
    assert "--optimizer dist_muon" in muon
    assert "--use-distributed-optimizer" not in muon
    assert "--overlap-param-gather" not in muon
    assert "--use-distributed-optimizer" in FORMATS["megatron"].write(job).text


@pytest.mark.parametrize("format", ["megatron", "megatron-bridge", "deepspeed"])
def test_what_is_written_is_read_again(format):
    job = job_of(name="llama3-8b", model=PUBLISHED["llama3-8b"], data=8, zero=1, micro_batch=1, global_batch=8)
    written = FORMATS[format].write(changed(job, optimizer="muon")).text
    read = FORMATS[format].read(written, "job", Supplied(gpus=8, model=job.model, name=job.name)).job
    assert (read.strategy.optimizer, read.strategy.zero) == ("muon", 1)
